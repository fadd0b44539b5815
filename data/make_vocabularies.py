"""Write the vocabulary of each demo stream next to its file: run `python -m data.make_vocabularies` after
make_demo.py."""

import json

from oal_engine.datasets import demo, reading
from oal_engine.datasets.features import vectorizer


def vocabulary_bytes(shown):
    """Return the vocabulary of a demo's texts as JSON bytes."""
    found = vectorizer.fit(reading.read(demo.FOLDER / shown.file, shown.columns).texts, tokenizer="tweets")
    terms = [[term, int(count)] for term, count in zip(found.terms, found.document_frequency)]
    text = json.dumps({"documents": found.documents, "settings": found.settings, "terms": terms}, ensure_ascii=False)
    return (text.replace("], [", "],\n[") + "\n").encode("utf-8")


if __name__ == "__main__":
    for shown in demo.DEMOS.values():
        shown.vocabulary_file.write_bytes(vocabulary_bytes(shown))
