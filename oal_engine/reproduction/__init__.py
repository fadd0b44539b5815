"""The published tables, run again."""
