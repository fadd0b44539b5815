"""What a published page holds: its data, and whether its browser would run and fetch nothing else."""

import hashlib
import json
import re
from base64 import b64encode


def held(page):
    """The data in a page, which stand in it once, without anything that could end them."""
    (data,) = re.findall(r'<script type="application/json" id="data">([^<]*)</script>', page.decode())
    return json.loads(data)


def is_sealed(page):
    """Whether a page may run nothing but its one script, and fetch nothing at all."""
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
