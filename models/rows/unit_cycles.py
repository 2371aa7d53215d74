"""When the row unit lets tuples go on, in cycles: the twin of `hdl.rows.unit.RowUnit`, and what it moves.

A tuple is taken whole, then its indices are looked up one after the other, then it goes on, then the next one is taken. A lookup takes
3 cycles: directory, owner, comparison. One that finds no line goes on thus:

* a cycle at least, until the batches before are through and all that was written is answered;
* 2 cycles for each line that is looked at for one to give way;
* where its row is written back, a cycle a beat and one more; the write then goes beside the read;
* the read's command in a cycle, its words as they come, a cycle a beat into the line.

At the end each line that was ever filled takes 2 cycles; one that is written back a cycle a beat and one more, and what it takes for its words to go;
a table's end takes a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..memory.bursts import Reader, Writer
from ..memory.timing import Ports
from .store import Counts
from .unit import Directory, Found, RowUnitConfig

__all__ = ["RowUnitModel"]


class RowUnitModel:
    """One run of a row unit, whose memory port is `channel`; `bases`: addresses of the tables."""

    def __init__(self, config: RowUnitConfig, channel: Ports, bases: Sequence[int]) -> None:
        self.config, self.bases = config, bases
        self.reader = Reader(channel, config.bus_bytes)
        self.writer = Writer(channel, config.bus_bytes)
        self.tables = [Directory(table) for table in config.tables]
        self.free = 0  # from when on the next tuple is taken
        self.batch, self.position = 1, 0

    @property
    def counts(self) -> Counts:
        """All tables' together."""
        found = Counts()
        for table in self.tables:
            for name, count in vars(table.counts).items():
                setattr(found, name, getattr(found, name) + count)
        return found

    def pass_on(self, taken: int, rows: Sequence[int], ready: int, settled: int) -> int:
        """Pass a tuple on, taken whole in cycle `taken`; return the cycle of its last transfer.

        `rows`: of each place; `ready`: from when on the next part takes it; `settled`: when the batches before are through.
        """
        now = taken + 1
        for place, row in zip(self.config.places, rows, strict=True):
            found = self.tables[place.table].find(row, self.batch, place.changes)
            now += 3
            if not found.hit:
                now = self._fetched(now, place.table, row, found, settled)
        last = max(now, ready) + self.config.beats - 1
        self.free = last + 1
        self.position += 1
        if self.position == self.config.batch:
            self.position, self.batch = 0, self.batch + 1
        return last

    def end(self, taken: int, ready: int) -> int:
        """Pass an epoch's end on; return the cycle of its transfer."""
        if self.position:
            self.position, self.batch = 0, self.batch + 1
        last = max(taken + 1, ready)
        self.free = last + 1
        return last

    def _write(self, cycle: int, table: int, row: int) -> int:
        """Give a row's write command, valid from this cycle on; return the cycle of its last word."""
        words, at = self.config.words(table), self._address(table, row)
        return self.writer.send(cycle, at, words, lambda previous: cycle)[1][-1]

    def _address(self, table: int, row: int) -> int:
        return self.bases[table] + row * self.config.row_bytes(table)

    def _fetched(self, now: int, table: int, row: int, found: Found, settled: int) -> int:
        """Return the cycle after the last beat's writing of a row that a tuple waits for from this cycle on."""
        beats = len(self.config.slices[table])
        now = max(now, settled, self.writer.idle()) + 1 + 2 * found.looked
        if found.written >= 0:
            now += beats + 1
            self._write(now, table, found.written)
        now = self.reader.command(now, self._address(table, row), self.config.words(table))
        return self.reader.drain(now + 1)[1] + beats + 1

    def flush(self, start: int) -> int:
        """Write back what changed, the last batch being through in cycle `start`; return the cycle of `done`."""
        now = max(start + 1, self.writer.idle()) + 1
        for number, table in enumerate(self.tables):
            for row in table.flush():
                now += 2
                if row >= 0:
                    now += len(self.config.slices[number]) + 1
                    now = self._write(now, number, row) + 2
            now += 1
        return max(now, self.writer.idle())
