"""The types of every module, as mypy reads them."""

from mypy import api

from tests.harness import ROOT


def test_every_module_is_typed(monkeypatch):
    """What a function takes and returns is written beside it, and every caller keeps to that."""
    monkeypatch.chdir(ROOT)
    report, errors, status = api.run([])
    assert (0, "") == (status, errors), report
