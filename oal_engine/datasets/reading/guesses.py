"""Guess the roles of the columns of a table from their names and their words in the first rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ...output.tables import (
    CLASS,
    LABEL,
    PREDICTED,
    SCORE,
    SKIPPED,
    TEXT,
    TITLE_AND_ABSTRACT,
    contents_of,
    is_labeled,
    numbers_of,
)
from .codings import MAX_WORDS, NO_NUMBER, NUMBER_SHARE, Coding, are_dates, coding_of, formatted_number
from .labels import HASH, PAIRS, gaps_among, label_parts, parts, plain
from .parsed import Columns, counted, is_number, text_of
from .sources import SAMPLE_ROWS
from .tables import are_consecutive, kind_of_name

TEXT_NAMES = r"text|full_text|tokens|words|tweet|message|content|sentence|body|document|comment|review|post"
TITLES = {"title", "ti", "document title", "article title", "item title", "primary title", "subject"}
ABSTRACTS = {"abstract", "ab", "abstract note", "notes abstract", "abstracts", "body"}
CODE = re.compile(r"(?=.*\d)[A-Za-z0-9_.:/-]+")
PHRASE_WORDS = 8  # mean of a column, up to which repeated cells are a category and not texts
NO_TEXTS = re.compile(r"((full|first|last|passenger|customer|client|patient)[_ ]?)?name|address|ticket")
VECTOR_NUMBERS = 3  # needed for a list to be a vector: fewer may be labels
SEPARATORS = re.compile(r"[\[\],|]")  # between the numbers of a list that is written as text
WORDS = r"(label|class|target|y|categor(y|ies)|topics?|tags?|concepts?|mesh|sentiment|relevant|included)"
LABEL_NAMES = [re.compile(each) for each in (rf"(is_)?{WORDS}", rf".*[_ ]{WORDS}", rf"(.*[_ ])?{WORDS}[_ ].*")]
RIVALS = re.compile(r"(.*[_ ])?(label|class|target|sentiment|relevant|included)")  # two such columns are two labels
MODELS = re.compile(r"(?<![a-z])(llm|(chat)?gpt|(model|pred(icted|ictions?)?|scores?|judged?|auto(matic)?)(?![a-z]))")
OUTCOMES = re.compile(  # in a table without texts
    r"outcome|survived|churn(ed)?|exited|attrition|diagnosis|(is_?)?fraud|(in_?)?default(ed)?|income|deposit|response"
    r"|result|decision|approved|(loan_)?status|purchased|stroke|readmitted|creditability|risk|credit_risk|poisonous"
)
RATINGS = re.compile(
    r"(.*[_ ])?(rating|star|polarity|emotion|intent|stance)s?|((user|review|star|critic)[_ ]?)?(score|grade)s?|overall"
)
NO_CLASSES = re.compile(r"(.*[_ ])?(gender|sex|id)")  # columns of two words that are rarely the label
MOST_RATINGS = 10  # different numbers of a column that could be labels
LABEL_CHARACTERS = 300  # up to which a cell may hold several labels
NO_LABELS = re.compile(
    r"(.*[_ ])?(time|timezone|zone|date|created|created_at|location|coord|country|city|user|name|author"
    r"|source|url|link|doi|year|journal|split)"
)
LANGUAGES = re.compile(r"(.*[_ ])?(language|lang)")  # could be the label only if no other column could
NO_IDS = re.compile(r"(.*[_ ])?(paid|valid|invalid|bid|said|humid|grid|fluid|acid|solid|covid|aid|kid|mid|hybrid)")
LONG_NUMBER = 6  # digits
PARTS = re.compile(
    r"(train|test|dev|val|eval|part|data|chunk|split|shard|file|sheet)(?![a-z])|[^a-z]*\d"
)  # names of parts
SOURCE = "source"  # the column that names the file of each row in an archive of tables
SERIAL = re.compile(r"|c1|unnamed: 0|index|__index_level_0__|row|nr|no|number|#")  # columns that may number the rows

Words: TypeAlias = dict[str, tuple[str, ...]]  # column: its cells in the first rows


def numeric_columns(words: Words) -> tuple[str, ...]:
    """Return the columns of numbers; some of their cells may be missing."""
    columns = list[str]()
    for column, cells in words.items():
        odd = [cell for cell in cells if not is_number(cell)]
        few = len(odd) <= (1 - NUMBER_SHARE) * len(cells)
        if len(odd) < len(cells) and (few or all(cell.strip().casefold() in NO_NUMBER for cell in odd)):
            columns.append(column)
    return tuple(columns)


def coded_columns(words: Words, numeric: Collection[str]) -> dict[str, Coding]:
    """Return {column: coding} for the columns whose words can become numbers, in a table without texts."""
    codings = {column: coding_of(cells) for column, cells in words.items() if column not in numeric}
    return {column: coding for column, coding in codings.items() if coding is not None}


def gaps_of(cells: Sequence[str], coding: Coding | None = None) -> str:
    """List the cells of a column of numbers that are not numbers, the most frequent first ("" if all are numbers)."""
    if isinstance(coding, str):
        odd = Counter(cell.strip() for cell in cells if formatted_number(cell, coding) is None)
    else:
        odd = Counter(cell.strip() for cell in cells if not is_number(cell) or isnan(float(cell)))
    return counted({repr(cell): count for cell, count in odd.items()}, 3) if odd else ""


def several_labels(cells: Sequence[str]) -> str | None:
    """Return the most frequent cell that seems to hold several labels, such as a|b. Return None unless most
    of the pieces between separators recur, as labels would."""
    for separator in (r"\|", ";", ",", HASH):
        cut = {cell: parts(cell, separator) for cell in dict.fromkeys(cells)}
        several = [cell for cell, words in cut.items() if len(words) > 1]
        if not several or max(map(len, several)) > LABEL_CHARACTERS:
            continue
        # `|` always separates labels; a frequent label may itself contain a comma.
        counts = Counter(part for cell in (cells if separator == r"\|" else cut) for part in cut[cell])
        words = [part for cell in several for part in cut[cell]]
        if sum(counts[word] > 1 for word in words) > len(words) / 2 and not all(map(is_number, words)):
            return max(several, key=cells.count)
    return None


def question_names(columns: Words, label: str | None, sets: bool) -> list[str]:
    """Guess the names of the yes/no questions that a table answers per item, the one with the most positives first.

    They are the words of the label column; else the columns of words such as 1 and 0, if there are two or more; else
    the words of a column whose cells hold several labels. sets: whether label cells are known to hold several labels.
    """
    yeses = _topics(columns[label], sets) if label in columns else {}
    if not yeses:
        counts = {name: Counter(map(plain, cells)) for name, cells in columns.items()}
        pairs = {
            name: words[positive]
            for name, words in counts.items()
            for positive, negative in PAIRS
            if words.keys() - NO_NUMBER == {positive, negative}
        }
        several = (words for name in columns if (words := _topics(columns[name], False, exclusive=False)))
        yeses = pairs if len(pairs) > 1 else next(several, {})
    return sorted(yeses, key=yeses.__getitem__, reverse=True)


def _topics(cells: Sequence[str], sets: bool, exclusive: bool = True) -> dict[str, int]:
    """Count the labels that occur in more than one cell. Return {} if all are numbers, or if there are too few for two
    questions: one label, or two if no cell holds several. exclusive: count them even if no cell holds several."""
    sets = sets or several_labels(cells) is not None
    if not (sets or exclusive):
        return {}
    cell_counts = Counter(label_parts(cells) if sets else cells)
    gaps = {"", *gaps_among(cell_counts)}
    counts = {word: count for word, count in cell_counts.items() if count > 1 and word not in gaps}
    return counts if len(counts) > (1 if sets else 2) and not all(map(is_number, counts)) else {}


def guess_columns(words: Words, numeric: Collection[str], named: Mapping[str, Any] = MappingProxyType({})) -> Columns:
    """Guess the role of each column; columns of lists or objects get none. In our own exports the roles are known.

    named: the roles that the user named, {"text", "label", "id" or "features": columns}. The columns that were guessed
    for them are free for other roles.
    """
    if (numbers := numbers_of([*words])) is not None:
        own = _own_columns(words, numbers)
        if named.get("label", own.label) != own.label:
            own = replace(own, multiclass=False, unknown=None)
        return replace(own, **named)
    used = {*named.get("text", ()), named.get("label"), named.get("id")}
    words = {column: cells for column, cells in words.items() if not (are_lists(cells) or _are_objects(cells))}
    coded = coded_columns(words, numeric)
    letters = {column: sum(map(len, cells)) for column, cells in words.items() if column not in numeric}
    prose = _prose_columns({column: words[column] for column in letters}, coded)
    if coded.keys() - {*prose} or numeric:
        prose = [column for column in prose if not NO_TEXTS.fullmatch(_plain_name(column))]
    id = _guess_id(words, prose)
    id = named.get("id", None if id in used else id)
    free = {column: letters[column] for column in letters if column not in used}
    constant = {column for column in free if not _varies(words[column])}
    if {*prose} & free.keys() - constant:  # next to prose, categories and codes are not texts, whatever their names
        codes = (column for column in free if all(map(CODE.fullmatch, filter(None, words[column]))))
        short = {*coded, *codes} - {*prose}
        free = {column: count for column, count in free.items() if column not in short}
    texts = named.get("text", () if "features" in named else _guess_texts(free, prose, constant))
    rest = [column for column in words if column not in (id, *texts)]
    label = named["label"] if "label" in named else _guess_label(words, rest, letters, has_texts=bool(texts))
    rest = [column for column in rest if column != label]
    features = tuple(column for column in rest if column in numeric or (column in coded and not _is_called_id(column)))
    if not (texts or features or "features" in named) and rest:  # a constant column is a text only if there is no other
        texts = (max(rest, key=lambda each: (_varies(words[each]), not are_dates(words[each]), letters[each])),)
    roles = {"text": texts, "label": label, "id": id, "features": None if texts else features}
    return Columns(**roles | dict(named), guessed=tuple(role for role in roles if roles[role] and role not in named))


def _own_columns(words: Words, numbers: tuple[str, ...]) -> Columns:
    names = TITLE_AND_ABSTRACT if contents_of([*words]) == TITLE_AND_ABSTRACT else (TEXT,)
    text = names if any(any(words.get(column, ())) for column in names) else ()
    columns = Columns(text, LABEL, "id", None if text else numbers, guessed=("id",))
    if is_labeled([*words]):
        classes = {*words[LABEL], *words[PREDICTED]} - {""}
        return replace(columns, multiclass=True, unknown=()) if len(classes) > 2 else columns
    # If there are several classes, a further column has their names.
    several = {*words[LABEL]} - {"", "1", "-1"} or any(name.startswith(SCORE) for name in words)
    return replace(columns, label=CLASS, multiclass=True, unknown=(SKIPPED,)) if several else columns


def _varies(cells: Sequence[str]) -> bool:
    """Tell whether cells are not all the same. A single cell may be anything."""
    return len(cells) < 2 or len({*cells}) > 1


def _prose_columns(words: Words, coded: Collection[str]) -> list[str]:
    """Return the columns with several words in most cells, except categories of short phrases."""
    prose = []
    for column, cells in ((column, [*map(text_of, cells)]) for column, cells in words.items()):
        lengths = [len(cell.split()) for cell in cells]
        mostly_several = sum(" " in cell.strip() for cell in cells) > len(cells) / 2
        are_phrases = column in coded and sum(lengths) <= PHRASE_WORDS * len(cells)
        if mostly_several and not are_phrases and not are_dates(filter(None, cells)):
            prose.append(column)
    return prose


def possible_labels(words: Words, columns: Columns) -> tuple[str, ...]:
    """Return the columns that could be the label and must be asked about: two that contradict each other, or, if no
    column is called like a label, those whose values could be labels."""
    if (label := columns.label) is None:
        return _label_candidates(words, columns)
    is_called = any(names.fullmatch(_plain_name(label)) for names in LABEL_NAMES[:2])
    if is_called or not columns.text or "label" not in columns.guessed:
        return _rivals(words, columns)
    candidates = _label_candidates(words, columns)
    if kind_of_name(label) == "label":
        candidates = tuple(column for column in candidates if kind_of_name(column) == "label")
    others = [each for each in candidates if not _say_the_same(words[label], words[each])]
    return (label, *others) if others else ()


def _label_candidates(words: Words, columns: Columns) -> tuple[str, ...]:
    """Return the columns besides the guessed label whose values could be labels, in the order of the table."""
    rest = {
        column: _label_words(cells)
        for column, cells in words.items()
        if column not in (*columns.text, columns.id, columns.label)
        and not NO_CLASSES.fullmatch(_plain_name(column))
        and not NO_LABELS.fullmatch(column.casefold())
    }
    languages = {column for column in rest if LANGUAGES.fullmatch(column.casefold())}
    if len(languages) < len(rest):
        rest = {column: kinds for column, kinds in rest.items() if column not in languages}
    unnamed = _are_unnamed(words)
    pairs = [
        column
        for column, kinds in rest.items()
        if kinds in map(set, PAIRS)
        or ((columns.text or unnamed) and _tells_two_apart(column, words) and not any(map(is_number, kinds)))
    ]
    if not columns.text:
        return tuple(pairs) if 2 * len(pairs) < len(rest) else ()
    few = {
        column: kinds
        for column, kinds in rest.items()
        if _has_few_words(words[column]) and len({*map(plain, words[column])}) > 1
        if 0 < len(kinds) <= (MOST_RATINGS if all(map(is_number, kinds)) else MAX_WORDS)
    }
    worded = [each for each, kinds in few.items() if kind_of_name(each) != "other" and not any(map(is_number, kinds))]
    likely = {*rest} if unnamed or len(rest) == 1 else {*worded} if len(worded) == 1 else set()
    likely |= {column for column in few if RATINGS.fullmatch(_plain_name(column)) or is_made(column)}
    ratings = [x for x, kinds in few.items() if kind_of_name(x) == "label" or (x in likely and len(kinds) > 1)]
    scores = [column for column in rest if (len(rest) == 1 or is_made(column)) and are_scores(words[column])]
    names = {Path(cell).name.casefold() for cell in words.get(SOURCE, ())}  # such as spam.csv and ham.csv
    files = [SOURCE] if len(names) > 1 and all("." in name and not PARTS.match(name) for name in names) else []
    return (*(column for column in rest if column in (*pairs, *ratings, *scores)), *files)


def _rivals(words: Words, columns: Columns) -> tuple[str, ...]:
    """Return the guessed label and the columns that are called like it and hold other labels; () if there are none."""
    label = str(columns.label)
    if "label" not in columns.guessed or not RIVALS.fullmatch(_plain_name(label)):
        return ()
    rivals = [
        column
        for column in words
        if column != label
        and RIVALS.fullmatch(_plain_name(column))
        and not is_made(column)
        and (columns.text or LABEL_NAMES[0].fullmatch(_plain_name(column)))
        and _has_few_words(words[column])
        and len(_label_words(words[column])) > 1
        and not _say_the_same(words[label], words[column])
    ]
    return (label, *rivals) if rivals else ()


def _say_the_same(cells: Sequence[str], others: Sequence[str]) -> bool:
    """Tell whether each word of a column always goes with the same word of another one, and the reverse."""
    pairs = {(plain(cell), plain(other)) for cell, other in zip(cells, others)}
    return len({cell for cell, _ in pairs}) == len(pairs) == len({other for _, other in pairs})


def is_made(column: str) -> bool:
    """Tell whether a column is called as if a model had made it."""
    return MODELS.search(re.sub(r"([a-z])([A-Z])", r"\1_\2", column).casefold()) is not None


def are_scores(cells: Sequence[str]) -> bool:
    """Tell whether cells are scores between 0 and 1, of more than a few values."""
    return are_measurements(cells) and all(0 <= float(word) <= 1 for word in _label_words(cells))


def are_measurements(cells: Sequence[str]) -> bool:
    """Tell whether cells are numbers of too many different values to be label words."""
    numbers = _label_words(cells)
    return len(numbers) > MOST_RATINGS and not _has_few_words(cells) and all(map(is_number, numbers))


def _label_words(cells: Sequence[str]) -> set[str]:
    return {*map(plain, cells)} - NO_NUMBER


def _has_few_words(cells: Sequence[str]) -> bool:
    return len({*cells}) <= min(MAX_WORDS, max(2, len(cells) / 2))


def _are_unnamed(columns: Collection[str]) -> bool:
    return all(re.fullmatch(rf"c\d+|{SOURCE}", column) for column in columns)


def are_lists(cells: Sequence[str]) -> bool:
    """Tell whether cells are lists of numbers, all of the same length and long enough to be vectors."""
    try:
        lengths = {len(numbers_in(cell)) for cell in cells if cell}
    except ValueError:
        return False
    return len(lengths) == 1 and lengths.pop() >= VECTOR_NUMBERS


def _are_objects(cells: Sequence[str]) -> bool:
    """Tell whether all nonblank cells are JSON objects."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    return bool(filled) and all(re.match(r'\{\s*"', cell) and cell.endswith("}") for cell in filled)


