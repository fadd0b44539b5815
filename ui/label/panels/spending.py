"""How long the budget will last, in words."""

from oal_engine.kernel.spending import Plan, expected
from oal_engine.sessions.fold import Progress
from oal_engine.sessions.log import Entry
from oal_engine.sessions.settings import Settings

from ...page import counted

RECENT = 50  # labels from which the rate is taken
FEW = 10  # labels: with less there is no rate to speak of


def sentences(settings: Settings, plan: Plan | None, progress: Progress, log: list[Entry]) -> list[str]:
    """What is left, and until when it is asked; and the plan, where there is one."""
    spent = [entry.round for entry in log if entry.label]
    stream = max(progress.stream, settings.horizon)
    if not progress.left:
        if spent[-1] + 1 >= stream:
            return ["The budget was spent at the last item."]
        return [f"The budget was spent at item {spent[-1] + 1:,} of {stream:,}. Since then the model only predicts."]
    rest, labels = stream - progress.streamed, counted(progress.left, "label")
    later = plan.reserve + plan.audits + round(plan.floor * plan.horizon) if plan else 0
    if plan and progress.waiting and progress.streamed + progress.left - later <= plan.paced:
        kinds = ["fewer questions"] * bool(plan.reserve or plan.floor) + ["random checks"] * bool(plan.audits)
        then = f"{' and '.join(kinds)} until item {plan.horizon:,}" if kinds else "the model only predicts"
        left = f"{labels} left: questions come until about item {plan.paced:,}, then {then}."
    elif rest:
        left = f"{counted(rest, 'item')} to come and {labels} left.{_forecast(progress, spent, stream)}"
    else:
        left = f"{labels} left at the end of the stream."
    compared = plan and against_plan(plan, progress, log)
    return [left, compared] if compared else [left]


def _forecast(progress: Progress, spent: list[int], stream: int) -> str:
    """Return where the labels run out at this pace, or how many stay unused. The item that waits for its answer uses
    one of those left."""
    if progress.end == "stream":
        return ""
    if len(spent) < FEW:
        return f" A forecast appears after {FEW} answers."
    recent, free = spent[-RECENT:], progress.left - progress.waiting
    rate = len(recent) / (progress.streamed - progress.waiting - recent[0])
    unused = round(free - rate * (stream - progress.streamed))
    if unused > 0:
        return f" At this pace {unused:,} of them stay{'s' * (unused == 1)} unused."
    return f" At this pace they run out at item {min(stream, progress.streamed + free / rate):,.0f} of {stream:,}."


def against_plan(plan: Plan, progress: Progress, log: list[Entry]) -> str:
    """Return the labels used, random checks and others, with those that the plan expects by now; nothing where there
    are too few to compare."""
    if progress.labels < FEW:
        return ""
    checks = sum(bool(entry.audit) for entry in log if entry.label)
    expected_checks, expected_others = expected(plan, progress.streamed - progress.waiting)
    parts = [
        ("random check", checks, plan.audits, expected_checks),
        ("other label" if plan.audits else "label", progress.labels - checks, plan.budget - plan.audits,
         expected_others if plan.paced else None),
    ]  # fmt: skip
    return " ".join(
        f"{counted(done, what)} used; the plan was {by_now:,.0f} by now."
        for what, done, planned, by_now in parts
        if planned and by_now is not None
    )
