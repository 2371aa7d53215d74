"""When each command is issued: rounds of rows, staggered or not, around refresh.

Commands of rounds (`models.pim.rounds`), on one command bus that both pseudo-channels of a channel share
(each command reaches both in lock step, with data of its own for each):

* ROUND announces a round: its mode, and so its count of iterations. It takes a cycle of the bus.
* ACT4 opens a row in the banks of one bank group; it takes the whole budget of tFAW.
* REG_WRITE carries 32 bytes to a register of a unit, RESULT_READ 32 bytes from one.
* COMP runs one iteration in all units of the set; a run of them is one entry in a program.
* PRECHARGES closes all rows of the set.
* REFRESH refreshes all banks (REFab), or one bank (REFpb).
* WRITE and READ are the DRAM's own, 32 bytes of an open row.
* TAKE, WEIGH and TOTAL are transfers to and from the softmax unit: of scores that it takes, weights that it gives to a unit, and a total that is
  read. It takes one tile after another, and a round that needs its weights begins when it has them.

The rules are those of the public simulator's paper, from first to second command:

    ACT4 → ACT4             max(tRRD, tFAW)
    ACT4 → COMP             tRCD
    ACT4 → PRECHARGES       tRAS
    COMP → COMP             tCCD_L in a bank group, tCCD_S between groups (1 where COMP is bank-local)
    COMP → PRECHARGES       max(tRTP, tWR)
    PRECHARGES → ACT4       tRP
    ACT4 → its REG_WRITEs   2, then max(burst, tCCD_L) each, and as much before COMP
    PRECHARGES → results    1, then max(burst, tCCD_L) each, and as much before the next ROUND

Where all banks work as one set, REG_WRITEs lie between the ACT4s and ROUND waits for tRP, as published.
Staggered sets divide the interval of COMP among them: each has its cycles modulo the interval, so that
their commands never meet. Their REG_WRITEs begin behind ROUND, and ROUND comes while rows close.

Beside block RAM PRECHARGES keeps a round's results until the next one's, and ROUND takes the operands that came since the last. So what a
round has read leaves, and the next one's operands arrive, while units iterate.

The accesses of a COMP inside the banks are free of tWTR and tRTW, as published.
"""

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace

from .config import COLUMNS, PimConfig
from .rounds import HARDWARE, MODES, Charges, Round, round_cycles, slots_of
from .timing import HELD


@dataclass(frozen=True)
class Command:
    """One command in its cycle."""

    cycle: int
    name: str
    set: int
    groups: tuple[int, ...]  #: bank groups that it acts on
    round: int  #: its number in the set
    index: int = 0  #: register write, result, column of the round, or bank of a refresh
    count: int = 1  #: iterations of a COMP run
    row: int = 0


@dataclass
class Schedule:
    """Commands in the order of their cycles, and where rounds begin."""

    config: PimConfig
    charges: Charges
    interval: int
    commands: list[Command]
    starts: list[list[int]] = field(default_factory=list)  #: of each set's rounds
    length: int = 0  #: cycles until the last round is over

    def period(self) -> int:
        """Cycles from the last but one round's start to the last's, of the set where it is longest."""
        return max(starts[-1] - starts[-2] for starts in self.starts)


#: a cycle before all others
_NEVER = -(1 << 40)


@dataclass(frozen=True)
class _Wish:
    """A command that a set would issue next, and when at the earliest as the set itself sees it."""

    earliest: int
    name: str
    groups: tuple[int, ...]
    index: int = 0
    count: int = 1
    row: int = 0
    column: bool = False  #: it takes a place among column commands
    data: int = 0  #: 1: it writes on the data bus, −1: it reads
    ends: bool = False  #: a tile of the softmax unit is whole with it
    beside: int | None = None  #: of what passes amid others: its round, from the set's on


class _Shared:
    """What the sets share: the data bus, activations and refreshes."""

    def __init__(self, config: PimConfig) -> None:
        self.config = config
        self.act = self.refresh = self.data = _NEVER
        self.latest = _NEVER  # of all commands
        self.tiles = [0]  # when each tile's weights are there, by its number from 1 on
        self.data_set, self.direction = -1, 0

    def earliest(self, wish: _Wish, number: int) -> int:
        """The first cycle in which what others did lets a set's command be."""
        t, cycle = self.config.timing, wish.earliest
        if wish.name == "ACT4":
            cycle = max(cycle, self.act + max(t.tRRD, t.tFAW), self.refresh + t.tRREFD)
        if wish.name == "REFpb":
            cycle = max(cycle, self.act + t.tRRD, self.refresh + t.tRREFD)
        if self.config.chip:  # no phases keep sets apart
            cycle = max(cycle, self.latest + 1)
        if wish.data:
            gap = max(t.burst, self.config.transfer if number == self.data_set else t.tCCD_S)
            if wish.data != self.direction:
                gap = max(gap, t.tRTW if wish.data > 0 else t.tWTR)
            cycle = max(cycle, self.data + gap)
        return cycle

    def issued(self, wish: _Wish, number: int, cycle: int) -> None:
        self.latest = cycle
        if wish.ends:
            self.tiles.append(max(cycle + 2, self.tiles[-1]) + self.config.tile_cycles)
        if wish.name == "ACT4":
            self.act = cycle
        if wish.name == "REFpb":
            self.refresh = cycle
        if wish.data:
            self.data, self.data_set, self.direction = cycle, number, wish.data


