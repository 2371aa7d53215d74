"""What walking a table's pages costs: each page's events, runs of pages that cost the same kept once."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .config import PortConfig, WalkConfig
from .machine import Event, StriderMachine
from .program import generate
from .table import chunks, classify

#: what an event of a page is, as `machine.Event` has it
_KINDS = {name: number for number, name in enumerate(("tuple", "null", "end", "error", "void"))}
TUPLE, NULL = _KINDS["tuple"], _KINDS["null"]
END, ERROR, VOID = _KINDS["end"], _KINDS["error"], _KINDS["void"]

#: a page's events in order: (kind, wait, issue)
Events = list[tuple[int, int, int]]


@dataclass
class Costs:
    """What walking some pages costs, as runs (pages, the events of each). `errors` holds the error of a page by its index."""

    runs: list[tuple[int, Events]] = field(default_factory=list)
    errors: dict[int, Event] = field(default_factory=dict)

    @property
    def pages(self) -> int:
        return sum(count for count, _ in self.runs)

    def add(self, count: int, events: Events) -> None:
        """Append `count` pages with these events each."""
        if count and self.runs and self.runs[-1][1] == events:
            count += self.runs.pop()[0]
        if count:
            self.runs.append((count, events))

    def every(self, step: int, first: int = 0) -> Costs:
        """The costs of pages first, first + step, …: one port's share of a striped table."""
        share = Costs(
            errors={
                (k - first) // step: event for k, event in self.errors.items() if k % step == first
            }
        )
        begin = 0
        for count, events in self.runs:  # pages k = first mod step with begin <= k < begin + count
            share.add((begin + count - first - 1) // step - (begin - first - 1) // step, events)
            begin += count
        return share


def analyse(config: PortConfig, walk: WalkConfig, pages: NDArray[np.uint8]) -> Costs:
    """Find the costs of all pages. Regular pages with equally many tuples cost the same but for those left out, so one of each is walked."""
    machine = StriderMachine(config, generate(walk), deliver=False)
    costs = Costs()
    known: dict[tuple[int, tuple[tuple[int, int], ...]], Events] = {}
    for first, chunk in chunks(pages):
        index = classify(walk, chunk)
        shape = tuple(sorted(index.places.items()))
        kinds = np.where(
            index.pages, index.counts, -1 - np.arange(len(chunk))
        )  # irregular pages are each of their own kind
        held = np.concatenate([[0], np.cumsum(np.where(index.pages, index.counts, 0))])
        voids = np.concatenate([[0], np.cumsum(index.left)])
        some = (
            np.diff(voids[held]) > 0
        )  # pages that a NaN leaves tuples out of are looked at one by one
        ends = np.diff(kinds).astype(bool) | some[1:] | some[:-1]
        begins = [0, *(np.nonzero(ends)[0] + 1).tolist(), len(chunk)]
        for k, end in pairwise(begins):
            regular, kind = bool(index.pages[k]), (int(index.counts[k]), shape)
            events = known.get(kind) if regular else None
            if events is None:
                walked = machine.walk(chunk[k], alike=regular)
                events = [(_KINDS[e.kind], e.wait, e.issue) for e in walked.events]
                if walked.events[-1].kind == "error":
                    costs.errors[first + k] = walked.events[-1]
                if regular:
                    known[kind] = events
            if some[k]:
                left = index.left[held[k] : held[k + 1]]
                events = [
                    (VOID if n < len(left) and left[n] else kind, wait, issue)
                    for n, (kind, wait, issue) in enumerate(events)
                ]
            costs.add(end - k, events)
    return costs
