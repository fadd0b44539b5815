"""How long the budget will last, in words."""

from oal_engine.sessions.fold import Progress
from oal_engine.sessions.log import Entry
from oal_engine.sessions.settings import Settings

RECENT = 50  # labels from which the rate is taken
FEW = 10  # labels: with less there is no rate to speak of


def sentences(settings: Settings, progress: Progress, log: list[Entry]) -> list[str]:
    """What is left; when the budget will be spent at the rate of late; and the plan, where there is one."""
    spent = [entry.round for entry in log if entry.label]
    stream = max(progress.stream, settings.horizon)
    if not progress.left:
        return [f"The budget was spent at item {spent[-1] + 1:,} of {stream:,}."]
    rest = stream - progress.streamed
    until = f"for {rest:,} items{_rate(progress, spent, stream)}" if rest else "at the end of the stream"
    planned = plan(settings, progress, log)
    return [f"{progress.left:,} labels left {until}.", *([planned] if planned else [])]


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


def plan(settings: Settings, progress: Progress, log: list[Entry]) -> str | None:
    """What the settings plan for the budget, against what is used; None where they plan nothing."""
    budget = settings.plan()
    if budget is None:
        return None
    checks = sum(bool(entry.audit) for entry in log if entry.label)
    parts = [
        ("Random checks", checks, budget.audits, budget.horizon),
        ("Other labels" if budget.audits else "Labels", progress.labels - checks, budget.budget - budget.audits,
         budget.paced),
    ]  # fmt: skip
    progress_of_parts = [
        f"{what}: {done:,} of {planned:,} done, {planned * min(1, progress.streamed / end):,.0f} expected by now."
        for what, done, planned, end in parts
        if planned and end
    ]
    return " ".join(progress_of_parts) or None
