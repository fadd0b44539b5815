"""The name under which workers of a cluster know the executor of comparisons: docs/cluster.md."""

from .experiments.cluster import executor

__all__ = ["executor"]
