"""A proof: a property of a part, how it is decided, and a defect that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .bench import Bench
from .defects import Defect
from .directed import Player

__all__ = ["Proof"]


@dataclass(frozen=True)
class Proof:
    """One row of tests/proofs/table.md.

    Parameters
    ----------
    part
        The component, as it is imported.
    states
        What is proven, in the contract's words, with the parameters of the instance.
    bench
        Makes the bench anew.
    method
        "pdr" or "induction": unbounded, "registers" too: induction that registers of two runs are equal, and all that
        is checked with them. "bounded": up to `depth` cycles from reset.
    depth
        Of induction and of bounded checks: cycles.
    covers
        Cycles within which every cover has to be reached.
    search
        Cycles within which a defect has to show.
    defect
        Breaks the property; several each do.
    seconds
        Of processor that a tool may take; beyond them the proof counts as failed.
    merge
        Registers that are always equal become one before defects are looked for: for two runs of
        something large.
    long
        Why only `--long` runs it: about how long it takes. Its defects are then `long` too.
    cuts
        What of the part is not itself, but any values: in words.
    player
        Makes what gives the inputs, from a bench and a seed: covers and defects are then looked for in
        directed runs of `search` cycles, with `plays` seeds, and not by a bounded search.
    """

    part: str
    states: str
    bench: Callable[[], Bench]
    defect: Defect | tuple[Defect, ...]
    method: str = "pdr"
    depth: int = 0
    covers: int = 30
    search: int = 40
    seconds: int = 120
    merge: bool = False
    long: str = ""
    cuts: tuple[str, ...] = ()
    player: Callable[[Bench, int], Player] | None = None
    plays: int = 4

    @property
    def defects(self) -> tuple[Defect, ...]:
        return self.defect if isinstance(self.defect, tuple) else (self.defect,)

    @property
    def name(self) -> str:
        """For test reports."""
        return f"{self.part}: {self.states}"
