"""The executor of comparisons, under the module name that the workers of a cluster import (see docs/cluster.md)."""

from .experiments.cluster import executor

__all__ = ["executor"]
