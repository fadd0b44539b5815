"""Comparisons: from one specification of data, algorithms, budgets and tuning to reproducible results."""

from .comparison import Comparison, load
from .running import begin, compare, planned_runs
from .sources import data_name, labeled_data, sources
from .specifications import ExperimentError, Specification, chosen, grid, specification
from .tuned_runs import Result, TunedRun
from .worker import Job, job_key