_Steps = Generator[list[_Wish], tuple[_Wish, int], None]


class _Set:
    """A set of bank groups, and its rounds: says which commands it would issue next."""

    def __init__(self, number: int, config: PimConfig, charges: Charges, interval: int) -> None:
        self.number, self.config, self.charges = number, config, charges
        self.groups = config.set_groups(number)
        self.interval = interval
        self.step = config.transfer
        self.staggered = config.sets > 1
        width = interval // config.sets
        base = number * width
        buses = 1 if charges.lockstep else 2
        # cycles modulo the interval that are this set's own
        has_phase = self.staggered and not config.chip
        self.columns = (base,) if has_phase else tuple(range(interval))
        self.others = tuple(range(base, base + width, buses)) if has_phase else self.columns
        if config.bank_local or config.chip or not charges.lockstep:
            self.others = self.columns
        self.closed, self.free, self.latest = _NEVER, 0, -1
        self.starts: list[int] = []
        self.number_of_round = -1
        self.writes: deque[tuple[tuple[int, ...], int]] = deque()  # of the round to come, on chip
        self.reads: deque[tuple[str, int, int]] = deque()  # and of the last one that is over

    def fit(self, wish: _Wish, cycle: int) -> int:
        """The first cycle from `cycle` on that is this set's own."""
        phases = self.columns if wish.column else self.others
        return min(cycle + (phase - cycle) % self.interval for phase in phases)

    def _writes(self, round: Round) -> list[tuple[tuple[int, ...], int]]:
        """The bank groups of each REG_WRITE of a round, and its number there."""
        if round.mode not in MODES:
            return []
        if round.shared is not None:
            return [(self.groups, k) for k in range(round.shared)]
        each = round.registers * self.config.banks + round.seeds * self.config.banks // 2
        return [((group,), k) for group in self.groups for k in range(each)]

    def play(self, round: Round) -> _Steps:
        """Give wishes, and take what was issued, until the round is over."""
        t, groups = self.config.timing, self.groups
        _, start = yield [_Wish(self.free, "ROUND", groups, row=round.row)]
        self.starts.append(start)
        self.number_of_round += 1
        moves, writes = round.mode not in MODES, self._writes(round)
        last_act, last_write = start, _NEVER
        behind = start + 1  # where no REG_WRITE is pending
        acts = [(group,) for group in groups]
        opened: dict[tuple[int, ...], int] = {}
        while acts or writes:
            wishes = []
            if acts and (self.staggered or not writes or writes[0][0] == acts[0]):
                wishes.append(
                    _Wish(max(behind, self.closed + t.tRP), "ACT4", acts[0], row=round.row)
                )
            if writes and (self.staggered or not acts or writes[0][0] in opened):
                bank_groups, k = writes[0]
                after = start + 1 if self.staggered else opened.get(bank_groups, start) + 2
                wish = _Wish(
                    max(after, last_write + self.step),
                    "WEIGH" if round.soft and round.mode == "attend" else "REG_WRITE",
                    bank_groups,
                    k,
                    column=True,
                    data=1,
                )
                wishes.append(wish)
            done, cycle = yield wishes
            if done.name == "ACT4":
                opened[acts.pop(0)] = last_act = cycle
            else:
                writes.pop(0)
                last_write = cycle
                if not self.staggered:
                    behind = cycle + self.step
        if moves:
            last = yield from self._move(round, last_act)
        else:
            ready = max(last_act + t.tRCD, last_write + self.step)
            count = slots_of(self.config, round.mode, self.charges.drain)
            _, first = yield [_Wish(ready, "COMP", groups, count=count, column=True)]
            last = first + self.interval * (count - 1) + max(t.tRTP, t.tWR)
        _, self.closed = yield [_Wish(max(last, last_act + t.tRAS), "PRECHARGES", groups)]
        read = self.closed + 1 - self.step
        for name, group, number in self._results(round):
            ends = name == "TAKE" and number in round.ended
            at = read + self.step
            _, read = yield [_Wish(at, name, (group,), number, column=True, data=-1, ends=ends)]
        over = read + self.step
        self.free = over if self.staggered else max(over, self.closed + t.tRP)

    def _results(self, round: Round) -> list[tuple[str, int, int]]:
        """The name of each transfer of what a round has read, its bank group and its number."""
        pairs = [g for g in self.groups for _ in range(self.config.banks // 2)]
        name = "TAKE" if round.soft and round.mode == "score" else "RESULT_READ"
        reads = round.reads if round.mode in MODES else 0
        transfers = [(name, group, number) for number, group in enumerate(pairs * reads)]
        return transfers + [("TOTAL", self.groups[0], n) for n in range(round.totals)]

    def flow(self, round: Round, following: Round | None) -> _Steps:
        """As `play` beside block RAM, amid the results of the round before and the operands of the following one."""
        t, groups = self.config.timing, self.groups
        if self.number_of_round < 0:
            self.writes.extend(self._writes(round))
        while self.writes:
            yield from self._amid()
        start = yield from self._amid(_Wish(self.free, "ROUND", groups, row=round.row))
        self.starts.append(start)
        self.number_of_round += 1
        self.writes.extend(self._writes(following) if following else ())
        act = yield from self._amid(_Wish(start + t.tRP, "ACT4", groups, row=round.row))
        if round.mode in MODES:
            count = slots_of(self.config, round.mode, self.charges.drain)
            comp = _Wish(act + t.tRCD, "COMP", groups, count=count, column=True)
            first = yield from self._amid(comp)
            last = first + self.interval * (count - 1) + max(t.tRTP, t.tWR)
        else:
            last = yield from self._move(round, act)
        while self.reads:
            yield from self._amid()
        self.closed = yield from self._amid(_Wish(last, "PRECHARGES", groups))
        self.reads.extend(self._results(round))
        self.free = self.closed + 1
        while self.reads and not following:
            self.free = (yield from self._amid()) + 1

    def _amid(self, wish: _Wish | None = None) -> Generator[list[_Wish], tuple[_Wish, int], int]:
        """Issue a command, and before it what there is room for, or a transfer alone; return its cycle."""
        while True:
            wishes, since = [], self.starts[-1] if self.starts else 0
            if self.reads:
                name, group, k = self.reads[0]
                whose, at = -int(since > self.closed), self.closed + HELD
                wishes = [_Wish(at, name, (group,), k, column=True, data=-1, beside=whose)]
            if self.writes:
                bank_groups, k = self.writes[0]
                come = _Wish(since + 1, "REG_WRITE", bank_groups, k, column=True, data=1, beside=1)
                wishes.insert(len(wishes) * (len(self.reads) >= len(self.writes)), come)
            done, cycle = yield [wish, *wishes] if wish else wishes
            if done.beside is not None:
                (self.writes if done.data > 0 else self.reads).popleft()
            if done.beside is None or wish is None:
                return cycle

    def _move(self, round: Round, last_act: int) -> Generator[list[_Wish], tuple[_Wish, int], int]:
        """Write or read rows of some banks, or of all; return when they may be closed."""
        t, name = self.config.timing, "WRITE" if round.mode == "load" else "READ"
        direction = 1 if round.mode == "load" else -1
        cycle = last_act + t.tRCD - self.step
        every = range(len(self.groups) * self.config.banks)
        for n, bank in enumerate(sorted(round.banks) or every):
            place, local = divmod(bank, self.config.banks)
            group = (self.groups[place],)
            for column in (round.columns[n],) if round.columns else range(COLUMNS):
                index = local * COLUMNS + column
                wish = _Wish(cycle + self.step, name, group, index, column=True, data=direction)
                cycle = yield from self._amid(wish)
        return cycle + (t.inner_write_to_read - t.tWTR + t.tWR if direction > 0 else t.tRTP)

    def refresh(self) -> _Steps:
        """Refresh every bank of the set, one after another."""
        t = self.config.timing
        cycle = 0
        for group in self.groups:
            for bank in range(self.config.banks):
                _, cycle = yield [_Wish(self.closed + t.tRP, "REFpb", (group,), bank)]
        self.free = max(self.free, cycle + t.tRFCpb)


def period_of(config: PimConfig, round: Round, charges: Charges = HARDWARE) -> int:
    """Return the cycles from a round's start to the next one's, of a set alone."""
    if config.sets == 1 and not config.chip and round.mode in ("update", "score", "attend"):
        return round_cycles(config, round, charges)
    alone = replace(config, refresh="none")
    rounds: list[list[Round]] = [[round, round]] + [[] for _ in range(config.sets - 1)]
    starts = schedule(alone, rounds, charges).starts[0]
    return starts[1] - starts[0]


def schedule(
    config: PimConfig, rounds: Sequence[Iterable[Round]], charges: Charges = HARDWARE
) -> Schedule:
    """Place the rounds of each set, in order, each command as early as the rules let it be.

    Staggered sets begin a part of the first round's length after one another.
    """
    interval = config.interval
    if not charges.lockstep:
        interval = max(interval, 2 * config.sets)
    player = _Player(config, charges, interval, rounds)
    player.play()
    commands = sorted(player.commands, key=lambda command: command.cycle)
    sets = player.sets
    over = max((max(set.free, set.closed + config.timing.tRP) for set in sets), default=0)
    return Schedule(config, charges, interval, commands, [set.starts for set in sets], over)


class _Player:
    """The sets of a device at work: `waiting` are the rounds that each has not begun, `due` when each is refreshed next."""

    def __init__(
        self,
        config: PimConfig,
        charges: Charges,
        interval: int,
        rounds: Sequence[Iterable[Round]],
    ) -> None:
        self.config, self.charges = config, charges
        self.sets = [_Set(k, config, charges, interval) for k in range(config.sets)]
        self.shared = _Shared(config)
        self.commands: list[Command] = []
        self.waiting = [list(reversed(list(queue))) for queue in rounds]
        self.lengths: dict[Round, int] = {}
        period = config.timing.tREFI
        self.due = [
            period * (k + 1) // config.sets if config.refresh == "per-bank" else period
            for k in range(config.sets)
        ]
        if sum(map(bool, self.waiting)) > 1:
            first = next(queue for queue in self.waiting if queue)
            part = self._length(first[-1]) // config.sets
            if config.chip:  # operands that chunks share come to one set after another, too
                part *= next((n for n, one in enumerate(first[-2::-1], 1) if one.first), 1)
            for set in self.sets:
                set.free = set.number * part
        self.playing = [self._next(set) for set in self.sets]

    def _length(self, round: Round) -> int:
        key = replace(round, row=0, columns=(0,) * len(round.columns), ended=(), after=0)
        if key not in self.lengths:
            self.lengths[key] = period_of(self.config, key, self.charges)
        return self.lengths[key]

    def _begin(self, set: _Set) -> _Steps | None:
        """The next thing that a set does; None: it waits for a refresh of all banks, or is done."""
        left, number = self.waiting[set.number], set.number
        if not left:
            return None
        set.free = max(set.free, self.shared.tiles[left[-1].after])
        refresh, period = self.config.refresh, self.config.timing.tREFI
        if refresh != "none" and set.free + self._length(left[-1]) > self.due[number]:
            if refresh == "window":
                set.free = max(set.free, self.due[number])
                self.due[number] += period
            elif refresh == "per-bank":
                self.due[number] += period
                return set.refresh()
            else:
                return None
        round = left.pop()
        return set.flow(round, left[-1] if left else None) if self.config.chip else set.play(round)

    def _next(self, set: _Set) -> tuple[_Steps, list[_Wish]] | None:
        steps = self._begin(set)
        return None if steps is None else (steps, next(steps))

    def play(self) -> None:
        """Issue the command that can come first, until all rounds are played."""
        while True:
            best: tuple[int, int, int, _Wish] | None = None
            for set, state in zip(self.sets, self.playing, strict=True):
                for wish in state[1] if state else ():
                    after = max(self.shared.earliest(wish, set.number), set.latest + 1)
                    cycle = set.fit(wish, after)
                    later = 0 if wish.beside is None else 1 + sum(set.starts[-1:])  # who is due
                    order = cycle, later, set.number
                    if best is None or order < best[:3]:
                        best = *order, wish
            if best is not None:
                self._issue(best[0], *best[2:])
            elif any(self.waiting):
                self._refresh_all()
            else:
                return

    def _refresh_all(self) -> None:
        """Refresh all banks; all sets are closed."""
        timing = self.config.timing
        cycle = max(max(set.closed + timing.tRP, set.free, 0) for set in self.sets)
        every = tuple(range(self.config.groups))
        self.commands.append(Command(cycle, "REFab", 0, every, 0))
        for set in self.sets:
            set.free = cycle + timing.tRFCab
            self.due[set.number] += timing.tREFI
            self.playing[set.number] = self._next(set)

    def _issue(self, cycle: int, number: int, wish: _Wish) -> None:
        set, state = self.sets[number], self.playing[number]
        self.shared.issued(wish, number, cycle)
        set.latest = cycle
        at = set.number_of_round + (wish.beside or wish.name == "ROUND")
        self.commands.append(
            Command(cycle, wish.name, number, wish.groups, at, wish.index, wish.count, wish.row)
        )
        assert state is not None
        try:
            self.playing[number] = state[0], state[0].send((wish, cycle))
        except StopIteration:
            self.playing[number] = self._next(set)
