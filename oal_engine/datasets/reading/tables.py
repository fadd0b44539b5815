"""Turn rows of words into a table: find its first row, its header, which name belongs to which cell, and its width."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from statistics import median
from typing import NamedTuple, TypeAlias

from ...output.tables import GUARD, is_guarded, unguarded
from .codings import NO_NUMBER
from .parsed import ABOVE, BROKEN, REPEATED, TOTALS, Doubt, Line, ParsedFile, first_rows, is_number, plural
from .sources import DataError, Source

Row: TypeAlias = tuple[int, list[str] | str]  # the line number, and the cells or the reason to skip them

PROSE_WORDS = 2  # a column with at least this mean number of words is prose
ENOUGH_ROWS = 10  # below the first row, enough to expect that its cells occur again if it is an item
RARE_SHARE = 0.1  # of the cells of a category may be words that occur once
TITLE, NAME, HINT, NUMBER, AGAIN, ALIKE = "title", "name", "hint", "number", "again", "alike"  # see `_sign`
SAY = "say whether the names belong to the first cells (--header) or there are no names (--no-header)"
MEND = (
    "mend the lines (quote a text that holds the delimiter), name another one (--delimiter), or leave the names out "
    "(--no-header)"
)
DECIMAL = re.compile(r"[-+]?\d*,\d+")
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # a thousand or more, with a comma
TOTAL = {"total", "totals", "sum", "grand total"}
WHOLE = re.compile(r"[-+]?\d+")
MARK = "\ufeff"  # may begin each part of a concatenated file


class _Head(NamedTuple):
    """The beginning of a table: a name for each column ("" if it has none), whether the first row holds these names,
    how many cells a row must at least have (blank ones are added), and the question about it ("": it is certain)."""

    names: list[str]
    is_header: bool
    least: int
    question: str = ""


def to_table(
    source: Source,
    records: Iterator[Row],
    detected: dict[str, str],
    doubts: tuple[Doubt, ...] = (),
    decimals: bool = False,
    padded: bool = False,
) -> ParsedFile:
    """Turn rows of words into a table with named columns.

    decimals: a comma in a number may be a decimal comma. padded: a short row is filled with empty cells, as in a
    spreadsheet; otherwise it is a broken row.
    """
    sample = first_rows(records, source.ahead)
    if not (good := [cells for _, cells in sample if not isinstance(cells, str)]):
        return ParsedFile([], chain(sample, records), detected=detected, doubts=doubts)
    if padded:
        for cells in good:
            cells += [""] * (max(map(len, good)) - len(cells))
    start = _rows_above(good)
    first, below = good[start], good[start + 1 :]
    head = _head_of(first, below, source.layout.header, source.name)
    width = len(head.names)
    source.limits.check("columns", width, source.name)
    if head.question:
        doubts += (Doubt("header", head.question, ("--header", "--no-header")),)
    detected = {**detected, "header": "yes" if head.is_header else "no"}
    places = [at for at, (_, cells) in enumerate(sample) if not isinstance(cells, str)]
    for at in places[:start]:
        sample[at] = sample[at][0], ABOVE
    columns, repeated = _column_names(head.names)
    rows: Iterable[Row] = chain(sample, records)
    if head.is_header:
        del sample[places[start]]
        rows = ((line, REPEATED if _bare(cells) == _bare(first) else cells) for line, cells in rows)
    if is_guarded(columns, padded):
        columns = unguarded([columns[0].removeprefix(GUARD), *columns[1:]])
        rows = ((line, cells if isinstance(cells, str) else unguarded(cells)) for line, cells in rows)
    fitting = [row for row in below if len(row) >= width] or [first]
    commas = _decimal_columns(fitting, width) if decimals else []
    if commas:
        detected["decimals"] = ","
    rows_of_width = _fit_rows(rows, width, 0 if padded else head.least, commas)
    return ParsedFile(columns, rows_of_width, detected=detected, doubts=doubts, repeated=repeated)


def _column_names(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the names of the columns, c1, c2 and so on for blank and repeated ones, and {repeated name: column}."""
    numbered = [f"c{number}" for number in range(1, len(names) + 1)]
    first_place = dict(zip(reversed(names), reversed(range(len(names)))))
    repeated = {name: numbered[at] for at, name in enumerate(names) if name and first_place[name] != at}
    return [name if name and first_place[name] == at else numbered[at] for at, name in enumerate(names)], repeated


def are_consecutive(cells: Sequence[str]) -> bool:
    """Tell whether cells are consecutive whole numbers, such as row numbers."""
    numbers = [int(cell) for cell in cells if WHOLE.fullmatch(cell)]
    return len(numbers) == len(cells) > 0 and all(after - before == 1 for before, after in pairwise(numbers))


