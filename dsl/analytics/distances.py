"""How far apart operations start, in a batch and from one batch to the next."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from .lower import Program
from .times import Times


@dataclass(frozen=True, slots=True)
class Distance:
    """`later` starts behind `first`."""

    later: int
    first: int
    step: int  #: cycles between them, at least
    turns: bool = False  #: it is the next turn of `later`, in the next batch

    def least(self, batch: int) -> int:
        """Return what the starts of one batch are apart at least."""
        return self.step - batch if self.turns else self.step


class Distances:
    """Of all operations but those after an epoch, or of those. `behind` and `ahead`: those of each operation, with it as the later and as the first one."""

    def __init__(self, program: Program, times: Times, epoch: bool = False) -> None:
        self.program, self.times = program, times
        self.numbers = [n for n, op in enumerate(program.ops) if (op.region == "epoch") == epoch]
        self.behind: dict[int, list[Distance]] = {n: [] for n in self.numbers}
        self.ahead: dict[int, list[Distance]] = {n: [] for n in self.numbers}
        self.all = [*self._steps(), *self._turns(), *self._together()]
        for distance in self.all:
            self.behind[distance.later].append(distance)
            self.ahead[distance.first].append(distance)

    def _steps(self) -> Iterator[Distance]:
        """Yield what lies in a batch: values are there, and a new model overwrites nothing that is still to be read."""
        times, models = self.times, set(self.program.models)
        for n in self.numbers:
            op = self.program.ops[n]
            for buffer in {o.buffer for o in op.operands} & times.writer.keys():
                source = times.writer[buffer]
                step = times.behind(source, n, buffer)
                if step is not None and source in self.behind:
                    yield Distance(n, source, step)
            if op.dest not in models:
                continue
            for (reader, buffer), (_, last) in times.reads.items():
                if buffer != op.dest or reader == n or reader not in self.behind:
                    continue
                if self.program.ops[reader].dest == op.dest and op.changes_rows:
                    if reader < n:  # what is written first is changed first
                        yield Distance(n, reader, times.turn(reader, n, self.program.by_row))
                else:
                    used = last >= 0
                    yield Distance(n, reader, int((last - times.writes[n][0])[used].max()))

    def _together(self) -> Iterator[Distance]:
        """Yield what lets the changes of a batch that wait for its end begin side by side: each tuple's then follow soon."""
        times, ops = self.times, self.program.ops
        changes = [n for n in self.numbers if ops[n].changes_rows] if self.program.waits else []
        for n in changes:
            for buffer in {o.buffer for o in ops[n].operands} & times.writer.keys():
                step = times.behind(times.writer[buffer], n, buffer)
                if step is not None:
                    yield from (Distance(m, times.writer[buffer], step) for m in changes)

    def _turns(self) -> Iterator[Distance]:
        """Yield what lies between batches: a model's writing before its reading, a reading before the next writing."""
        ops, times = self.program.ops, self.times
        for n in self.numbers:
            op = ops[n]
            if op.region != "batch":
                continue
            if self.program.buffers[op.dest].kind == "model":
                for reader, buffer in times.reads:
                    # a batch operation's next turn may come just as soon
                    if buffer == op.dest and reader in self.behind:
                        both = op.changes_rows and ops[reader].changes_rows
                        if self.program.by_row and max(op.extents[0], ops[reader].extents[0]) > 1:
                            both = False  # another place may name the row
                        step = times.turn(n, reader) if both else times.behind(n, reader, buffer)
                        yield Distance(reader, n, step or 0, turns=True)
            for buffer in {o.buffer for o in op.operands} & times.writer.keys():
                source = times.writer[buffer]
                last = times.reads[n, buffer][1]
                used, first = last >= 0, times.writes[source][0]
                yield Distance(source, n, int((last[used] + 1 - first[used]).max()), turns=True)

    @cached_property
    def spare(self) -> dict[int, int]:
        """By operation, how much later than a batch it may start: it has started, and an input's slot is free, when the next one begins."""
        slack = {}
        for n in self.numbers:
            op = self.program.ops[n]
            ends = [
                int(self.times.reads[n, o.buffer][1].max())
                for o in op.operands
                if self.program.buffers[o.buffer].kind in ("input", "index")
            ]
            slack[n] = -1 - max(ends, default=0)
        return slack

    def needs(self, number: int) -> set[int]:
        """Return an operation and all that it depends on in its batch."""
        numbers, left = {number}, [number]
        while left:
            more = {d.first for d in self.behind[left.pop()] if not d.turns} - numbers
            numbers |= more
            left += more
        return numbers

    def low(self, number: int, starts: Mapping[int, int]) -> int:
        """Return the first start behind what is placed in the same batch."""
        behind = (d for d in self.behind[number] if d.first in starts and not d.turns)
        return max([0, *(starts[d.first] + d.step for d in behind)])

    def change(self, starts: Mapping[int, int]) -> int:
        """Return what the changes of two tuples of a batch that wait for its end must lie apart at least."""
        ops = self.program.ops
        changes = [n for n in starts if ops[n].changes_rows] if self.program.waits else []
        return max(
            (
                starts[n] - starts[m] + self.times.turn(n, m, self.program.by_row)
                for n in changes
                for m in changes
                if ops[n].dest == ops[m].dest
            ),
            default=0,
        )

    def batch(self, starts: Mapping[int, int]) -> int:
        """Return what the distance from batch to batch must be at least."""
        return max(
            (starts[d.first] + d.step - starts[d.later] for d in self.all if d.turns), default=0
        )

    def windows(self, batch: int) -> dict[int, tuple[int, int]] | None:
        """Return between which starts operations lie with units without number; None where there is no such distance from batch to batch."""
        lows = dict.fromkeys(self.numbers, 0)
        highs = {n: batch + self.spare[n] for n in self.numbers}
        for _ in range(len(self.numbers) + 1):
            moved = False
            for d in self.all:
                least = d.least(batch)
                if lows[d.first] + least > lows[d.later]:
                    lows[d.later], moved = lows[d.first] + least, True
                if highs[d.later] - least < highs[d.first]:
                    highs[d.first], moved = highs[d.later] - least, True
            if any(lows[n] > highs[n] for n in self.numbers):
                return None
            if not moved:
                return {n: (lows[n], highs[n]) for n in self.numbers}
        return None
