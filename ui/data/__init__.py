"""The Data page, and the questions about a file."""
