"""The command that lists algorithms."""

from typing import Any

from ..kernel.algorithms import ALGORITHMS, declared
from ..kernel.learners import LEARNERS, is_multiclass
from ..kernel.parameters import Parameter, parameters
from ..kernel.query_rules import QUERY_RULES, partners
from .options import Json
from .terminal import show


def algorithms(as_json: Json = False) -> None:
    """List the published algorithms with their parameters; with --json also the learners and query rules."""
    published: list[dict[str, Any]] = [
        {
            "name": name,
            "learner": entry.learner,
            "rule": entry.rule,
            "multiclass": is_multiclass(entry.learner),
            "paper": entry.paper,
            "rho": entry.rho,
            "fixed": entry.fixed,
            "parameters": [
                _parameter(key, declaration)
                for key, declaration in declared(entry.learner, entry.rule).items()
                if key not in entry.fixed
            ],
        }
        for name, entry in ALGORITHMS.items()
    ]
    lists = {"algorithms": published}
    if as_json:
        lists["learners"] = [_part(name, kind) | {"multiclass": is_multiclass(name)} for name, kind in LEARNERS.items()]
        lists["rules"] = [_part(name, kind) | {"learners": partners(name)} for name, kind in QUERY_RULES.items()]
    else:
        for entry in published:
            entry["parameters"] = ", ".join(f"{each['name']}={each['default']:g}" for each in entry["parameters"])
    show(lists, as_json, "name", "learner", "rule", "parameters", "paper")


def _part(name: str, kind: type) -> dict[str, Any]:
    """A learner or query rule."""
    return {"name": name, "help": kind.__doc__, "parameters": [_parameter(*each) for each in parameters(kind).items()]}


def _parameter(name: str, declaration: Parameter) -> dict[str, Any]:
    return {"name": name, "default": declaration.default, "range": declaration.range, "help": declaration.help}
