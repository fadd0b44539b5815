"""Compute the features of the rows of a data set: terms, similar wording, embeddings, numbers."""
