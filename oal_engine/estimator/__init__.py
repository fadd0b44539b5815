"""The engine as a scikit-learn estimator."""

from .classifier import OnlineActiveClassifier

__all__ = ["OnlineActiveClassifier"]
