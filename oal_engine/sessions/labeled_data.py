"""Store the labels of a session as a data set of its own, on which a comparison can run."""

import numpy as np

from .. import datasets
from ..datasets import reading
from ..kernel import rows
from ..store import Store
from .look_back import Trace
from .one_question import QuestionTrace


def labeled_dataset(store: Store, session: int, question: str | None = None, owner: str = "") -> str:
    """Store the items of a session that have an answer or a known label, with these labels. Return the name of the data
    set, which is made once for each state of the session.

    question: one of several questions about each item. owner: the only person who may see the data set ("": everybody).
    """
    trace = Trace(store, session)
    run = QuestionTrace(trace, question) if question else trace
    labels = {each.item: each.label for each in run.state.lessons if each.label and (each.number or each.is_known)}
    settings = trace.settings
    title = f"{settings.name}, {question}" if question else settings.name
    name = f"{title}: {len(labels):,} labels ({trace.state.digest()[:4]})"
    if store.has_dataset(name):
        return name
    data, positions = trace.dataset, np.array(sorted(labels), np.int64)
    y = np.array([labels[item] for item in positions.tolist()], np.int8)
    stored = store.items(data.id, positions.tolist(), texts=True)
    cells = [stored[item] for item in positions.tolist()]
    is_text = data.vocabulary is not None
    chosen_rows = rows.take(data.rows, positions)
    items = reading.Items(
        [cell["id"] for cell in cells], [cell["text"] for cell in cells] if is_text else None,
        None if is_text else rows.matrix(chosen_rows), data.feature_names, [run.names[each] for each in y.tolist()],
        y, {}, tuple(settings.classes or ()),
    )  # fmt: skip
    table = datasets.FeatureTable(
        chosen_rows, y, items, data.vocabulary, data.scaling, items.classes, data.projection, data.encoder
    )
    datasets.add(store, name, table, data.record["source"], owner=owner)
    return name
