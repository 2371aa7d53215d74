"""One of the jobs that share the solver of method `givens`: its state, and which operation it has next."""

from amaranth.hdl import Array, Cat, Mux, Signal, Value
from amaranth.lib import enum

from ...models.qr.rotations import BACK, PLACES, RING
from ..index import index, index_range

__all__ = ["Context", "Kind", "State", "encoded"]


class Kind(enum.Enum, shape=3):
    """An operation of a column (of step j: `BACK`)."""

    ROW = 0  # a row is rotated
    LOAD = 1  # the column's row of u comes in
    SIDE = 2  # the right side passes
    KEEP = 3  # the column's row of u goes out
    DROP = 4  # the column's row of u becomes a row for the next column
    BACK = 5
    FINAL = 6


class State(enum.Enum, shape=3):
    """See `models.qr.rotations.State`."""

    SIDE = 0
    FLIES = 1
    KEEPS = 2
    LEAVES = 3
    DROPS = 4
    BACK = 5
    ENDS = 6


def encoded(onehot: Value) -> Value:
    """The place of the one bit."""
    size = len(onehot)
    return Cat(
        Cat(onehot[k] for k in range(size) if k >> bit & 1).any()
        for bit in range(max(1, (size - 1).bit_length()))
    )


class Context:
    """One context of `hdl.qr.givens_issue.Issue`: a job and its next operation. Vectors have a bit a column."""

    def __init__(self, issue, c):
        self.issue, self.number = issue, c
        n, most = issue.config.n_max, issue.table[-1]
        self.active, self.all_in, self.side, self.out, self.done, self.again = (
            Signal(name=f"{name}{c}")
            for name in ("active", "all_in", "side", "out", "done", "again")
        )
        self.state = Signal(State, name=f"state{c}")
        self.column, self.keeps, self.step = (
            index(n, name=f"{name}{c}") for name in ("column", "keeps", "step")
        )
        self.timer = index(BACK, name=f"timer{c}")
        self.ring, self.held = (
            Signal(range(RING + 1), name=f"{name}{c}") for name in ("ring", "held")
        )
        self.put, self.get = (
            Signal(index_range(RING), name=f"{name}{c}") for name in ("put", "get")
        )
        self.free, self.blanks = Signal(n, name=f"free{c}"), Signal(n, name=f"blanks{c}")
        self.waits, self.full, self.tail = (
            [Signal(n, name=f"{name}{c}_{p}") for p in range(PLACES)]
            for name in ("waits", "full", "tail")
        )
        # the next operation
        self.may, self.last, self.flag, self.blank, self.goes = (
            Signal(name=f"{name}{c}") for name in ("may", "next_last", "flag", "blank", "goes")
        )
        self.kind, self.onehot = Signal(3, name=f"kind{c}"), Signal(n, name=f"onehot{c}")
        self.place, self.to = (
            Signal(index_range(RING), name=f"place{c}"),
            Signal(range(PLACES), name=f"to{c}"),
        )
        self.slots, self.back = (
            Signal(range(most + 1), name=f"slots{c}"),
            Signal(range(n), name=f"back{c}"),
        )

    def choose(self, m):
        """Its next operation, and what arrives of earlier ones."""
        issue, c = self.issue, self.number
        later, arrives, arriving = issue.later, issue.arrives, issue.arriving
        units_free, take_busy, last_busy = issue.units_free, issue.take_busy, issue.busy[-1]
        n = issue.config.n_max
        columns = issue.columns[c]
        mine, arrived = Signal(name=f"freed_here{c}"), Signal(name=f"arrived_here{c}")
        at, mask = Signal(n, name=f"freed_at{c}"), Signal(n, name=f"arrived_at{c}")
        step_back = Kind(later.kind)
        m.d.comb += [
            mine.eq(
                later.some
                & (later.context == c)
                & (step_back != Kind.BACK)
                & (step_back != Kind.FINAL)
            ),
            at.eq(Mux(mine, 1 << later.column, 0)),
            arrived.eq(arrives.some & (arrives.context == c)),
            mask.eq(
                Mux(
                    arrived & ~arrives.last & ((arriving == Kind.ROW) | (arriving == Kind.DROP)),
                    2 << arrives.column,
                    0,
                )
            ),
        ]
        self.at, self.mask = at, mask
        stays = [mask.bool() & ~issue.leaves & (arrives.to == p) for p in range(PLACES)]
        ends = [mask.bool() & issue.leaves & (arrives.to == p) for p in range(PLACES)]
        self.comes, self.ends = ([Mux(flag, mask, 0) for flag in flags] for flags in (stays, ends))

        # rows: the lowest column whose row may go
        taken, room = Signal(n, name=f"taken{c}"), Signal(n, name=f"room{c}")
        anyone = Signal(n, name=f"anyone{c}")
        ready = Signal(n, name=f"ready{c}")
        lowest = Signal(n, name=f"lowest{c}")
        last = Signal(n, name=f"last{c}")
        self.taken = taken
        m.d.comb += [
            taken.eq(self.full[0] | self.full[1] | self.full[2]),
            room.eq(
                (self.tail[0] & ~self.full[0])
                | (self.tail[1] & ~self.full[1])
                | (self.tail[2] & ~self.full[2])
            ),
            last.eq(Mux(columns == 0, 0, 1 << (columns - 1)[: len(columns)])),
            anyone.eq(self.waits[0] | self.waits[1] | self.waits[2] | (self.ring != 0)),
            ready.eq(anyone & self.free & (units_free | last) & (room >> 1 | last)),
            lowest.eq(ready & (~ready + 1)),
        ]
        w, t = self.waits, self.tail
        # the place that is next, by column
        first = [Signal(n, name=f"first{c}_{p}") for p in range(PLACES)]
        m.d.comb += [
            first[p].eq(w[p] & (t[p] | (t[q] & ~w[q] & ~w[r]) | (t[r] & ~w[r])))
            for p, q, r in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
        ]
        self.first = first

        # the right side
        state, where = self.state, Signal(range(n), name=f"where{c}")
        is_back, is_drop = state == State.BACK, state == State.DROPS
        passes = (state == State.SIDE) | (state == State.KEEPS)
        spot = Signal(n, name=f"spot{c}")
        open_ = Signal(name=f"open{c}")
        behind = Signal(name=f"behind{c}")
        token = Signal(name=f"token{c}")
        m.d.comb += [
            where.eq(Mux(state == State.KEEPS, self.keeps, self.column)),
            spot.eq(1 << where),
            open_.eq((self.free & units_free & spot).any()),
            behind.eq(
                self.side
                & (take_busy == 0)
                & Mux(where == 0, self.all_in & (self.ring == 0), ~(taken & spot).any())
            ),
            token.eq(
                self.active
                & (
                    (passes & open_ & behind)
                    | (is_drop & open_ & (room & (spot << 1)[:n]).any())
                    | (is_back & (self.timer == 0) & (last_busy == 0))
                )
            ),
        ]
        self.token = token
        m.d.comb += self.may.eq(self.active & (token | ready.any()))
        source = Signal(n, name=f"source{c}")  # the operation's column
        m.d.comb += source.eq(Mux(token, spot, lowest))
        rest = Signal.like(self.slots, name=f"rest{c}")
        number = Signal(range(n), name=f"number{c}")
        m.d.comb += [
            number.eq(encoded(source)),
            rest.eq(issue.rest(columns, number)),
            self.onehot.eq(Mux(token & is_back, 0, source)),
            self.back.eq(self.step),
            self.last.eq(Mux(token & is_back, self.step == columns - 1, (source & last).any())),
            self.blank.eq((self.blanks & source).any()),
            self.flag.eq((issue.keep[c] >> self.step)[0]),
        ]
        nothing = [(source & first[p]).any() for p in range(PLACES)]
        m.d.comb += [
            self.place.eq(
                Mux(token, PLACES, Mux(source[0], self.get, Cat(nothing[1], nothing[2])))
            ),
            self.to.eq(Cat(((source << 1)[:n] & t[1]).any(), ((source << 1)[:n] & t[2]).any())),
        ]
        with m.If(~token):
            m.d.comb += [self.kind.eq(Kind.ROW.value), self.slots.eq(rest)]
        with m.Elif(is_back):
            m.d.comb += [
                self.kind.eq(Mux(self.step == 0, Kind.FINAL.value, Kind.BACK.value)),
                self.slots.eq(Array(issue.table)[Mux(self.step == 0, columns, self.step)]),
            ]
        with m.Elif(is_drop):
            m.d.comb += [self.kind.eq(Kind.DROP.value), self.slots.eq(rest)]
        with m.Else():
            m.d.comb += [
                self.kind.eq(Mux(state == State.KEEPS, Kind.KEEP.value, Kind.SIDE.value)),
                self.slots.eq(Mux(rest == 0, 1, rest)),
            ]

        # arrivals of the right side
        with m.If(self.timer != 0):
            m.d.sync += self.timer.eq(self.timer - 1)
        side_arrives = arrived & (arriving == Kind.SIDE)
        kept_all = arrived & (arriving == Kind.KEEP) & arrives.last
        dropping = issue.drops & ~self.again
        m.d.comb += self.goes.eq(kept_all | (side_arrives & ~dropping & arrives.last & ~self.out))
        with m.If(side_arrives):
            with m.If(dropping):
                m.d.sync += [
                    state.eq(Mux(self.out, State.DROPS, State.KEEPS)),
                    self.keeps.eq(self.column + 1),
                ]
            with m.Elif(arrives.last):
                m.d.sync += [state.eq(State.BACK), self.step.eq(columns - 1), self.timer.eq(0)]
            with m.Else():
                m.d.sync += [
                    state.eq(State.SIDE),
                    self.column.eq(self.column + 1),
                    self.again.eq(0),
                ]
        with m.If(issue.gone & (issue.gone_context == c)):
            m.d.sync += self.out.eq(1)
            with m.If(state == State.LEAVES):
                m.d.sync += state.eq(State.DROPS)
        with m.If(issue.ended & (issue.ended_context == c)):
            m.d.sync += self.done.eq(1)
        with m.If(self.out & self.done):
            m.d.sync += self.active.eq(0)

    def issued(self, m, chosen, loads, load_column):
        """What an issue and the events of a cycle do to it."""
        n = self.issue.config.n_max
        is_row = Signal()
        m.d.comb += is_row.eq(chosen & ~self.token)
        gone, into = Signal(n), Signal(n)
        drops = chosen & self.token & (self.state == State.DROPS)
        of_column = Mux(chosen, self.onehot, 0) | Mux(loads, 1 << load_column, 0)
        m.d.comb += [
            gone.eq(Mux(is_row, self.onehot, 0)),
            into.eq(Mux(is_row | drops, self.onehot << 1, 0)),
        ]
        with m.If(self.active):
            m.d.sync += [
                self.free.eq((self.free & ~of_column) | self.at),
                self.blanks.eq(self.blanks & ~gone),
            ]
            for p in range(PLACES):
                consumed = gone & self.first[p]
                m.d.sync += [
                    self.waits[p].eq((self.waits[p] & ~consumed) | self.comes[p]),
                    self.full[p].eq(
                        (self.full[p] & ~consumed & ~self.ends[p]) | (into & self.tail[p])
                    ),
                    self.tail[p].eq((self.tail[p] & ~into) | (self.tail[p - 1] & into)),
                ]
        with m.If(is_row & self.onehot[0]):
            m.d.sync += self.get.eq(self.get + 1)
        with m.If(chosen & self.token):
            with m.Switch(self.state):
                with m.Case(State.SIDE):
                    m.d.sync += self.state.eq(State.FLIES)
                with m.Case(State.KEEPS):
                    m.d.sync += self.keeps.eq(self.keeps + 1)
                    with m.If(self.last):
                        m.d.sync += self.state.eq(State.LEAVES)
                with m.Case(State.DROPS):
                    m.d.sync += [self.state.eq(State.SIDE), self.again.eq(1)]
                with m.Case(State.BACK):
                    m.d.sync += [self.timer.eq(BACK - 1), self.step.eq(self.step - 1)]
                    with m.If(self.step == 0):
                        m.d.sync += self.state.eq(State.ENDS)

    def reset(self, m):
        """A job begins here."""
        issue, c = self.issue, self.number
        fresh = issue.start.p.fresh
        m.d.sync += [
            issue.columns[c].eq(issue.start.p.columns),
            issue.jobs[c].eq(issue.start.p.job),
            self.active.eq(1),
            self.state.eq(State.SIDE),
            self.column.eq(0),
            self.again.eq(0),
            self.ring.eq(0),
            self.held.eq(0),
            self.put.eq(0),
            self.get.eq(0),
            self.all_in.eq(0),
            self.side.eq(0),
            self.out.eq(0),
            self.done.eq(0),
            self.free.eq(fresh.replicate(issue.config.n_max)),
            self.blanks.eq(fresh.replicate(issue.config.n_max)),
        ]
        for p in range(PLACES):
            m.d.sync += [
                self.waits[p].eq(0),
                self.full[p].eq(0),
                self.tail[p].eq(-1 if p == 0 else 0),
            ]
