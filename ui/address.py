"""What the address of a page says of its widgets. Each is bound to it by its key: what differs from the usual is in the
address, and opening the address shows the same; what makes no sense is left out, with a sentence."""

from collections.abc import Iterable
from math import isinf, nan
from sys import float_info
from typing import Final, Literal

import streamlit as st

from .page import complain

BOUND: Final[Literal["query-params"]] = "query-params"
LISTED = 12  # options in a sentence
LONGEST_WORD = 80  # of an address in a sentence


def check_choice(key: str, name: str, options: Iterable[str], most: int | None = None) -> None:
    """Say which options, of a choice of this key and name, the address names though there are none such, and whether
    they are more than can be chosen."""
    known, words = [*options], st.query_params.get_all(key)
    if most and len(words) > most:
        complain(f"{name} in the address must be at most {most}. Got {len(words)}.")
    for word in words:
        if word not in known:
            more = f" and {len(known) - LISTED:,} more" * (len(known) > LISTED)
            complain(
                f"{name} in the address must be one of {', '.join(known[:LISTED])}{more}. Got {word[:LONGEST_WORD]}."
            )


def check_number(
    key: str, name: str, low: float = -float_info.max, high: float = float_info.max
) -> Literal["query-params"] | None:
    """Say what the address gives a field of this key and name that is no number of its range. Return what binds the
    field to the address: nothing where the address has an infinite number, at which Streamlit fails."""
    bind: Literal["query-params"] | None = BOUND
    for word in st.query_params.get_all(key):
        try:
            value = float(word)
        except ValueError:
            value = nan
        if isinf(value):
            st.query_params.pop(key, None)
            bind = None
        if not low <= value <= high:
            allowed = "a number" if low == -high else f"a number from {low:,} to {high:,}"
            complain(f"{name} in the address must be {allowed}. Got {word[:LONGEST_WORD]}.")
    return bind
