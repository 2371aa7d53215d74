"""When the row unit lets tuples go on, in cycles: the twin of `hdl.rows.unit.RowUnit`, and what it moves.

A tuple is taken whole while fewer than `ahead` are held and fewer than `TUPLES` wait to be looked up. Their indices are looked up in order, one a cycle:
directory, owner, comparison. An index that is left out, as its rows are those of the tuple before, takes such a cycle, and so does an epoch's end. What
is compared stays, and all behind it, where it finds no line:

* a cycle for each line that is looked at for one to give way, one where there is an empty one;
* until fewer than `MISSES` rows wait to be asked for.

The tuple goes on when its rows are there, behind those before it. Rows that wait come to their turn one after the other:

* unless the line was empty, when the last batch that asked for its row is through;
* where a row is written back, when fewer than `leaving_rows` have not left and there is room for its name: it is read from the next cycle on, a beat
  of its line a cycle;
* the row is asked for in the cycle of the last beat, in the next one where nothing leaves; later where that row's writing is not answered. Then the next
  one's turn comes.

Rows come in that order; one is written into its line a beat a cycle, but for cycles in which the engine writes one of its models. The words of the next one
are taken from the last of them on.

At the end each line that was ever filled takes a cycle, and waits as a row does where it is written back; a region's end takes a cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from ..memory.bursts import Reader, Writer, burst_count
from ..memory.timing import Ports
from .store import Counts
from .unit import MISSES, TUPLES, Directory, Found, RowUnitConfig, leaving_rows

#: what lookups wait for, in cycles that exclude each other: a tuple that is not there; room, as many as may be are held; a line that gives way; rows
#: that wait to be asked for. And what the first of these waits for: batches that are not through; rows that are written back, and their answers;
#: the memory port, which takes no request
CAUSES = ("tuples", "room", "lines", "rows", "batches", "written", "port")


class Changes(Protocol):
    """What an engine does with lines, as far as it is known when a tuple is looked up: all batches before its own."""

    def through(self, cycle: int, ago: int) -> int:
        """Return the first cycle from this one on in which the batch is through that was so many before that of the tuple, two at least."""

    def writes(self, model: int, cycle: int) -> bool:
        """Return whether a row of the model, counted over all tables, is written in a cycle."""


class _Always:
    """What is waited for at the end: nothing."""

    def through(self, cycle: int, ago: int) -> int:
        return cycle

    def writes(self, model: int, cycle: int) -> bool:
        return False


class _Written:
    """A row that was written back: its bursts, and when the last one is answered, −1 as long as that is not asked."""

    def __init__(self, bursts: int) -> None:
        self.bursts, self.answered = bursts, -1


class _Mover:
    """Writes rows back and asks for others."""

    def __init__(self, config: RowUnitConfig, channel: Ports, bases: Sequence[int]) -> None:
        self.config, self.bases = config, bases
        self.reader = Reader(channel, config.bus_bytes, config.commands)
        self.writer = Writer(channel, config.bus_bytes)
        self.gone = deque([-1] * MISSES, MISSES)  # when the latest rows' turn came
        self.asked = 0  # from when on the next row's turn may come
        most = leaving_rows(max(config.row_bytes(t) for t in range(len(config.tables))))
        self.left = deque([0] * most, most)  # when the last words of the latest rows were written
        self.arrival = 0  # from when on the latest row that was asked for is in its line
        self.names: deque[tuple[tuple[int, int], _Written]] = deque()
        self.named: dict[tuple[int, int], _Written] = {}
        self.open: deque[_Written] = deque()  # those whose answers are not known
        self.waits = dict.fromkeys(CAUSES, 0)
        self.moved: list[int] = []  # addresses of rows that were fetched or written back

    @property
    def room(self) -> int:
        """From when on one more row may wait."""
        return self.gone[0] + 1

    def move(
        self, earliest: int, table: int, row: int, written: int, changes: Changes, ago: int
    ) -> None:
        """Write back a row and fetch one, −1 for none, into a line of a batch so long `ago`, 0 into an empty one; they wait from cycle `earliest` on."""
        waits, beats = self.waits, self.config.beats_of[table] * (written >= 0)
        begin = max(earliest, self.asked)
        now = through = changes.through(begin, ago) if ago else begin
        if written >= 0:
            now = changes.through(max(begin, self.left[0], self._name()), ago)
            self._write(now, table, written)
        self.gone.append(now)
        valid = self.asked = now + max(beats, 1)
        if row >= 0:
            if (name := self.named.get((table, row))) is not None:
                valid = max(valid, self._answer(name) + 1)
            at = self._address(table, row)
            waits["batches"] += through - begin
            waits["written"] += valid - through - max(beats, 1)
            self.asked = self.reader.command(valid, at, self.config.words(table))
            waits["port"] += self.asked - valid
            self._fill(table, changes)

    def _fill(self, table: int, changes: Changes) -> None:
        """Take the words of the row that was asked for last into its line."""
        now = self.reader.drain(self.arrival - 1)[1] + 1
        for beat in range(self.config.beats_of[table]):
            models = [part.model for part in self.config.slices[table] if part.beat == beat]
            while any(changes.writes(model, now) for model in models):
                now += 1
            now += 1
        self.arrival = now

    def _answer(self, name: _Written) -> int:
        """Return when a row's writing is answered; no address before that is unknown."""
        while name.answered < 0:
            first = self.open.popleft()
            first.answered = [self.writer.port.answer() for _ in range(first.bursts)][-1]
        return name.answered

    def _name(self) -> int:
        """Return from when on there is room for the name of a row that is written."""
        if len(self.names) < self.config.writes:
            return 0
        key, name = self.names.popleft()
        if self.named[key] is name:
            del self.named[key]
        return self._answer(name) + 1

    def _write(self, cycle: int, table: int, row: int) -> None:
        """Write a row back, the first beat of whose line is read in the cycle after this one."""
        words, at = self.config.words(table), self._address(table, row)
        name = self.named[table, row] = _Written(burst_count(at, words, self.config.bus_bytes))
        self.names.append(((table, row), name))
        self.open.append(name)
        data = cycle + self.config.beats_of[table] + 2
        self.left.append(self.writer.send(cycle + 1, at, words, lambda previous: data)[1][-1])

    def _address(self, table: int, row: int) -> int:
        at = self.bases[table] + row * self.config.row_bytes(table)
        self.moved.append(at)
        return at


