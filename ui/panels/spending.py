"""How long the budget will last, in words."""

RECENT = 50  # labels from which the rate is taken
FEW = 10  # labels: with less there is no rate to speak of


def sentences(settings, progress, log):
    """What is left; when the budget will be spent at the rate of late; and the plan, where there is one."""
    spent = [entry.round for entry in log if entry.label]
    stream = max(progress.stream, settings.horizon)
    if not progress.left:
        return [f"The budget was spent at item {spent[-1] + 1:,} of {stream:,}."]
    rest = stream - progress.streamed
    told = f"for {rest:,} items{_rate(progress, spent, stream)}" if rest else "at the end of the stream"
    planned = plan(settings, progress, log)
    return [f"{progress.left:,} labels left {told}."] + [planned] * bool(planned)


def _rate(progress, spent, stream):
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


def plan(settings, progress, log):
    """What the settings plan for the budget, against what is used; None where they plan nothing."""
    found = settings.plan()
    if found is None:
        return None
    checks = sum(bool(entry.audit) for entry in log if entry.label)
    parts = [
        ("Random checks", checks, found.audits, found.horizon),
        ("Other labels" if found.audits else "Labels", progress.labels - checks, found.budget - found.audits,
         found.paced),
    ]  # fmt: skip
    told = [
        f"{what}: {done:,} of {planned:,} done, {planned * min(1, progress.streamed / end):,.0f} expected by now."
        for what, done, planned, end in parts
        if planned and end
    ]
    return " ".join(told) or None