def numbers_in(cell: Any) -> list[float]:
    """Parse the numbers of a cell, which holds a number or a list of numbers."""
    if isinstance(cell, str) and ("[" in cell or "|" in cell):  # but not 1,5, which may have a decimal comma
        cell = SEPARATORS.sub(" ", cell).split()
    return [*map(float, cell)] if isinstance(cell, list | tuple | np.ndarray) else [float(cell)]


def _guess_id(words: Words, prose: list[str]) -> str | None:
    """Guess the id column: the first one with unique cells that is named like an id, else the first column of the
    table if it numbers the rows, or if no column has a name and its cells are long numbers."""
    called = [column for column in words if _is_called_id(column) and column not in prose]
    different = [column for column in called if len(set(words[column])) == len(words[column])]
    fitting = (column for column in different if all(cell.isdigit() or not is_number(cell) for cell in words[column]))
    first = next(iter(words), "")
    serial = len(words) > 1 and SERIAL.fullmatch(first.casefold()) and not re.fullmatch(r"c2", [*words][1])
    numbers = words[first][:SAMPLE_ROWS] if serial else ()
    nameless = first.casefold() in ("c1", "index") or first.startswith("Unnamed")  # as pandas writes an index
    if len(numbers) > 1 and (are_consecutive(numbers) or (nameless and _are_different(numbers))):
        return next(fitting, first)
    cells = words.get(first, ())
    are_long = len(cells) > 1 and all(len(cell) >= LONG_NUMBER for cell in cells)  # unlike measurements
    return next(fitting, first if are_long and _are_unnamed(words) and _are_different(cells) else None)


