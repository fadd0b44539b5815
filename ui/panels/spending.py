"""How long the budget will last, in words."""

from oal_engine.kernel.spending import Plan, expected
from oal_engine.sessions.fold import Progress
from oal_engine.sessions.log import Entry
from oal_engine.sessions.settings import Settings

from ..page import counted

RECENT = 50  # labels from which the rate is taken
FEW = 10  # labels: with less there is no rate to speak of


def sentences(settings: Settings, plan: Plan | None, progress: Progress, log: list[Entry]) -> list[str]:
    """What is left, and until when it is asked; and the plan, where there is one."""
    spent = [entry.round for entry in log if entry.label]
    stream = max(progress.stream, settings.horizon)
    if not progress.left:
        return [f"The budget was spent at item {spent[-1] + 1:,} of {stream:,}. Since then the model only predicts."]
    rest, labels = stream - progress.streamed, counted(progress.left, "label")
    if plan and progress.waiting and progress.streamed < plan.paced:
        later = ["fewer questions"] * bool(plan.reserve or plan.floor) + ["random checks"] * bool(plan.audits)
        then = f"{' and '.join(later)} until item {plan.horizon:,}" if later else "the model only predicts"
        left = f"{labels} left: questions come until about item {plan.paced:,}, then {then}."
    else:
        until = f"for {rest:,} items{_rate(progress, spent, stream)}" if rest else "at the end of the stream"
        left = f"{labels} left {until}."
    compared = plan and against_plan(plan, progress, log)
    return [left, compared] if compared else [left]


def _rate(progress: Progress, spent: list[int], stream: int) -> str:
    if progress.end == "stream":
        return ""
    if len(spent) < FEW:
        return f"; a forecast appears after {FEW} answers"
    recent = spent[-RECENT:]
    rate = len(recent) / (progress.streamed - recent[0])
    end = progress.streamed + progress.left / rate
    if end <= stream:
        return f"; at this pace they run out at item {end:,.0f} of {stream:,}"
    left = progress.left - rate * (stream - progress.streamed)
    return f"; at this pace {left:,.0f} of them are left when the stream ends"


def against_plan(plan: Plan, progress: Progress, log: list[Entry]) -> str:
    """The labels used, random checks and others, against those that the plan expects by now."""
    checks = sum(bool(entry.audit) for entry in log if entry.label)
    expected_checks, expected_others = expected(plan, progress.streamed)
    parts = [
        ("Random checks", checks, plan.audits, expected_checks),
        ("Other labels" if plan.audits else "Labels", progress.labels - checks, plan.budget - plan.audits,
         expected_others if plan.paced else None),
    ]  # fmt: skip
    return " ".join(
        f"{what}: {done:,} of {planned:,} done, {by_now:,.0f} expected by now."
        for what, done, planned, by_now in parts
        if planned and by_now is not None
    )
