"""The features behind the rows of a data set: terms, similar wording, embeddings, numbers."""
