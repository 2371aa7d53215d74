"""The stages of the engines of fits whose work is a sequence, as data: the phases that a job goes through in each.

`hdl.qr.control` makes the hardware's control of them, `Phased` the cycles.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from .config import FitPlan
from .job import Method
from .schedule import dot_latency, widen_latency


@dataclass(frozen=True)
class Phase:
    """A phase of a stage. Conditions are names: hardware and cycle model say what each is."""

    #: the next phase by condition, of which the first that holds counts; "" always holds
    then: Mapping[str, str]
    until: str = ""  #: the condition on which it ends, a cycle after its begin at least
    cycles: int = 1  #: how long it lasts, where no condition ends it


#: the first one is where a stage begins
Phases = Mapping[str, Phase]


class Phased:
    """A stage that goes through `phases`."""

    def __init__(self, wake: Callable[[int], None], phases: Phases) -> None:
        self.wake, self.phases = wake, phases
        self.phase, self.since = next(iter(phases)), 0

    def turn(self, now: int, conditions: Mapping[str, bool]) -> bool:
        """Return whether the phase ends with this cycle, in which `conditions` hold; then the next one begins."""
        phase = self.phases[self.phase]
        if phase.cycles > 1:
            if now < self.since + phase.cycles - 1:
                return False
        elif phase.until and not conditions[phase.until]:
            return False
        for condition, name in phase.then.items():
            if not condition or conditions[condition]:
                self.phase, self.since = name, now + 1
                break
        if self.phases[self.phase].cycles > 1:
            self.wake(now + self.phases[self.phase].cycles)
        return True


def fetch(config: FitPlan) -> Phases:
    """From a descriptor that has come to the requests of its job's body, a request a cycle; PLACES: the first one of its rows is computed."""
    of_memo = {"ANCHOR": config.incremental, "FACTOR": config.method is Method.GIVENS}
    refit = [*(name for name, some in of_memo.items() if some), "CHANGES"]
    rows = {} if config.incremental else {"places": "PLACES"}
    return {
        "LOOK": Phase({"": "KEEP"}, until="begins"),
        "KEEP": Phase({"wrong": "LOOK", "": "HEAD"}),
        "HEAD": Phase({"empty": "LOOK", "full": "PLACES", "": refit[0]}, until="asked"),
        **{name: Phase({"": following}, until="asked") for name, following in pairwise(refit)},
        "CHANGES": Phase({**rows, "": "SUMS"}, until="asked"),
        "PLACES": Phase({"": "ROWS"}),
        "ROWS": Phase({"full": "LOOK", "": "SUMS"}, until="last"),
        "SUMS": Phase({"": "LOOK"}, until="asked"),
    }


#: of the words of a job: LAST: they have all come, and it has not been given to the core yet
INTAKE = {
    "HEAD": Phase({"": "CHECK"}, until="head_ends"),
    "CHECK": Phase({"": "VERDICT"}),
    "VERDICT": Phase({"final": "LAST", "": "BODY"}),
    "BODY": Phase({"held": "LAST", "": "HEAD"}, until="body_ends"),
    "LAST": Phase({"": "HEAD"}, until="given"),
}

#: of the solver of method `givens`: the memo's factor, a WAVE a row and until the last one has left, the new factor, a wave for each lane that the right
#: side passes and one more where its column is dropped, both triangular solves
ROTATIONS = {
    "IDLE": Phase({"": "LOAD"}, until="starts"),
    "LOAD": Phase({"": "ROWS"}, until="loaded"),
    "ROWS": Phase({"moves": "WAVE", "": "OUT"}, until="known"),
    "WAVE": Phase({"solves": "IDLE", "rows": "ROWS", "last": "WAVE", "": "LOOK"}, until="over"),
    "OUT": Phase({"": "SIDE"}, until="left"),
    "LOOK": Phase({"": "SIDE"}),
    "SIDE": Phase({"": "WAVE"}, until="comes"),
}

#: of a run over a table: the sums of the fit before, the pages with rows that come, then those with rows that go (BEGIN: either, or their end), the answer
TABLE = {
    "REST": Phase({"": "LOAD"}, until="start"),
    "LOAD": Phase({"": "BEGIN"}, until="loaded"),
    "BEGIN": Phase({"ends": "WRITE", "pages": "WALK", "": "BEGIN"}),
    "WALK": Phase({"": "FLUSH"}, until="through"),
    "FLUSH": Phase({"": "BEGIN"}),
    "WRITE": Phase({"": "WRITE"}),
}


def bounds(config: FitPlan) -> Phases:
    """A job's bounds: widened, or by a pass over its rows."""
    dot, widen = dot_latency(config.n_max), widen_latency(config.n_max)
    tries = {"tries": "WIDEN"} if config.incremental else {}
    return {
        "WAIT": Phase({"": "BEGIN"}, until="solved"),
        "BEGIN": Phase({"lost": "OFFER", **tries, "places": "ASK", "": "OFFER"}),
        "WIDEN": Phase({"": "JUDGE"}, cycles=widen - 1),
        "JUDGE": Phase({"enough": "OFFER", "places": "ASK", "": "OFFER"}),
        "ASK": Phase({"": "READ"}),
        "READ": Phase({"": "SETTLE"}, until="last"),
        "SETTLE": Phase({"": "OFFER"}, cycles=dot - 1),
        "OFFER": Phase({"": "WAIT"}, until="taken"),
    }
