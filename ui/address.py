"""Widgets bound by their keys to query parameters in the address of a page: defaults are omitted from the address,
opening an address restores the widgets, and invalid values are ignored with a message."""

from collections.abc import Iterable
from math import isinf, nan
from sys import float_info
from typing import Final, Literal

import streamlit as st

from .page import complain

BOUND: Final[Literal["query-params"]] = "query-params"
MAX_OPTIONS = 12  # options listed in a message
MAX_VALUE_CHARACTERS = 80  # quoted in a message


def check_choice(key: str, name: str, options: Iterable[str], most: int | None = None) -> None:
    """Show an error for each option in the address that does not exist, and one if there are more options than `most`.

    key: the widget's key, which is also its name in the address. name: the widget's label, quoted in the error.
    """
    known_options, values = [*options], st.query_params.get_all(key)
    if most and len(values) > most:
        complain(f"{name} in the address must be at most {most}. Got {len(values)}.")
    for value in values:
        if value not in known_options:
            first, n_more = ", ".join(known_options[:MAX_OPTIONS]), len(known_options) - MAX_OPTIONS
            more = f" and {n_more:,} more" * (n_more > 0)
            complain(f"{name} in the address must be one of {first}{more}. Got {value[:MAX_VALUE_CHARACTERS]}.")


def check_number(
    key: str, name: str, low: float = -float_info.max, high: float = float_info.max
) -> Literal["query-params"] | None:
    """Show an error for each value in the address that is not a number from `low` to `high`.

    Return `bind` for the number field, or None if the address has an infinite number, on which Streamlit fails.
    """
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
            complain(f"{name} in the address must be {allowed}. Got {word[:MAX_VALUE_CHARACTERS]}.")
    return bind
