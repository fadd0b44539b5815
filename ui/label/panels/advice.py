"""How long the budget lasts, in words."""

from oal_engine.kernel.spending import FIND, Plan, expected
from oal_engine.sessions.log import Entry
from oal_engine.sessions.settings import Settings
from oal_engine.sessions.state import Progress

from ...page import counted

RECENT_LABELS = 50  # from which the pace is computed
MIN_LABELS = 10  # fewer give no pace


def spending(settings: Settings, plan: Plan | None, progress: Progress, log: list[Entry]) -> list[str]:
    """Return sentences on the labels left: how long they last, and how their use compares with the plan."""
    if settings.goal == FIND:
        return [f"{counted(progress.left, 'label')} left." if progress.left else "All labels are spent."]
    spent = [entry.round for entry in log if entry.label]
    stream = max(progress.stream, settings.horizon)
    if not progress.left:
        last = spent[-1] + 1
        return [f"The budget was spent at {f'item {last:,} of {stream:,}' if last < stream else 'the last item'}."]
    rest, labels = stream - progress.streamed, counted(progress.left, "label")
    later = plan.reserve + plan.audits + round(plan.floor * plan.horizon) if plan else 0
    if plan and progress.waiting and progress.streamed + progress.left - later <= plan.paced:
        kinds = ["fewer questions"] * bool(plan.reserve or plan.floor) + ["random checks"] * bool(plan.audits)
        then = f", then {' and '.join(kinds)} until item {plan.horizon:,}" * (plan.paced < plan.horizon and bool(kinds))
        left = f"{labels} left. They last until about item {plan.paced:,}{then}."
    elif rest:
        left = f"{counted(rest, 'item')} to come and {labels} left.{_forecast(progress, spent, stream)}"
    else:
        left = f"{labels} left at the end of the stream."
    compared = plan and against_plan(plan, progress, log)
    return [left, compared] if compared else [left]


def _forecast(progress: Progress, spent: list[int], stream: int) -> str:
    """Return a sentence on where the labels run out at this pace, or how many stay unused. The item that is waiting for
    its answer is counted as using one label."""
    if progress.end == "stream":
        return ""
    if len(spent) < MIN_LABELS:
        return f" A forecast appears after {MIN_LABELS} answers."
    recent, free = spent[-RECENT_LABELS:], progress.left - progress.waiting
    rate = len(recent) / (progress.streamed - progress.waiting - recent[0])
    unused = round(free - rate * (stream - progress.streamed))
    if unused > 0:
        return f" At this pace {unused:,} of them stay{'s' * (unused == 1)} unused."
    return f" At this pace they run out at item {min(stream, progress.streamed + free / rate):,.0f} of {stream:,}."


def against_plan(plan: Plan, progress: Progress, log: list[Entry]) -> str:
    """Compare the numbers of random checks and of other labels with the plan. Return "" if there are too few labels."""
    if progress.labels < MIN_LABELS:
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
