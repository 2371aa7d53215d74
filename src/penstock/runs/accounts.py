"""What a run costs from disk to result, beside what the CPU takes: seconds, joules, carbon, the verdict.

It puts the models of `models.feed`, `models.energy` and `models.verdict` together. What it is given are plain values: of a target's
record, of the options, and of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import perf_counter
from typing import TYPE_CHECKING, Any

from penstock.models.derating import fullest
from penstock.models.energy import Carbon, Embodied, Energy, embodied, energy
from penstock.models.feed import Decoded, Seconds, run_seconds
from penstock.models.link.kinds import Link
from penstock.models.memory import Dram, Memory
from penstock.models.memory.dram.energy import loaded, picojoules
from penstock.models.resources import Resources
from penstock.models.target import Target
from penstock.models.verdict import WORTH, Verdict, verdict
from penstock.targets import link_of

if TYPE_CHECKING:
    from penstock.host.peers import Measured
    from penstock.host.sources import Table

#: bytes of pages that our decoder is timed on
_SAMPLE = 8 << 20


@dataclass(frozen=True)
class TargetFacts:
    """What a target says of itself. `share`: the largest share of its resources that a design takes."""

    clock_mhz: float
    clock_evidence: str = "assumed"
    link: Link | None = None
    idle_w: float | None = None
    max_w: float | None = None
    power_source: str = ""
    share: float = 1.0
    embodied: Embodied | None = None


def machine_of(target: Target, need: Resources, link: str | None = None) -> TargetFacts:
    """Return what a target says of itself with a design that takes `need`; `link`: in place of its own. Raises KernelError (E604)."""
    power, part = target.power, target.part
    footprint = embodied(
        None if part is None else part.die_mm2,
        None if part is None else part.node_nm,
        dram=target.memory.kind.lower(),
        dram_gb=target.memory.bytes / 1e9 if target.dram else 0.0,
    )
    return TargetFacts(
        target.clock.mhz,
        target.clock.evidence,
        link_of(target, link),
        None if power is None else power.idle_w,
        None if power is None else power.max_w,
        "" if power is None else power.source,
        min(1.0, fullest(need, target)[1]),
        footprint,
    )


@dataclass(frozen=True)
class Moved:
    """What a run moves: bytes of the table and of the result. `decoded`: without Striders; `streamed`: bytes that come during the run."""

    table_bytes: int
    result_bytes: int
    decoded: Decoded | None = None
    streamed: int = 0

    @property
    def over_link(self) -> int:
        carried = self.table_bytes if self.decoded is None else self.decoded.bytes
        return carried + self.streamed + self.result_bytes


@dataclass(frozen=True)
class Account:
    """Of one run; `verdict` and `beside` where anything was measured; `streamed`: pages came during it, so that the engine's time has the
    link's in it."""

    seconds: Seconds
    energy: Energy
    carbon: Carbon | None
    verdict: Verdict | None = None
    beside: Sequence[Measured] = ()
    streamed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the keys that it adds to a report's JSON."""
        keys = {"seconds": self.seconds.to_json(), "energy": self.energy.to_json(self.carbon)}
        if self.verdict is None:
            return keys
        from penstock.host.peers import joules

        each = (vars(m) | {"joules": joules(m).value} for m in self.beside)
        peers = [{k: v for k, v in facts.items() if v is not None} for facts in each]
        return {**keys, "beside": peers, "verdict": self.verdict.text}


def account(
    cycles: int,
    machine: TargetFacts,
    moved: Moved,
    memory: Memory,
    commands: Mapping[str, int],
    *,
    disk: Link | None = None,
    beside: Sequence[Measured] = (),
    worth: float = WORTH,
    waits: int = 0,
) -> Account:
    """Return what a run of so many cycles costs.

    * `memory`: behind the engine's ports; `commands`: of it, in this run (`Run.commands`).
    * `disk`: None where the table is warm; `beside`: what `host.peers.measure` found; `waits`: cycles of the
      run without a page to read.
    """
    link = machine.link if moved.over_link else None  # else the run's own ports carry everything
    seconds = run_seconds(
        cycles,
        machine.clock_mhz,
        moved.table_bytes,
        moved.result_bytes,
        link=link,
        disk=disk,
        decoded=moved.decoded,
        evidence=machine.clock_evidence,
    )
    if link is not None and moved.streamed:  # the engine's cycles have its time in them
        carried = (seconds.link or 0) + link.seconds(moved.streamed)
        seconds = replace(seconds, link=carried, waits=waits * seconds.engine / max(cycles, 1))
    dram = memory.timing if isinstance(memory, Dram) else None
    all_commands = Counter(commands)
    if dram is not None and link is not None:
        all_commands += Counter(loaded(dram, moved.over_link - moved.result_bytes))
    spent = energy(
        total := float(seconds.total),
        idle_w=machine.idle_w,
        max_w=machine.max_w,
        share=machine.share,
        activity=float(seconds.engine / seconds.total) if seconds.total else 0.0,
        commands=all_commands,
        of_commands=None if dram is None else picojoules(dram),
        link_bytes=0 if link is None else moved.over_link,
        source=machine.power_source,
    )
    carbon = (
        None
        if spent.joules is None
        else Carbon(spent.joules, total, machine.embodied or embodied(None, None))
    )
    judged = verdict(seconds, [m.beside() for m in beside], worth) if beside else None
    if judged is not None and judged.yes and moved.over_link and machine.link is None:
        what = (
            "worth it: not said: the target has no link, and its transfer is not counted (--link)"
        )
        judged = Verdict(None, what)
    return Account(seconds, spent, carbon, judged, tuple(beside), moved.streamed > 0)


def decoded(table: Table, value_bytes: int) -> Decoded:
    """Return what a host does without Striders, at the rate at which our decoder reads this table's
    own pages here and now; `value_bytes`: of a row's values on the link. Raises SourceError."""
    from penstock.host.sources import Table

    few = max(1, _SAMPLE // table.schema.page_size)
    part = Table(table.schema, table.pages[:few], table.name)
    begin = perf_counter()
    part.columns()
    took = Fraction(max(perf_counter() - begin, 1e-9))
    return Decoded(table.rows, max(part.rows, 1) / took, table.rows * value_bytes)
