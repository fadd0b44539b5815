"""Read bibliographic references in the formats RIS, PubMed (MEDLINE), Web of Science and BibTeX."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from .foreign import foreign
from .parsed import BROKEN, Cells, ParsedFile, cell_text
from .sources import Source

COLUMNS = ("title", "abstract", "authors", "year", "journal", "keywords", "doi", "url", "id")
RIS_NAMES = {
    "title": ("title", "primary_title", "short_title"),
    "abstract": ("abstract", "notes_abstract"),
    "authors": ("authors", "first_authors"),
    "year": ("year", "publication_year"),
    "journal": ("journal_name", "secondary_title", "alternate_title3", "alternate_title2"),
    "keywords": ("keywords",),
    "doi": ("doi",),
    "url": ("urls", "url"),
    "id": ("accession_number", "id"),
}  # column: its names in rispy
TAGS = {  # other formats of references: the pattern of a line, and the RIS tag for each tag; the first begins a record
    "medline": (
        re.compile(r"([A-Z]{2,4}) *- (.*)"),
        {
            "PMID": "AN", "TI": "TI", "BTI": "ST", "AB": "AB", "OAB": "N2", "AU": "AU", "DP": "PY", "JT": "JO",
            "MH": "KW", "OT": "KW", "LID": "DO", "AID": "DO",
        },
    ),
    "wos": (
        re.compile(r"([A-Z][A-Z\d]) (.*)"),
        {"PT": "M3", "TI": "TI", "AB": "AB", "AU": "AU", "PY": "PY", "SO": "JO", "DE": "KW", "DI": "DO", "UT": "AN"},
    ),
}  # fmt: skip
OTHER_IDENTIFIER = re.compile(r"(?!.*\[doi\]$).*\[\w+\]$")  # of PubMed, such as `S0140-6736(20)30183-5 [pii]`
BIBTEX_NAMES = {
    "authors": ("author",),
    "year": ("year", "date"),
    "journal": ("journal", "journaltitle", "booktitle"),
}  # column: its fields, if these have other names
BIBTEX_NOTES = ("note", "annote", "annotation")
LATEX = re.compile(r"[\\{}~]|--|``|''")  # commands, groups and the like; decoding changes nothing else, and is slow
UNESCAPED_PERCENT = re.compile(r"(?<!\\)%")  # databases write it for a percent sign; LaTeX begins a comment with it
DECISIONS = (
    r"ASReview_(relevant|irrelevant)\b",
    r'=>\s*\\?"(Included|Excluded|Maybe)\\?"',
)  # in notes of ASReview and Rayyan
OWN_FACT = re.compile(
    r"OAL (label|predicted|score|origin|asking_probability): (.*)"
)  # in notes and keywords of exports
Reference: TypeAlias = tuple[int, Cells | str, dict[str, str]]  # line, cells of COLUMNS or why there are none, facts


@foreign
def ris(source: Source) -> ParsedFile:
    """Read references in RIS, the format that most databases and reference managers write."""
    return _ris_table(source, source.lines())


def tagged(source: Source, format: str) -> ParsedFile:
    """Read references from PubMed (medline) or Web of Science (wos), by translating their tags to RIS."""
    return _ris_table(source, _as_ris(map(str.rstrip, source.lines()), *TAGS[format]))


def _as_ris(lines: Iterable[str], pattern: re.Pattern[str], tags: dict[str, str]) -> Iterator[str]:
    """Translate the tags of records to RIS. The first of the tags begins a record."""
    first, begun, value = next(iter(tags)), False, list[str]()
    for line in lines:
        tag = pattern.fullmatch(line)
        if value and not tag and line.startswith(" "):  # the value continues
            value.append(line.strip())
            continue
        if value:
            yield " ".join(value)
        value = []
        if tag and tag[1] == first:
            if begun:
                yield "ER  - "
            yield "TY  - JOUR"
            begun = True
        ris_tag = tags.get(tag[1], "") if tag and begun else ""
        if tag and ris_tag and not (ris_tag == "DO" and OTHER_IDENTIFIER.fullmatch(tag[2])):
            value = [f"{ris_tag}  - {tag[2].removesuffix(' [doi]')}"]
    yield from (" ".join(value), "ER  - ")


def _ris_table(source: Source, lines: Iterable[str]) -> ParsedFile:
    """Parse the lines of a RIS file."""
    import rispy

    entries = rispy.RisParser(skip_unknown_tags=True).parse_lines(_whole_values(lines))

    def cell(entry: dict[str, Any], column: str) -> str:
        value = next((entry[name] for name in RIS_NAMES[column] if entry.get(name)), "")
        return "; ".join(map(str, value)) if isinstance(value, list) else str(value)

    rows: list[Reference] = []
    for number, entry in enumerate(entries, 1):
        facts = {"included": _decision(entry.get("notes", ()))} | _own_facts(entry)
        rows.append((number, [cell(entry, name) for name in COLUMNS], facts))
    return _table(rows)


def _whole_values(lines: Iterable[str]) -> Iterator[str]:
    """Join the lines of each value of RIS, as rispy would at the cost of a copy for each line. The further lines of a
    list are elements of it."""
    from rispy.config import DELIMITED_TAG_MAPPING, LIST_TYPE_TAGS

    value, in_list = list[str](), False
    for line in lines:
        if line[2:5] == "  -":
            in_list = line[:2] in (*LIST_TYPE_TAGS, *DELIMITED_TAG_MAPPING)
        elif value and not in_list:
            value.append(line.strip())
            continue
        if value:
            yield " ".join(value)
        value = [line.rstrip()]
    yield " ".join(value)


def _own_facts(entry: dict[str, Any]) -> dict[str, str]:
    """Return the facts, such as the label, that OAL Studio wrote into the notes and keywords of a reference when it
    exported it: {name: value}. Remove them from the keywords."""
    matches = [OWN_FACT.fullmatch(word) for name in ("notes", "keywords") for word in entry.get(name, ())]
    if "keywords" in entry:
        entry["keywords"] = [word for word in entry["keywords"] if not OWN_FACT.fullmatch(word)]
    return {fact[1]: fact[2] for fact in matches if fact}


def looks_bibtex(lines: list[str]) -> bool:
    """Tell whether lines are the beginning of a BibTeX file, perhaps after comments."""
    kinds = (
        r"(?i)@(article|book|inproceedings|conference|misc|inbook|incollection|\w*thesis|techreport|unpublished)\s*\{"
    )
    entries = [line for line in map(str.strip, lines) if line.startswith("@")]
    return any(re.match(kinds, line) for line in entries) and lines[0].strip().startswith(("@", "%"))


@foreign
def bibtex(source: Source) -> ParsedFile:
    """Read references in BibTeX. LaTeX commands become characters; an entry that cannot be read is a broken row."""
    import bibtexparser
    from bibtexparser import middlewares, model

    logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)  # broken entries are reported with their lines
    text = source.text()
    source.limits.check("items", text.count("@"), source.name)
    library = bibtexparser.parse_string(text, parse_stack=[middlewares.ResolveStringReferencesMiddleware()])
    enclosing, latex = middlewares.RemoveEnclosingMiddleware(), middlewares.LatexDecodingMiddleware()
    rows: list[Reference] = []
    for block in library.blocks:
        line = (block.start_line or 0) + 1
        failed = isinstance(block, model.ParsingFailedBlock)
        # An entry whose key or field is repeated can be used.
        entry = getattr(block, "ignore_error_block", block)
        if isinstance(entry, model.Entry):
            enclosing.transform_entry(entry, library)
            commands = [field for field in entry.fields if LATEX.search(field.value)]
            for field in commands:
                field.value = UNESCAPED_PERCENT.sub(r"\%", field.value)
            latex.transform_entry(model.Entry(entry.entry_type, entry.key, commands), library)  # changes the fields
            fields = {field.key.casefold(): " ".join(field.value.split()) for field in entry.fields}
            fields["id"] = entry.key
            names = ((column, *BIBTEX_NAMES.get(column, ())) for column in COLUMNS)
            decision = _decision(filter(None, map(fields.get, BIBTEX_NOTES)))
            cells = [next(filter(None, map(fields.get, each)), "") for each in names]
            rows.append((line, cells, {"included": decision}))
        elif failed:
            rows.append((line, BROKEN, {}))
    return _table(rows)


def _table(references: Sequence[Reference]) -> ParsedFile:
    """Make a table of references. The facts that any of them has are its last columns: the screening decision
    (`included`), and the facts that OAL Studio exported. An exported label is left out if there are decisions."""
    further = dict.fromkeys(name for _, _, facts in references for name in facts)
    if not any(facts.get("included") for _, _, facts in references):
        further.pop("included", None)
    elif "label" in further:
        del further["label"]
    rows = (
        (line, cells if isinstance(cells, str) else [*cells, *(facts.get(name, "") for name in further)])
        for line, cells, facts in references
    )
    return ParsedFile([*COLUMNS, *further], rows)


def with_noted_decisions(parsed: ParsedFile, words: Mapping[str, Sequence[str]]) -> ParsedFile:
    """Add a column `included` to a table whose column `notes` holds screening decisions in its first rows, as in
    exports from Rayyan. words: the first rows, {column: words}."""
    notes = next((column for column in words if column.strip().casefold() == "notes"), None)
    if notes is None or "included" in words or not any(_decision([word]) for word in words[notes]):
        return parsed
    at = parsed.columns.index(notes)
    return parsed.with_cells(["included"], lambda _, cells: [_decision([cell_text(cells[at])])])


def _decision(notes: Iterable[str]) -> str:
    """Find the screening decision in ASReview or Rayyan notes: yes, no, or "" if there is none or they disagree."""
    decisions = {word.casefold() for note in notes for pattern in DECISIONS for word in re.findall(pattern, note)}
    one = decisions.pop() if len(decisions) == 1 else ""
    return "yes" if one in ("relevant", "included") else "no" if one in ("irrelevant", "excluded") else ""
