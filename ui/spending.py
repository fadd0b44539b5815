"""How long the budget will last, in words."""

RECENT = 50  # labels from which the rate is taken
FEW = 10  # labels: with less there is no rate to speak of


def sentences(about, progress, log):
    """What is left; when the budget will be spent at the rate of late; and the plan, where there is one."""
    spent = [entry["round"] for entry in log if entry["label"]]
    found = [f"{progress.left:,} labels left for {progress.stream - progress.streamed:,} items{_rate(progress, spent)}."]
    if not progress.left:
        found = [f"The budget was spent at item {spent[-1] + 1:,} of {progress.stream:,}."]
    planned = plan(about, progress)
    return [*found, planned] if planned and progress.left else found


def _rate(progress, spent):
    if progress.end == "stream":
        return ""
    if len(spent) < FEW:
        return f"; how long they last can be said after {FEW} answers"
    recent = spent[-RECENT:]
    rate = len(recent) / (progress.streamed - recent[0])
    end, late = progress.streamed + progress.left / rate, f"at the rate of the last {len(recent)}"
    if end <= progress.stream:
        return f"; {late} they are spent at item {end:,.0f} of {progress.stream:,}"
    left = progress.left - rate * (progress.stream - progress.streamed)
    return f"; {late} {left:,.0f} of them are left when the stream ends"


def plan(about, progress):
    """What the settings plan for the budget, against what is used; None where they plan nothing."""
    horizon, checks = about["horizon"], about["audit"] * about["budget"]
    told, due = [], 0.0
    if about["pace"]:
        end = about["pace"] * horizon
        due = (about["budget"] - checks) * min(1, progress.streamed / end)
        told.append(f"spread evenly to item {end:,.0f}: {due:,.0f} labels by now, {progress.labels:,} used")
    if checks:
        told.append(f"{checks:,.0f} of the labels are random checks, spread to item {horizon:,}")
    return told and f"Plan: {'; '.join(told)}." or None
