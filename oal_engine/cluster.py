"""The name by which workers of a cluster import the executor of comparisons: docs/cluster.md."""

from .experiments.cluster import executor

__all__ = ["executor"]