class RowUnitModel:
    """One run of a row unit, whose memory port is `channel`; `bases`: addresses of the tables."""

    def __init__(self, config: RowUnitConfig, channel: Ports, bases: Sequence[int]) -> None:
        self.config = config
        self.mover = _Mover(config, channel, bases)
        self.tables = [Directory(table) for table in config.tables]
        self.batch, self.position = 1, 0
        self.lasts = deque([-1] * config.ahead, config.ahead)  # when the latest tuples went on
        self.begun = deque([-1] * TUPLES, TUPLES)  # when the last lookups of the latest ones began
        self.asked = -1  # when the latest lookup began
        # when the latest two were at the owners and were through
        self.owners, self.through, self.before_through = -1, -1, -1
        self.before: Sequence[int] = ()  # rows of the tuple before
        self.waits = self.mover.waits
        self.late = 0  # cycles in which the next tuple may go on, but for its rows

    @property
    def free(self) -> int:
        """From when on the next tuple is taken."""
        return max(self.begun[0], self.lasts[0]) + 1

    @property
    def arrival(self) -> int:
        """From when on the latest row that was asked for is in its line."""
        return self.mover.arrival

    @property
    def moved(self) -> list[int]:
        """Addresses of rows that were fetched or written back."""
        return self.mover.moved

    @property
    def counts(self) -> Counts:
        """All tables' together."""
        counts = Counts()
        for table in self.tables:
            for name, count in vars(table.counts).items():
                setattr(counts, name, getattr(counts, name) + count)
        return counts

    def pass_on(self, taken: int, rows: Sequence[int], ready: int, changes: Changes) -> int:
        """Pass a tuple on, taken whole in cycle `taken`; return the cycle of its last transfer.

        `rows`: of each place; `ready`: from when on the next part takes it.
        """
        for group in self.config.groups:
            if self.config.bags and self.position and self._again(group, rows):
                self._step(taken)
                continue
            for place, row in ((self.config.places[n], rows[n]) for n in group):
                lookup = self.tables[place.table].find(row, self.batch, place.changes)
                self._step(taken, lookup)
                if not lookup.hit:
                    begin, ago = self.through + 1, self.batch - lookup.batch if lookup.looked else 0
                    self.mover.move(begin, place.table, row, lookup.written, changes, ago)
        self.before = rows
        self.position += 1
        if self.position == self.config.batch:
            self.position, self.batch = 0, self.batch + 1
        self.begun.append(self.asked)
        begin = max(self.through + 1, self.lasts[-1] + 1, ready)
        self.late += max(self.arrival - begin, 0)
        self.lasts.append(max(begin, self.arrival) + self.config.beats - 1)
        return self.lasts[-1]

    def _step(self, taken: int, lookup: Found | None = None) -> None:
        """Look a row up, or leave one out, of a tuple that was taken whole in this cycle."""
        begin = max(taken, self.asked, self.before_through - 1) + 1
        if self.owners < begin < self.through:
            begin = self.through
        owners = max(begin + 1, self.through)
        late = 0 if lookup is None or lookup.hit else max(lookup.looked, 1)
        through = owners + 1 + late
        cause = "room" if taken == self.lasts[0] + 1 else "tuples"
        self.waits[cause] += owners - self.through
        if late:
            self.waits["lines"] += late - 1
            self.waits["rows"] += max(self.mover.room - through, 0)
            through = max(through, self.mover.room)
        self.asked, self.owners = begin, owners
        self.before_through, self.through = self.through, through

    def _again(self, group: range, rows: Sequence[int]) -> bool:
        """Return whether the tuple before asked for the same rows at these places."""
        return all(rows[n] == self.before[n] for n in group)

    def end(self, taken: int, ready: int) -> int:
        """Pass an epoch's end on; return the cycle of its transfer."""
        if self.position:
            self.position, self.batch = 0, self.batch + 1
        self._step(taken)
        self.begun.append(self.asked)
        self.lasts.append(max(self.through + 1, self.lasts[-1] + 1, ready))
        return self.lasts[-1]

    def flush(self, start: int) -> int:
        """Write back what changed, the last batch being through in cycle `start`; return the cycle of `done`."""
        now, mover, always = start + 1, self.mover, _Always()
        regions = [(n, rows) for n, table in enumerate(self.tables) for rows in table.flush()]
        for number, rows in regions:
            for row in rows.values():
                now += 1
                if row >= 0:
                    now = max(now, mover.room)
                    mover.move(now + 1, number, -1, row, always, 0)
            now += 1
        return max(now, mover.asked + 1, mover.writer.idle())
