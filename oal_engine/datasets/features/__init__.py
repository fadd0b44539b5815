"""Compute the features of the rows of a data set: terms, similar wording, embeddings, numbers."""

TEXT_FEATURES = {
    "rich+latent": "Words, parts, similar wording",
    "rich": "Words and parts",
    "words": "Words alone",
}
VECTOR_FEATURES = {
    "plain": "Columns alone",
    "fourier": "Columns and waves",
}
SCALINGS = {
    "l2": "every row to unit length",
    "none": "as they are",
    "standardize+l2": "every column to mean 0 and deviation 1 over the whole file, then every row to unit length",
}