def _is_called_id(column: str) -> bool:
    return re.search(r"(?i)ids?$", column) is not None and not NO_IDS.fullmatch(column.casefold())


def _are_different(cells: Sequence[str]) -> bool:
    """Tell whether cells are whole numbers, all different."""
    return len({*cells}) == len(cells) and all(map(str.isdigit, cells))


def _plain_name(column: str) -> str:
    """Normalize the name of a column: lower case, no surrounding blanks, and only `inner` of `outer.inner`."""
    return column.strip().casefold().rpartition(".")[2]


def _guess_texts(letters: Mapping[str, int], prose: list[str], constant: Collection[str]) -> tuple[str, ...]:
    """Guess the text columns: title and abstract, else the first one named like a text, else the longest column of
    prose. Of a pair such as text1 and text2 both are taken. letters: {column of words: number of its letters}."""
    by_name = {_plain_name(column).replace("_", " "): column for column in letters}
    title, abstract = (next((by_name[name] for name in by_name if name in names), "") for names in (TITLES, ABSTRACTS))
    if title and abstract and not {title, abstract} <= {*constant}:
        return title, abstract
    called = [column for column in letters if re.fullmatch(TEXT_NAMES, _plain_name(column))]
    prose = [column for column in prose if column in letters and column not in constant]
    prose.sort(key=letters.__getitem__, reverse=True)
    texts = sorted([*called, *prose], key=lambda column: column in constant)[:1]
    second = next(
        (column for column in prose for text in texts if {text[:-1] + "1", text[:-1] + "2"} == {text, column}), None
    )
    return tuple(sorted([*texts, second])) if second else tuple(texts)


