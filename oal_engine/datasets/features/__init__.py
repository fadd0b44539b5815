"""What the rows of a data set are made of: terms, similar wording, embeddings, numbers."""
