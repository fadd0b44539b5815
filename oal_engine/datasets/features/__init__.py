"""Compute the features of the rows of a data set: terms, meaning, similar wording, numbers."""

TEXT_FEATURES = {
    "sentences": "Meaning and words",
    "e5": "Meaning in more detail, and words (20 times slower)",
    "rich+latent": "Words, parts, similar wording",
    "rich": "Words and parts",
    "words": "Words alone",
}
VECTOR_FEATURES = {
    "plain": "Columns alone",
    "fourier": "Columns and waves",
    "leaves": "Columns, waves and leaves",
}
SCALINGS = {
    "l2": "every row to unit length",
    "none": "as they are",
    "standardize+l2": "every column to mean 0 and deviation 1 over the whole file, then every row to unit length",
}
