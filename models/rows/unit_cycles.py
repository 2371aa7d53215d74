"""When the row unit lets tuples go on, in cycles: the twin of `hdl.rows.unit.RowUnit`, and what it moves.

A tuple is taken whole while fewer than `ahead` are held, and its indices are looked up one after the other; then the next one is taken. It goes on
when its rows are there, behind those before it. A lookup takes 3 cycles: directory, owner, comparison; 2 where the one before it in the tuple found
a line or is of another table, for the directory is asked meanwhile; so it is while an index is left out whose rows are those of the tuple before,
which takes a cycle. One that finds no line goes on thus:

* a cycle for each line that is looked at for one to give way;
* a cycle at least, until the batches before the last one are through and, where a row is written back, the one before has left and there is room
  for its name;
* where a row is written back, a cycle a beat and one more;
* a cycle at least to ask for the row; longer where that row's writing is not answered.

Rows come in that order; one is written into its line a beat a cycle, but for cycles in which the engine writes that model, before the words of the
next one are taken.

At the end each line that was ever filled takes 2 cycles; one that is written back a cycle a beat and one more, and what it takes for its words to go
and for room for the next name;
a table's end takes a cycle, and so does the end of its other lines where rows are pinned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from ..memory.bursts import Reader, Writer
from ..memory.timing import Ports
from .store import Counts
from .unit import WRITES, Directory, Found, RowUnitConfig

__all__ = ["CAUSES", "Changes", "RowUnitModel"]

#: what the unit waits for, in cycles that exclude each other: a tuple that is not there; room, as many as may be are held; a line that gives
#: way; the batches before the last one; rows that are written back, and their answers; the memory port, which takes no request
CAUSES = ("tuples", "room", "lines", "batches", "written", "port")


class Changes(Protocol):
    """What an engine does with lines, as far as it is known when a tuple is looked up: all batches before its own."""

    def through(self, cycle: int) -> int:
        """Return the first cycle from this one on in which all batches before the last one are through."""

    def writes(self, model: int, cycle: int) -> bool:
        """Return whether a row of the model, counted over all tables, is written in a cycle."""


class RowUnitModel:
    """One run of a row unit, whose memory port is `channel`; `bases`: addresses of the tables."""

    def __init__(self, config: RowUnitConfig, channel: Ports, bases: Sequence[int]) -> None:
        self.config, self.bases = config, bases
        self.reader = Reader(channel, config.bus_bytes, config.commands)
        self.writer = Writer(channel, config.bus_bytes)
        self.tables = [Directory(table) for table in config.tables]
        self.batch, self.position = 1, 0
        self.looked_up = 0  # from when on the next tuple's lookups may begin
        self.lasts = deque([-1] * config.ahead, config.ahead)  # when the latest ones went on
        self.there = 0  # from when on the latest row that was asked for is in its line
        self.left = -1  # the last word that was written
        self.names: list[tuple[int, int]] = []  # rows that were written and not answered
        self.before: Sequence[int] = ()  # rows of the tuple before
        self.waits = dict.fromkeys(CAUSES, 0)
        self.late = 0  # cycles in which the next tuple may go on, but for its rows
        self.moved: list[int] = []  # addresses of rows that were fetched or written back

    @property
    def free(self) -> int:
        """From when on the next tuple is taken."""
        return max(self.looked_up, self.lasts[0] + 1)

    @property
    def counts(self) -> Counts:
        """All tables' together."""
        found = Counts()
        for table in self.tables:
            for name, count in vars(table.counts).items():
                setattr(found, name, getattr(found, name) + count)
        return found

    def pass_on(self, taken: int, rows: Sequence[int], ready: int, changes: Changes) -> int:
        """Pass a tuple on, taken whole in cycle `taken`; return the cycle of its last transfer.

        `rows`: of each place; `ready`: from when on the next part takes it.
        """
        now = taken + 1
        self.waits["room"] += max(self.lasts[0] + 1 - self.looked_up, 0)
        self.waits["tuples"] += taken - self.free
        late = [*range(len(self.tables))]  # tables whose directory is not asked meanwhile
        for group in self.config.groups:
            if self.config.bags and self.position and self._again(group, rows):
                now, late = now + 1, []
                continue
            for place, row in ((self.config.places[n], rows[n]) for n in group):
                found = self.tables[place.table].find(row, self.batch, place.changes)
                now += 3 if place.table in late else 2
                late = [] if found.hit else [place.table]
                if not found.hit:
                    now = self._asked(now, place.table, row, found, changes)
        self.before = rows
        self.position += 1
        if self.position == self.config.batch:
            self.position, self.batch = 0, self.batch + 1
        self.looked_up = now
        else_ready = max(now, self.lasts[-1] + 1, ready)
        self.late += max(self.there - else_ready, 0)
        last = max(else_ready, self.there) + self.config.beats - 1
        self.lasts.append(last)
        return last

    def _again(self, group: range, rows: Sequence[int]) -> bool:
        """Return whether the tuple before asked for the same rows at these places."""
        return all(rows[n] == self.before[n] for n in group)

    def end(self, taken: int, ready: int) -> int:
        """Pass an epoch's end on; return the cycle of its transfer."""
        if self.position:
            self.position, self.batch = 0, self.batch + 1
        self.looked_up = taken + 1
        last = max(taken + 1, self.lasts[-1] + 1, ready)
        self.lasts.append(last)
        return last

    def _answered(self, cycle: int) -> bool:
        """Return whether all that was written is answered before this cycle; no address before it is unknown."""
        return self.left < cycle - 1 and self.writer.idle() < cycle

    def _room(self, cycle: int) -> int:
        """Return from when on, this cycle at the earliest, there is room for the name of a row that is written."""
        full = len(self.names) == WRITES and not self._answered(cycle)
        return self.writer.idle() + 1 if full else cycle

    def _write(self, cycle: int, table: int, row: int) -> None:
        """Give a row's write command, valid from this cycle on."""
        if self._answered(cycle):
            self.names.clear()
        self.names.append((table, row))
        words, at = self.config.words(table), self._address(table, row)
        self.moved.append(at)
        self.left = self.writer.send(cycle, at, words, lambda previous: cycle)[1][-1]

    def _address(self, table: int, row: int) -> int:
        return self.bases[table] + row * self.config.row_bytes(table)

    def _asked(self, now: int, table: int, row: int, found: Found, changes: Changes) -> int:
        """Return the cycle after that in which a row is asked for, for which a line is looked for from this cycle on."""
        waits = self.waits
        waits["lines"] += found.looked
        now += found.looked
        through = changes.through(now)
        waits["batches"] += through - now
        begin = through
        if found.written >= 0:
            now = self._room(max(now, self.left + 1))
        now = changes.through(now) + 1
        if found.written >= 0:
            now += len(self.config.slices[table]) + 1
            self._write(now, table, found.written)
        elif self._answered(now):
            self.names.clear()
        if (table, row) in self.names:
            now = self.writer.idle() + 1
            self.names.clear()
        waits["written"] += now - 1 - begin
        at = self._address(table, row)
        self.moved.append(at)
        asked = self.reader.command(now, at, self.config.words(table))
        waits["port"] += asked - now
        now = asked
        self.there = self.reader.drain(self.there)[1] + 1
        for part in self.config.slices[table]:
            while changes.writes(part.model, self.there):
                self.there += 1
            self.there += 1
        return now + 1

    def flush(self, start: int) -> int:
        """Write back what changed, the last batch being through in cycle `start`; return the cycle of `done`."""
        now = max(start + 1, self.writer.idle()) + 1
        regions = [(n, rows) for n, table in enumerate(self.tables) for rows in table.flush()]
        for number, rows in regions:
            for row in rows.values():
                now += 2
                if row >= 0:
                    now += len(self.config.slices[number]) + 1
                    self._write(now, number, row)
                    now = self._room(self.left + 1) + 1
            now += 1
        return max(now, self.writer.idle())
