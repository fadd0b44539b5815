"""The executor of comparisons, under the name by which the workers of a cluster import it: docs/cluster.md."""

from .experiments.cluster import executor

__all__ = ["executor"]
