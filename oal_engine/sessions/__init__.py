"""Labeling sessions: the log of a person's run over a stream of items, and everything derived from it."""
