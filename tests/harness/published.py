"""Read the data of a published page, and check that a browser would run only its script and fetch nothing."""

import hashlib
import json
import re
from base64 import b64encode


def held(page):
    """Return the data in a page. They must occur once, and must not contain `<`, which could end their script
    element."""
    (data,) = re.findall(r'<script type="application/json" id="data">([^<]*)</script>', page.decode())
    return json.loads(data)


def is_sealed(page):
    """Tell whether a page may run only its one script (by its Content-Security-Policy) and fetches nothing."""
    words = page.decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', words)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', words, re.DOTALL)
    allowed = dict(part.split(maxsplit=1) for part in policy.split("; "))
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    addresses = set(re.findall(r"https?://[^\s\"'`<)]*", words.replace(json.dumps(held(page)), "")))
    return (
        "'none'" == allowed["default-src"] == allowed["base-uri"] == allowed["form-action"]
        and f"'sha256-{digest}'" == allowed["script-src"]
        and allowed.keys() <= {"default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"}
        and addresses <= {"http://www.w3.org/2000/svg"}
    )
