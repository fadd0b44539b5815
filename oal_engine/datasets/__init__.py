"""Data sets: import a file once, then map its rows into memory."""

from .features.table import TEXT_FEATURES, FeatureTable, file_table, made_rows, relabelled, table
from .importing import MARK, ImportRequest, add, import_file, import_in_progress, remove, report, sweep
from .stored import Dataset, DatasetRecord, columns_of, fingerprint, labelled, mapped, named_features