def _bare(cells: Sequence[str]) -> list[str]:
    """Return the cells of a row without a byte order mark before them and without blank cells after them."""
    cells = [cells[0].removeprefix(MARK), *cells[1:]] if cells else []
    while cells and not cells[-1].strip():
        cells.pop()
    return cells


def _rows_above(rows: Sequence[list[str]]) -> int:
    """Count the rows above a table, such as titles and comments."""
    width = Counter(map(len, rows)).most_common(1)[0][0]
    starts = (at for at, row in enumerate(rows) if not _is_above(row, rows[at + 1 :], width))
    return next(starts, 0) if width > 1 else 0


def _is_above(row: list[str], below: Sequence[list[str]], width: int) -> bool:
    """Tell whether a row is a title or comment above a table: it fills fewer cells than the header below it, or only
    its first one of several cells."""
    filled = [at for at, cell in enumerate(row) if cell.strip()]
    if not filled or (row[0].startswith("#") and len(row) != width):
        return True
    under = next((each for each in below if any(each)), [])
    if len(under) == width and sum(map(bool, under)) > len(filled) and count_names(under) > max(1, count_names(row)):
        return True
    if len(filled) > 1:
        return False
    at = filled[0]
    has_numbers = at > 0 and all(WHOLE.fullmatch(each[0]) for each in below if len(each) == width)
    if kind_of_name(row[at]) is not None or has_numbers or 0 < at == len(row) - 1:
        return False
    return len(row) < width or width > 2


def _head_of(first: list[str], below: Sequence[list[str]], header: bool | None, name: str) -> _Head:
    """Return the head of a table. below: the rows below its first row. header: whether the first row is a header (None:
    find out). Raise DataError if names and cells do not fit together although `header` is true."""
    rows = [row for row in below if _bare(row) != _bare(first)]
    width = Counter(map(len, rows or [first])).most_common(1)[0][0]
    nameless = _Head([""] * width, False, width)
    if header is False:
        return nameless
    if not any(first[width:]):
        first = first[:width]
    columns = [[row[at] for row in rows if at < len(row)] for at in range(width)]
    shift, n_columns, trouble = _placing(first, columns)
    is_header, doubt = (True, "") if header else _is_header(first, columns[shift:], len(rows) < len(below))
    question = f"The first row of {name} {doubt} (--header or --no-header)." if doubt else ""
    if not is_header:
        return nameless._replace(question=question)
    if 2 * sum(len(_bare(row)) > n_columns for row in rows) >= max(2, len(rows)):
        trouble = MEND
    if trouble:
        n_names, n_cells = plural(len(first), "name"), plural(width, "cell")
        question = f"The header of {name} has {n_names}, the lines have {n_cells}: {trouble}."
    if trouble == MEND and header:
        raise DataError(question)
    names = [*[""] * shift, *first]
    return _Head(names + [""] * (n_columns - len(names)), True, min(n_columns, width), question)


def _placing(first: list[str], columns: Sequence[list[str]]) -> tuple[int, int, str]:
    """Tell which name belongs to which column: the number of columns before the first name, the number of all columns,
    and a request to the user if that cannot be told ("": it is certain)."""
    n_names, width = len(first), len(columns)
    if n_names == width:
        return 0, width, ""
    errors, supports = _fit(first, columns)
    is_blank = not any(map(any, columns[n_names:]))  # each row ends with a delimiter
    if is_blank and n_names < width and not errors:
        return 0, n_names, ""
    if n_names == width - 1:
        errors_of_others, supports_of_others = _fit(first, columns[1:])
        is_better = supports_of_others > (0 if errors else supports)
        if not errors_of_others and (is_better or _are_row_names(columns)):
            return 1, width, ""  # R writes no name above its row names
    if is_blank and n_names < width:
        return 0, n_names, ""
    if errors or n_names < width - 1:
        return 0, max(n_names, width), MEND
    return 0, max(n_names, width), "" if supports and n_names > width else SAY


def _are_row_names(columns: Sequence[list[str]]) -> bool:
    """Tell whether the first column seems to hold the names of rows: growing numbers, or the only words."""
    names, *others = columns
    if all(map(WHOLE.fullmatch, names)):
        return all(after > before for before, after in pairwise([0, *map(int, names)]))
    return len({*names}) == len(names) and all(map(is_number, chain(*others)))


