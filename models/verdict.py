"""Whether hardware is worth it: seconds of our streams beside those of other programs on the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from .feed import Seconds

#: times faster than the best peer that something must be, from disk to result
WORTH = 1.5


@dataclass(frozen=True)
class Beside:
    """What another program took for the same work."""

    name: str  #: as in reports
    threads: int
    seconds: float
    scaled: bool = False  #: from fewer rows
    #: its loss is at most ours; None where it computes the same updates
    reached: bool | None = None

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.name} on {threads} ({_seconds(self.seconds)}{', scaled' if self.scaled else ''})"


@dataclass(frozen=True)
class Verdict:
    """The line that a report ends with."""

    yes: bool | None  #: None where there is nothing to compare with
    text: str


def _seconds(value: float) -> str:
    """Return seconds with two digits that count."""
    if value >= 0.095:
        return f"{value:.2f} s"
    return f"{value:.2g} s" if value >= 0.001 else f"{value * 1e6:.3g} µs"


def verdict(ours: Seconds, peers: Sequence[Beside], worth: float = WORTH) -> Verdict:
    """Judge a run: yes where it is `worth` times faster than every peer that learned as well."""
    sound = [peer for peer in peers if peer.reached is not False]
    if not sound:
        return Verdict(None, "worth it: not said: nothing was measured beside it")
    best = min(sound, key=lambda peer: peer.seconds)
    total, binds = float(ours.total), ours.binds
    bound = float(ours.streams[binds])
    ratio = best.seconds / total if total else float("inf")
    times = f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"
    if ratio >= worth:
        return Verdict(True, f"worth it: yes: {times} × {best}; {binds} binds")
    if bound > best.seconds:
        what = (
            f"the {binds} alone ({_seconds(bound)}) takes"
            if binds != "results"
            else f"the results alone ({_seconds(bound)}) take"
        )
        return Verdict(False, f"worth it: no: {what} longer than {best}")
    asked = f", and {worth:g} × is asked for" if ratio >= 1 else ""
    return Verdict(False, f"worth it: no: {ratio:.2f} × {best}{asked}; {binds} binds")
