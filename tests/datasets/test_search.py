"""Searches find items by their words in any script, including items that are appended later."""

import io
import json
import unicodedata

import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.search import Search

TEXTS = [
    "Running in the café",
    "au lait, at the lake",
    "我今天去银行取钱了",
    "การเดินทางไปกรุงเทพ",
    "हिन्दी में लिखना",
    "at lait au",
    "東京でﾗｰﾒﾝを食べる",
    "한국어를 배운다",
    "ཡིག ２０２４",
    "कमल खिला",
    "कमाल हुआ",
    "كِتَابٌ جَدِيد",
    "كتب كثيرة",
    "שָׁלוֹם",
    "Tiếng Việt",
    "ค้า\u200bขา",
    "ค่า คา",
    "I ❤️ 1️⃣ you",
]


@pytest.fixture
def search(store, tmp_path):
    """A search over texts, each with one further column."""
    path = tmp_path / "texts.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"t{k}", "text": text, "place": f"place{k}"}) + "\n" for k, text in enumerate(TEXTS))
    )
    datasets.import_file(store, path, "texts", reading.Columns(("text",), id="id"))
    return Search(Dataset(store, "texts"))


@pytest.mark.slow
@pytest.mark.parametrize(("wanted", "found"), [
    ("run", {0}), ("CAFE", {0}), ("au lait", {1, 5}), ('"au lait"', {1}), ("lait lake", {1}), ("t3", {3}),
    ("place4", {4}), ("银行", {2}), ("กรุงเทพ", {3}), ("लिख", {4}), ("東京", {6}), ("ラーメン", {6}), ("京東", set()),
    ("取钱", {2}), ("한국", {7}), (unicodedata.normalize("NFD", "한국"), {7}), ("cafe\u0301", {0}), ("2024", {8}),
    ("हिन्दी", {4}), ("लिखना", {4}), ("खिला", {9}), ("खीला", set()), ("कमल", {9}), ("कमाल", {10}), ("कम", {9, 10}),
    ("كتاب", {11}), ("كِتَابٌ", {11}), ("كُتُب", {12}), ("שלום", {13}), ("שָׁלוֹם", {13}),
    ("tieng", {14}), ("Việt", {14}), ("ค้า", {15}), ("ค่า", {16}), ("คา", {16}), ("ขา", {15}), ('"I 1 you"', {17}),
    ("nothing", set()),
    ('"', set()), ("* ^ -", set()), ("NOT", set()),
    ('lake" OR "café', set()), ("", set()),
])  # fmt: skip
def test_words_are_found(search, wanted, found):
    """Words are found by their prefixes, ignoring case, accents and the vowel signs of Arabic and Hebrew, but not the
    marks of Hindi and Thai. Quoted words must be neighbors."""
    assert found == {*search.find(wanted)}


def test_new_items_are_found(search, store):
    """Items that are appended after a search are found by the next one."""
    assert [] == search.find("newest")
    line = json.dumps({"id": "t9", "text": "the newest of all"}).encode()
    assert 1 == sum(each.appended for each in feeds.append_lines(Dataset(store, "texts"), io.BytesIO(line)))
    search.dataset.refresh()
    assert [len(TEXTS)] == search.find("newest")
