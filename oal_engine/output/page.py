"""Pages of HTML that need neither scripts nor a network, and the tables in them."""

import html
from collections.abc import Iterable, Sequence

TABLE_STYLE = """.oal-table{overflow-x:auto}.oal-table table{border-collapse:collapse;width:100%;font-size:.92rem;
font-variant-numeric:tabular-nums}.oal-table td,.oal-table th{padding:.28rem .5rem;text-align:right;
border-bottom:1px solid rgba(128,128,128,.25);white-space:nowrap}.oal-table th:first-child,.oal-table td.words,
.oal-table th.words{text-align:left}.oal-table th{font-weight:600}.oal-table tbody th{font-weight:400}
.oal-table small{opacity:.75}
.oal-table th.words{min-width:9rem}.oal-table td.words{white-space:normal;min-width:7rem;font-size:.85rem;opacity:.85}
.oal-table .best b{font-weight:750}.oal-table .level u{text-decoration-thickness:1.5px;text-underline-offset:3px}"""
WORDS = dict.fromkeys(
    ("Settings", "Data", "Budget", "Words", "First label", "Now", "By"), ' class="words"'
)  # columns of text, not of numbers
PAGE_STYLE = """:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;color:#1c2024;background:#fff;
max-width:70rem;margin:2rem auto;padding:0 1.2rem}h1{font-size:1.6rem;margin:0}
h2{font-size:1.15rem;margin:2.2rem 0 .5rem}
h1,h2,p,td,th{overflow-wrap:anywhere}figure{margin:.8rem 0;display:grid;gap:1rem;
grid-template-columns:repeat(auto-fit,minmax(min(24rem,100%),1fr))}svg{max-width:100%;height:auto}
figure svg{width:100%}.wide{overflow-x:auto}.wide svg{max-width:none}
pre{background:rgba(128,128,128,.12);padding:1rem;overflow-x:auto;font-size:.85rem}
summary{cursor:pointer;margin:.5rem 0}.about{color:#4a5158}
@media (prefers-color-scheme:dark){body{color:#e6e8ea;background:#14171a}.about{color:#b3bac1}}"""
INK = "#010203"  # color of lines and text in figures; `inline` replaces it by the color of the page's text
NO_REQUESTS = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table. The cells of `rows` must be HTML from `head_cell`, `word_cell` or `figure_cell`."""
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    heads = "".join(f'<th scope="col" dir="auto"{WORDS.get(each, "")}>{html.escape(each)}</th>' for each in head)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="oal-table" tabindex="0">{table}</div>'


def word_cell(text: object) -> str:
    """Return a table cell that holds text."""
    return f'<td class="words">{html.escape(str(text))}</td>'


def head_cell(text: object) -> str:
    """Return the header cell of a table row."""
    return f'<th scope="row" dir="auto">{html.escape(str(text))}</th>'


def figure_cell(text: object) -> str:
    """Return a table cell that holds a number."""
    return f"<td>{html.escape(str(text))}</td>"


def sentence(words: str) -> str:
    """Return a paragraph of HTML with these words."""
    return f'<p class="about">{html.escape(words)}</p>'


def inline(svg: bytes) -> str:
    """Turn an SVG file into an HTML element. Everything drawn in INK gets the color of the text around it."""
    return svg[svg.index(b"<svg") :].decode().replace(INK, "currentColor")


def document(title: str, parts: Iterable[str]) -> bytes:
    """Return a page as UTF-8: a title above `parts`, which must be HTML. It needs neither scripts nor a network."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{NO_REQUESTS}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{PAGE_STYLE}{TABLE_STYLE}</style></head>"
        f'<body><h1 dir="auto">{html.escape(title)}</h1>{"".join(parts)}</body></html>'
    ).encode()