def _fit(names: Sequence[str], columns: Iterable[list[str]]) -> tuple[int, int]:
    """Count the names that contradict the cells of their columns, and the names that fit."""
    errors = supports = 0
    for kind, cells in zip(map(kind_of_name, names), columns):
        filled = [cell for cell in cells if cell.strip()]
        n_words = sum(len(cell.split()) for cell in filled) / max(1, len(filled))
        n_different = len({*filled})
        if not filled:
            continue
        if 2 * sum(cell.startswith(" ") for cell in filled) > len(filled):
            errors += 1  # a text that is cut at its commas
        elif kind == "text":
            errors += all(map(is_number, filled))
            supports += n_words >= PROSE_WORDS
        elif kind == "label":
            errors += n_words > PROSE_WORDS and 2 * n_different > len(filled) > 2
            supports += 1 < 2 * n_different <= len(filled)
        elif kind == "id":
            errors += n_words > PROSE_WORDS
            supports += n_different == len(filled) and n_words == 1
    return errors, supports


def _is_header(first: list[str], columns: Sequence[list[str]], is_repeated: bool) -> tuple[bool, str]:
    """Tell whether the first row is a header. Also return the doubt about this decision ("": it is certain).
    is_repeated: whether the row occurs again below, as in concatenated files."""
    signs = Counter(map(_sign, first, columns))
    names, against = signs[TITLE] + signs[NAME], signs[AGAIN] + signs[ALIKE]
    numbers = [float(cell) for cell in first if is_number(cell)]
    # Numbers are names only if they are consecutive, like years, or the columns of a data frame.
    counting = len(numbers) > 1 and all(after - before == 1 for before, after in pairwise(numbers))
    doubt = f"({' | '.join(cell[:30] for cell in first[:4])}) could be names or an item: say which"
    if counting and len(numbers) == len(first) > 2:
        return True, f"counts from {first[0]} to {first[-1]}: say whether it names the columns"
    if not any(columns):
        return True, ""
    if signs[NUMBER] and not counting:
        is_odd = signs[TITLE] > 0 and not against
        return is_odd, doubt if is_odd else ""
    if against and names > against:
        return True, ""
    if signs[ALIKE]:
        return names == against, doubt if names == against or not signs[AGAIN] else ""
    if signs[AGAIN]:
        # The name of a label column may be one of its words, as in `text,toxic`.
        is_sure, is_likely = 2 * signs[TITLE] >= against, 2 * names + signs[HINT] >= against
        return is_likely, doubt if is_likely and not is_sure else ""
    if signs[TITLE] or 2 * signs[HINT] >= sum(map(bool, first)) or (names and not is_repeated):
        return True, ""
    is_likely = names + signs[HINT] > 0 or not is_repeated
    return is_likely, doubt if is_likely else ""


def _sign(cell: str, below: Sequence[str]) -> str:
    """Compare a cell of the first row with the cells below it. Return a sign that it is the name of their column
    (TITLE, NAME or HINT, the surest first), that it is a cell like them (NUMBER, AGAIN or ALIKE), or ""."""
    filled = [each for each in below if each.strip().casefold() not in NO_NUMBER]
    if filled and not cell.strip():
        return TITLE if len(filled) > 1 and are_consecutive(filled) and int(filled[0]) in (0, 1) else ""
    if not filled or cell.strip().casefold() in NO_NUMBER:
        return ""
    if is_number(cell):
        return NUMBER if any(map(is_number, filled)) else ""
    counts = Counter(filled)
    if cell in counts:
        return AGAIN
    is_name = kind_of_name(cell) is not None
    surely = TITLE if is_name else NAME
    if all(each[:1].isdigit() or is_number(each) for each in filled):
        return "" if cell[:1].isdigit() else surely
    n_words, lengths = len(cell.split()), [*map(len, filled)]
    is_prose = sum(len(each.split()) for each in filled) >= PROSE_WORDS * len(filled)
    if is_name and is_prose and 2 * len(cell) <= median(lengths):
        return TITLE
    if n_words > MAX_WORDS and is_prose:
        return ALIKE if len(cell) >= min(lengths) else ""
    if len(filled) < ENOUGH_ROWS or n_words > MAX_WORDS:
        return HINT if is_name else ""
    n_rare = sum(count == 1 for count in counts.values())
    if n_rare <= RARE_SHARE * len(filled) or 2 * len(cell) < min(lengths):
        return surely
    return HINT if is_name else ""