def _guess_label(words: Words, rest: list[str], letters: Collection[str], has_texts: bool) -> str | None:
    """Guess the label column: one named like a label, else the last or first one if it has few different words. In a
    file with texts and a header, a column of numbers is the label only if it is named like one."""
    rest = [column for column in rest if len({*words[column]}) > 1]  # a constant is not a label
    exact, has_x = LABEL_NAMES[0], "x" in map(_plain_name, words)  # x and y are coordinates
    called = [
        column
        for names in LABEL_NAMES
        for column in rest
        if names.fullmatch(_plain_name(column))
        and (not are_measurements(words[column]) or (names is exact and not (_plain_name(column) == "y" and has_x)))
    ]
    few = {column: _has_few_words(words[column]) for column in called}
    called.sort(key=lambda column: (is_made(column), not (has_texts or few[column])))
    if not has_texts:
        outcomes = (column for column in rest if OUTCOMES.fullmatch(_plain_name(column)))
        called += [column for column in outcomes if len(_label_words(words[column])) == 2]
    if called or len(words) < 2:
        return called[0] if called else None
    own = [column for column in words if column != SOURCE] or [SOURCE]
    ends = [
        column
        for column in (own[-1], own[0])
        if column in rest
        and _has_few_words(words[column])
        and not (NO_LABELS.fullmatch(column.casefold()) or LANGUAGES.fullmatch(column.casefold()))
        and not _is_called_id(column)
        and not are_dates(words[column])
    ]
    whole = [
        column
        for column in ends
        if column not in letters and all(cell.strip().lstrip("+-").isdigit() for cell in words[column])
    ]
    worded = [column for column in ends if column in letters]
    if has_texts:
        worded = [column for column in worded if _has_own_words(column, words)]
        pairs = (column for column in whole if {*map(plain, words[column])} in map(set, PAIRS))
        return next(chain(worded, pairs if _are_unnamed(words) else ()), None)
    return min(
        (column for column in ends if column in worded or column in whole),
        key=lambda column: (not _tells_two_apart(column, words), column not in worded),
        default=None,
    )


def _tells_two_apart(column: str, words: Words) -> bool:
    """Tell whether a column has exactly two words, which are numbers or a pair that no other column has."""
    kinds = _label_words(words[column])
    return len(kinds) == 2 and (all(map(is_number, kinds)) or _has_own_words(column, words))


def _has_own_words(column: str, words: Words) -> bool:
    """Tell whether no other column has the same set of words. (Several columns of yes and no share one set.)"""
    kinds = _label_words(words[column])
    return all(_label_words(words[other]) != kinds for other in words if other != column)
