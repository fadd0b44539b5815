"""Shared parts of the pages: the page frame, the labeling card and its server side, charts and forms."""
