"""How long the budget lasts, in words."""

from oal_engine.kernel.spending import FIND, Plan
from oal_engine.sessions.log import Entry
from oal_engine.sessions.settings import Settings
from oal_engine.sessions.state import Progress

from ...page import counted

RECENT_LABELS = 50  # from which the pace is computed
MIN_LABELS = 10  # fewer give no pace


def spending(settings: Settings, plan: Plan | None, progress: Progress, log: list[Entry]) -> str:
    """Say in a sentence or two how long the labels last that are left."""
    if settings.goal == FIND:
        return f"{counted(progress.left, 'label')} left." if progress.left else "All labels are spent."
    spent = [entry.round for entry in log if entry.label]
    stream = max(progress.stream, settings.horizon)
    if not progress.left:
        last = spent[-1] + 1
        return f"The budget was spent at {f'item {last:,} of {stream:,}' if last < stream else 'the last item'}."
    rest, labels = stream - progress.streamed, counted(progress.left, "label")
    later = plan.reserve + plan.audits + round(plan.floor * plan.horizon) if plan else 0
    if plan and progress.waiting and progress.streamed + progress.left - later <= plan.paced:
        kinds = ["fewer questions"] * bool(plan.reserve or plan.floor) + ["random checks"] * bool(plan.audits)
        then = f", then {' and '.join(kinds)} until item {plan.horizon:,}" * (plan.paced < plan.horizon and bool(kinds))
        return f"{labels} left. They last until about item {plan.paced:,}{then}."
    if rest:
        return f"{counted(rest, 'item')} to come and {labels} left.{_forecast(progress, spent, stream)}"
    return f"{labels} left at the end of the stream."


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
