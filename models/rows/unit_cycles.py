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

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from ..memory.bursts import Reader, Writer, burst_count
from ..memory.timing import Ports
from ..timeline import Credits
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
        self.room = Credits(MISSES)  # for rows that wait for their turn
        self.free = 0  # from when on the next row's turn may come
        self.leaving = Credits(
            leaving_rows(max(config.row_bytes(t) for t in range(len(config.tables))))
        )
        self.arrival = 0  # from when on the latest row that was asked for is in its line
        self.names: deque[tuple[tuple[int, int], _Written]] = deque()
        self.named: dict[tuple[int, int], _Written] = {}
        self.open: deque[_Written] = deque()  # those whose answers are not known
        self.waits = dict.fromkeys(CAUSES, 0)
        self.moved: list[int] = []  # addresses of rows that were fetched or written back

    def move(
        self, earliest: int, table: int, row: int, written: int, changes: Changes, ago: int
    ) -> None:
        """Write back a row and fetch one, −1 for none, into a line of a batch so long `ago`, 0 into an empty one; they wait from cycle `earliest` on."""
        waits, beats = self.waits, self.config.beats_of[table] * (written >= 0)
        begin = max(earliest, self.free)
        now = through = changes.through(begin, ago) if ago else begin
        if written >= 0:
            now = changes.through(max(begin, self.leaving.free, self._name()), ago)
            self._write(now, table, written)
        self.room.give(now + 1)
        valid = self.free = now + max(beats, 1)
        if row >= 0:
            if (name := self.named.get((table, row))) is not None:
                valid = max(valid, self._answer(name) + 1)
            at = self._address(table, row)
            waits["batches"] += through - begin
            waits["written"] += valid - through - max(beats, 1)
            self.free = self.reader.command(valid, at, self.config.words(table))
            waits["port"] += self.free - valid
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
        self.leaving.give(self.writer.send(cycle + 1, at, words, lambda previous: data)[1][-1])

    def _address(self, table: int, row: int) -> int:
        at = self.bases[table] + row * self.config.row_bytes(table)
        self.moved.append(at)
        return at


class _LookUps:
    """Rows that are looked up, one behind the other: directory, owners, comparison, a cycle each. While one stays in comparison nothing moves.

    cycle        0  1  2  3  4  5  6  7
    directory    a  b  c  c  c  c  d
    owners          a  b  b  b  b  c  d
    comparison         a  a  a  a  b  c      for a there is no line, and three are looked at
    """

    def __init__(self, waits: dict[str, int], room: Credits) -> None:
        self.waits, self.room = waits, room
        # when the latest one left the directory, and the owners
        self.began, self.passed = -1, -1
        self.compared = Credits(2, -1)  # two are behind the directory

    @property
    def through(self) -> int:
        """When the latest one left comparison."""
        return self.compared.latest

    def take(self, earliest: int, cause: str, lookup: Found | None = None) -> None:
        """Look a row up from this cycle on, or pass over one that is left out (None). `cause`: what it has waited for."""
        waits, before = self.waits, self.compared.latest
        began = max(earliest, self.began + 1, self.compared.free)
        if self.passed < began < before:
            began = before
        passed = max(began + 1, before)
        waits[cause] += passed - before
        through = passed + 1
        if lookup is not None and not lookup.hit:
            looked = max(lookup.looked, 1)
            through += looked
            waits["lines"] += looked - 1
            waits["rows"] += max(self.room.free - through, 0)
            through = max(through, self.room.free)
        self.began, self.passed = began, passed
        self.compared.give(through)


class RowUnitModel:
    """One run of a row unit, whose memory port is `channel`; `bases`: addresses of the tables."""

    def __init__(self, config: RowUnitConfig, channel: Ports, bases: Sequence[int]) -> None:
        self.config = config
        self.mover = _Mover(config, channel, bases)
        self.waits = self.mover.waits
        self.tables = [Directory(table) for table in config.tables]
        # of each index, the number of each place, its table, and whether that changes
        self.indices = [
            [(n, config.places[n].table, config.places[n].changes) for n in group]
            for group in config.groups
        ]
        self.bags = config.bags
        self.batch, self.position = 1, 0
        self.ahead = Credits(config.ahead)  # for tuples that are held
        self.waiting = Credits(TUPLES)  # for those that are not looked up yet
        self.lookups = _LookUps(self.waits, self.mover.room)
        self.before: Sequence[
            int
        ] = ()  # rows of the tuple before; equal ones of a bag are left out
        self.late = 0  # cycles in which the next tuple may go on, but for its rows

    @property
    def free(self) -> int:
        """From when on the next tuple is taken."""
        return max(self.waiting.free, self.ahead.free)

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
        lookups, cause = self.lookups, self._cause(taken)
        batch, before = self.batch, self.before
        for places in self.indices:
            if self.bags and self.position and all(rows[n] == before[n] for n, _, _ in places):
                lookups.take(taken + 1, cause)
                continue
            for n, table, change in places:
                lookup = self.tables[table].find(rows[n], batch, change)
                lookups.take(taken + 1, cause, lookup)
                if not lookup.hit:
                    ago = batch - lookup.batch if lookup.looked else 0
                    begin = lookups.through + 1
                    self.mover.move(begin, table, rows[n], lookup.written, changes, ago)
        self.before = rows
        self.position += 1
        if self.position == self.config.batch:
            self.position, self.batch = 0, self.batch + 1
        begin, arrival = self._goes(ready), self.mover.arrival
        self.late += max(arrival - begin, 0)
        last = max(begin, arrival) + self.config.beats - 1
        self.ahead.give(last + 1)
        return last

    def _cause(self, taken: int) -> str:
        """Return what a tuple that was taken in this cycle has waited for."""
        return "room" if taken == self.ahead.free else "tuples"

    def _goes(self, ready: int) -> int:
        """Return the first cycle in which what was looked up last can go on, behind what went before it."""
        self.waiting.give(self.lookups.began + 1)
        return max(self.lookups.through + 1, self.ahead.latest, ready)

    def end(self, taken: int, ready: int) -> int:
        """Pass an epoch's end on; return the cycle of its transfer."""
        if self.position:
            self.position, self.batch = 0, self.batch + 1
        self.lookups.take(taken + 1, self._cause(taken))
        last = self._goes(ready)
        self.ahead.give(last + 1)
        return last

    def flush(self, start: int) -> int:
        """Write back what changed, the last batch being through in cycle `start`; return the cycle of `done`."""
        now, mover, always = start + 1, self.mover, _Always()
        regions = [(n, rows) for n, table in enumerate(self.tables) for rows in table.flush()]
        for number, rows in regions:
            for row in rows.values():
                now += 1
                if row >= 0:
                    now = max(now, mover.room.free)
                    mover.move(now + 1, number, -1, row, always, 0)
            now += 1
        return max(now, mover.free + 1, mover.writer.idle())