def _fit_rows(rows: Iterable[Row], width: int, least: int, comma_columns: list[int]) -> Iterator[Line]:
    """Fit rows to `width` cells, drop blank rows, and replace decimal commas with points. least: number of cells from
    which a row is filled with blank ones. comma_columns: indices of the columns with decimal commas."""
    for line, cells in rows:
        if isinstance(cells, str):
            yield line, cells
            continue
        if least <= len(cells) < width:
            cells += [""] * (width - len(cells))
        if len(cells) < width or any(cells[width:]):
            yield line, BROKEN
        elif width == 1 or any(cells):
            for at in comma_columns:
                cells[at] = cells[at].replace(",", ".")
            is_total = width > 1 and cells[0].casefold() in TOTAL and not all(cells[:width])
            yield line, TOTALS if is_total else cells[:width]


def _decimal_columns(rows: list[list[str]], width: int) -> list[int]:
    """Return the indices of the columns whose numbers have decimal commas."""
    comma_columns = []
    for at in range(width):
        cells = [row[at].strip() for row in rows if row[at].strip()]
        commas = sum(DECIMAL.fullmatch(cell) is not None for cell in cells)
        whole = [cell for cell in cells if WHOLE.fullmatch(cell)]
        if whole and all(len(cell) <= 3 for cell in whole) and commas == sum(map(bool, map(GROUPED.fullmatch, cells))):
            continue  # 950 and 1,234: the commas separate thousands
        if commas and 10 * (commas + len(whole)) >= 9 * len(cells):
            comma_columns.append(at)
    return comma_columns


# ---- The names that columns have in public data sets


NAMES = {
    "text": """
        text texts fulltext tweet tweets message messages content contents sentence sentences body document
        documents comment comments review reviews post posts title titles abstract abstracts headline
        headlines description summary question questions answer answers utterance query premise hypothesis
        context passage article articles caption quote statement snippet transcript lyrics plot essay email
        sms word words token tokens phrase string response prompt reason texte titre résumé resume
        commentaire avis contenu texto título titulo resumen resumo comentario comentário mensaje mensagem
        frase testo titolo riassunto commento messaggio recensione titel kommentar nachricht zusammenfassung
        beschreibung inhalt satz frage bewertung tekst artikel bericht opmerking samenvatting tytuł tytul
        treść tresc komentarz opis wiadomość zdanie nadpis názov abstrakt metin yorum başlık baslik özet
        cümle teksti otsikko rubrik szöveg cím κείμενο τίτλοσ текст комментарий сообщение заголовок отзыв
        название аннотация 文本 内容 评论 标题 摘要 句子 正文 テキスト 本文 タイトル 題名 要約
        レビュー 텍스트 제목 내용 리뷰 문장 초록 نص عنوان""",
    "label": """
        label labels class classes target targets category categories topic topics sentiment polarity intent
        emotion stance rating score stars grade tag tags gold truth included excluded include exclude
        relevant relevance decision spam toxic hate offensive sarcastic sarcasm fake fraud duplicate irony
        outcome status verdict annotation judgment judgement subjectivity aggression étiquette etiquette
        classe catégorie categorie cible sujet étiqueta etiqueta clase categoría categoria tema sentimiento
        sentimento rótulo rotulo etichetta klasse kategorie etikett thema relevanz stimmung kategoria
        etykieta klasa kategorija etiket sınıf sinif kategori luokka címke oznaka ετικέτα κατηγορία метка
        класс категория тема оценка 标签 类别 分类 情感 ラベル カテゴリ カテゴリー 分類 라벨 레이블 분류 감정 تصنيف""",
    "id": """
        id ids uuid guid index idx nr number pmid doi key rowid identifier kennung nummer numéro numero
        número 编号 番号 번호 номер""",
    "other": """
        name date time timestamp datetime year month day created author authors user username source url
        link journal keywords language lang country city location gender sex age type kind group split fold
        count price volume issue pages publisher venue datum autor auteur fecha data année jahr quelle
        sprache fuente fuentes fonte nom nombre nome land дата автор имя 日期 作者 日付 날짜 length size color
        height weight width value amount""",
}
KINDS = {word: kind for kind, words in NAMES.items() for word in words.split()}
MAX_CHARACTERS, MAX_WORDS = 60, 3  # of a name


def kind_of_name(cell: str) -> str | None:
    """Return the kind of cells below this name: text, label, id or other. None if it does not look like a name."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cell[:MAX_CHARACTERS]))
    if not 0 < len(words) <= MAX_WORDS or len(cell) > MAX_CHARACTERS or re.search(r"[!?;,\"]", cell):
        return None
    return next((KINDS[word] for word in map(str.casefold, reversed(words)) if word in KINDS), None)


def count_names(cells: Iterable[str]) -> int:
    """Count the cells that look like the names of columns."""
    return sum(kind_of_name(cell) is not None for cell in cells)
