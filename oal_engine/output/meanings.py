"""Meanings of the terms on the pages, shown on hover or tap."""

MEANINGS = {
    "pushed": "The model called these positive, and you were not asked.",
    "push": "Counts every item as the model predicted it: a reader sees only the items predicted as positive.",
    "push-and-query": (
        "Counts the items that you were asked about as seen by a reader too, whatever the model predicted. With "
        "several classes they all count as right: with the label of the file where it has one, else with your answer."
    ),
    "Weighted sum": (
        "Sensitivity and specificity, averaged by their weights: 1 is perfect, and with equal weights 0.5 is as good "
        "as chance."
    ),
    "F1": "One number for precision and sensitivity (their harmonic mean): high only if both are high.",
    "Cost": "The price of all misses and false alarms: less is better.",
    "Sensitivity": "The share of the positive items that were found.",
    "Specificity": "The share of the negative items that were left out.",
    "Precision": "The share of positive items among the items that were found.",
    "Accuracy": "The share of items whose class was predicted correctly.",
    "Macro F1": "F1 of each class, averaged over the classes.",
    "Balanced accuracy": "The share of each class that was recognized, averaged over the classes.",
    "Query ratio": "The share of the items whose label was asked: less is better.",
    "Time (s)": "Processor time that a run has taken up to each item: less is better.",
}
