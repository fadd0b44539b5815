"""Texts that contain markup of every kind, to test escaping, and a parser of pages."""

from html.parser import HTMLParser

MARKUP = '<img src=x onerror="window.pwned=1"> **bold** $x$ :red[x]'
RUN = "img[src=x], strong, .katex, [style*='color: var(--red'], .stMarkdownColoredText"
EVIL = '<script>x</script> & $y$ _z% {\\a} ~^#|" \x07\u0001 =1+1 漢\u202e'


class Page(HTMLParser):
    """The tags of a page, the addresses that a browser would open, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.addresses, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [
            value for key, value in attributes if key in ("src", "href", "xlink:href", "data", "action") and value
        ]

    def handle_data(self, data):
        self.text += data
