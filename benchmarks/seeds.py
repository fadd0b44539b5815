"""Measure the value of prior knowledge: F1 of `auto` with words, example texts, scores or a model, and without any. Run
`python benchmarks/seeds.py`.

Every number is a mean over several random orders, in percent. Example texts are items of the rare class, which are
drawn for each order and left out of it; the words were chosen by hand before anything was run; scores are the truth
with normal noise, also drawn for each order.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import table

from oal_engine import datasets
from oal_engine.datasets import demo, prior, reading
from oal_engine.experiments.replays import ReplayOptions, replay
from oal_engine.kernel import spending, stream
from oal_engine.kernel.algorithms import strategy

SHARED = Path(__file__).parents[2] / "shared" / "data"
LABELS = (30, 100, 300)
ABSTRACTS = {"text": ("title", "abstract"), "label": "label_included", "positive": ("1",)}
MOMENTS = {"text": ("moment",), "label": "concepts", "id": "hmid", "contains": True}
FILES = {  # the file, its columns, four words
    "sms": ("sms_spam_collection.tsv.xz", {"text": ("c2",), "label": "c1", "positive": ("spam",)},
            "free call txt prize"),
    "exercise": ("happymoments.csv.xz", MOMENTS | {"positive": ("exercise",)}, "gym workout exercise run"),
    "animals": ("happymoments.csv.xz", MOMENTS | {"positive": ("animals",)}, "dog cat puppy pet"),
    "food": ("happymoments.csv.xz", MOMENTS | {"positive": ("food",)}, "dinner food ate delicious"),
    "heart": ("ohsumed_single23.jsonl.xz", {"text": ("text",), "label": "label", "positive": ("C14",)},
              "coronary heart myocardial hypertension"),
    "tumours": ("ohsumed_single23.jsonl.xz", {"text": ("text",), "label": "label", "positive": ("C04",)},
                "cancer tumor carcinoma tumors"),
    "space": ("20news_bydate.jsonl.xz", {"text": ("text",), "label": "label", "positive": ("sci.space",)},
              "space nasa orbit launch"),
    "nudging": ("sysrev_Nagtegaal_2019.csv.xz", ABSTRACTS, "nudge nudging default reminders"),
    "ACE inhibitors": ("sysrev_cohen2006_ACEInhibitors.csv.xz", ABSTRACTS,
                       "enalapril captopril lisinopril hypertension"),
}  # fmt: skip
DISTANCE = 1.19  # between the mean scores of both classes, in deviations of the noise: an AUC of 0.8
WAYS = ("nothing", "1 text", "3 texts", "10 texts", "1 word", "4 words", "scores", "model")
AUTO = strategy("auto")


def sources(quick):
    """Yield (name, data, four words of the rare class) of each stream: the demo, or the shared files that exist."""
    if quick:
        shown = demo.DEMOS["tweets"]
        items = reading.read(demo.FOLDER / shown.file, shown.columns)
        words = ["life", "grateful", "proud", "content"]
        yield "tweets", datasets.table(items, vocabulary=demo.read_vocabulary(shown)), words
    for name, (file, columns, words) in () if quick else FILES.items():
        if (SHARED / file).is_file():
            items = reading.read(SHARED / file, reading.Columns(**columns))
            yield name, datasets.table(items), words.split()


def known(data, way, words, seed):
    """Return the prior knowledge of the kind `way` (one of WAYS), and the items that it is taken from."""
    if way == "scores":
        noisy = np.random.default_rng(seed).normal(size=data.y.size) + DISTANCE * (data.y > 0)
        return prior.make_prior(data, scores=dict(zip(data.items.ids, noisy.tolist()))), []
    if way == "model":  # from a session with 300 labels on one half of the items; the other half is tested
        half, (learner, rule) = stream.shuffled(data.y.size, seed)[::2], AUTO.build(data.rows.columns)
        plan = spending.plan(AUTO.rule, 300, half.size)
        stream.replay(data.rows, data.y, half, learner, rule, stream.objective(), seed=seed, plan=plan)
        return prior.make_prior(data, model=("half", dict(zip(data.vocabulary.terms, learner.w.tolist())))), half
    count, _, kind = way.partition(" ")
    if kind.startswith("word"):
        return prior.make_prior(data, words[: int(count)]), []
    positives = np.flatnonzero(data.y > 0)
    drawn = positives[stream.shuffled(positives.size, seed)[: int(count) if kind else 0]]
    return prior.make_prior(data, texts=[data.items.texts[row][: prior.LONGEST_TEXT] for row in drawn]), drawn


def measure(quick, orders, first):
    """Return {(stream, number of labels): {way: mean F1 under push, in percent}}."""
    means = defaultdict(dict)
    for name, data, words in sources(quick):
        for budget in LABELS:
            for way in WAYS:
                scores = []
                for seed in range(first, first + orders):
                    begun, drawn = known(data, way, words, seed)
                    order = stream.shuffled(data.y.size, seed)
                    order = order[~np.isin(order, drawn)]
                    options = ReplayOptions(rho="laplace", budget=budget, seed=seed, prior=begun)
                    done = replay(AUTO, data, [order], options)
                    scores.append(done["mean"]["push"]["f1"])
                means[name, budget][way] = 100 * float(np.mean(scores))
    return means


def main(
    quick: Annotated[bool, typer.Option("--quick", help="The demo only, for a trial.")] = False,
    orders: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 10,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first order.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Measure the value of prior knowledge for each number of labels, by stream and on average."""
    means = measure(quick, orders, first)
    lines = [
        {"stream": name, "labels": labels} | means[name, labels] for labels in LABELS
        for name, budget in means if budget == labels
    ]  # fmt: skip
    for labels in LABELS:
        own = [line for line in lines if line["labels"] == labels]
        lines.append({"stream": "mean", "labels": labels} | {way: np.mean([line[way] for line in own]) for way in WAYS})
    if as_json:
        print(json.dumps(lines))
        return
    rows = [[line["stream"], line["labels"], *(f"{line[way]:.1f}" for way in WAYS)] for line in lines]
    print("\n".join(table(("stream", "labels", *WAYS), rows)))


if __name__ == "__main__":
    typer.run(main)
