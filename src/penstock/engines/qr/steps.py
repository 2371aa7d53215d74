"""Which of a table's rows each fit reads: the first ones, then those that come and go."""

from dataclasses import dataclass

from penstock.dsl.core.diagnostics import Span, error
from penstock.host.workloads import Changes
from penstock.models.qr.columns import ROWS_MAX


@dataclass(frozen=True)
class Step:
    """One fit: which of the table's rows come and which go, from and to."""

    come: tuple[int, int]
    go: tuple[int, int]


def steps_of(rows: int, changes: Changes, where: str) -> tuple[list[Step], dict[str, int]]:
    """Return for each fit which rows come, from and to, and which go; and how much all of that is.

    Raises KernelError (E701) where the rows are too few or too many.
    """
    refits, new, gone = changes.refits, changes.new, changes.gone
    load, left = rows - refits * new, rows - refits * gone
    few = None
    if not rows:
        few = "there is no row to fit"
    elif load < 1 or left < 0:
        each = f"{new:,} new ones each" if load < 1 else f"{gone:,} that go each"
        few = f"{rows:,} rows are too few for {refits} refits with {each}"
    if few is not None:
        hint = "more rows, or fewer --refits, --new or --gone"
        raise error("E701", few, Span.whole(where), hint=hint)
    steps = [
        Step((load + k * new, load + (k + 1) * new), (k * gone, (k + 1) * gone))
        for k in range(refits)
    ]
    most = max((step.come[1] - step.go[0] for step in steps), default=load)
    if most > ROWS_MAX:
        message = f"{most:,} rows are more than the sums of a fit hold: {ROWS_MAX:,}"
        hint = "fewer rows, or more that go (--gone)"
        raise error("E701", message, Span.whole("rows"), hint=hint)
    changed = refits * (new + gone)
    counters = {"jobs": 1 + len(steps), "refits": refits, "rows": left, "changes": changed}
    return [Step((0, load), (0, 0)), *steps], counters
