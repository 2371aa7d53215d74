"""Where states and operands of a recurrence lie in the banks, and which rounds work on them.

Words are Pimba's. A *sub-chunk* is 32 bytes of one state column along dim_head; a *chunk* 32 sub-chunks along
dim_state: a row; a *chunk group* all chunks of one slice of dim_head, in consecutive rows of one bank, with
the same rates, k and q. Two slices of a head go to the upper and the bottom bank of a pair, so that their outputs
add up there; a head with an odd number of slices gets one of zeros. Pairs of slices of all heads and requests
are dealt to the pairs of banks in turn; the sums over pairs of slices are the host's. The chunks of a pair of slices may be dealt over several
pairs of banks (`PimConfig.stripes`), each of which has consecutive ones.

A cache of keys (score) lies like a state whose columns are tokens. A cache of values (attend) has tokens as
sub-chunks; upper and bottom bank hold alternate chunks of 32 tokens of the same slice, and the host adds the
sums of the chunks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..bound_terms import Machine
from ..memory import Memory
from ..numerics.lfsr import seed_words
from ..target import Target
from . import rate
from .config import COLUMNS, PimConfig
from .device import Step, registers_of
from .operands import Bits, Floats, Operands, Seating, Work, coded, decoded, shared
from .rounds import Round
from .schedule import schedule

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Layout:
    """Where one recurrence lies on one device, and the rounds that compute it.

    An item (a head of a request) has `parts`, each of which lies in one pair of banks. A *seat* is the place of a part in a pair; a part's slot is
    seat × pairs + pair.

    With stochastic rounding each unit has a stream of random bits, which begins anew at each token, from a hash of the `seed`, the request's number,
    the layer, the head, the pair of slices, the token's number and a unit number.

    So that no two streams are alike, unit numbers of a token's n-th update (from 0) begin at n times the units of a pair, and those of stripe s at
    s × 16, or at s times what all updates of a token take where that is more than 16.

    A state of zeros is not loaded. Instead its rates c = 1 − d are 1 at its first token, which clears what the banks hold, and a pass that reads
    before the first update has q = 0. Slots that nobody has get rates of 1 at every token.
    """

    config: PimConfig
    #: of a token, each "update", "score" or "attend", and whether it reads
    passes: tuple[tuple[str, bool], ...]
    head: int  #: dim_head (for a cache, the dimension)
    columns: int  #: dim_state (for a cache, its tokens)
    items: int  #: requests times heads
    tokens: int  #: steps
    seed: int = 1
    heads: int = 1  #: of a request
    first: int = 0  #: the number of the first token
    seating: Seating | None = None  #: of a session's step, None for a run
    base: int = 0  #: the first row

    @property
    def mode(self) -> str:
        """How the state lies: of "update", "score" or "attend"."""
        return next((mode for mode, _ in self.passes if mode == "update"), self.passes[0][0])

    @property
    def slices(self) -> int:
        return -(-self.head // self.config.lanes)

    @property
    def parts(self) -> int:
        """Parts of an item, each for one pair of banks: pairs of slices, each in as many parts as there are stripes; in attend, slices."""
        return self.slices if self.mode == "attend" else -(-self.slices // 2) * self.stripes

    @property
    def stripes(self) -> int:
        """Pairs of banks that the columns of a pair of slices are dealt over."""
        return self.config.stripes if self.mode == "update" else 1

    @property
    def each(self) -> int:
        """Columns of the state, or tokens of a cache, in a row of a pair of banks."""
        return 2 * COLUMNS if self.mode == "attend" else COLUMNS

    @property
    def chunks(self) -> int:
        """Rows of a bank that one part of an item takes."""
        return -(-self.columns // (self.each * self.stripes))

    @property
    def seats(self) -> int:
        """Parts that a pair of banks serves."""
        if self.seating is not None:
            return len(self.seating.rows)
        return -(-self.items * self.parts // self.config.pairs)

    @property
    def slots(self) -> NDArray[np.int64]:
        """The slot of each part: seat · pairs + pair."""
        if self.seating is not None:
            return np.asarray(self.seating.slots, dtype=np.int64)
        return np.arange(self.items * self.parts)

    def row(self, seat: int, chunk: int) -> int:
        """Return the row of a seat's chunk."""
        begin = seat * self.chunks if self.seating is None else self.seating.rows[seat]
        return self.base + chunk + begin

    @property
    def rows(self) -> int:
        """Rows of each bank that are used."""
        return self.seats * self.chunks

    def machine_bound(self, part: Target, memory: Memory) -> Machine:
        """Return what no device beats on this part. Of `config` only the format counts.

        memory: the state, and each token's operands. products: of each number of the state two in an update, one where it is read.
        recurrence: token after token.
        """
        # bytes of a number; bits of each factor of a product
        size, factor = (1, 7) if self.config.format == "mx8" else (2, 11)
        numbers = self.items * self.head * self.columns
        vectors = self.head if self.mode != "attend" else self.columns
        read = numbers + self.tokens * self.items * vectors * sum(reads for _, reads in self.passes)
        uses = sum(2 * (mode == "update") + reads for mode, reads in self.passes)
        products = [(self.tokens * numbers * uses, [(factor, factor, False)])]
        return Machine.of(part, memory, size * read // part.bus_bytes, products, self.tokens)

    def _dealt(self, parts: NDArray[np.uint8]) -> Bytes:
        """Deal (…, items · parts, 2, rest) to (…, seats, banks, rest), absent ones zero."""
        shape = list(parts.shape)
        shape[1] = self.seats * self.config.pairs
        full = np.zeros(shape, dtype=np.uint8)
        full[:, self.slots] = parts
        return full.reshape(shape[0], self.seats, self.config.pairs * 2, *shape[3:])

    def _vectors(self, x: Floats) -> Bytes:
        """(tokens, items, dim_head) as bytes (tokens, seats, banks, 32)."""
        return self._dealt(self.sub_chunks(x))

    def sub_chunks(self, x: Floats) -> Bytes:
        """Vectors (tokens, items, dim_head) as bytes (tokens, items · parts, 2 banks, 32): in attend the same ones for both banks."""
        halves, slabs = 1 if self.mode == "attend" else 2, self.parts // self.stripes
        wide = np.zeros((len(x), self.items, halves * slabs * self.config.lanes))
        wide[..., : self.head] = x
        data = coded(self.config.format, wide.reshape(len(x), self.items * slabs, halves, -1))
        return np.broadcast_to(data, (*data.shape[:2], 2, 32)).repeat(self.stripes, axis=1)

    def _rates(self, c: Floats, fresh: NDArray[np.bool_]) -> Bytes:
        """Rates (tokens, items, dim_head or 1) as bytes (tokens, seats, banks, registers, 32); `fresh`: items that
        begin here."""
        lanes, tokens = self.config.lanes, len(c)
        if c.shape[-1] == 1:
            wide = np.broadcast_to(c[..., None, None], (tokens, self.items, self.parts, 2, 16))
        else:
            wide = np.zeros((tokens, self.items, 2 * self.parts // self.stripes * lanes))
            wide[..., : self.head] = c
            wide = wide.reshape(tokens, -1, 2 * lanes).repeat(self.stripes, axis=1)
        data = np.ascontiguousarray(rate.codes(wide).astype("<u2")).view(np.uint8)
        data = data.reshape(tokens, self.items * self.parts, 2, -1, 32)
        ones = np.full(16, rate.ONE, dtype="<u2").view(np.uint8)
        data[0, np.repeat(fresh, self.parts)] = ones
        dealt = self._dealt(data)
        pairs = dealt.reshape(tokens, -1, *data.shape[2:])
        idle = () if self.seating is None else self.seating.idle
        free = np.setdiff1d(np.arange(pairs.shape[1]), [*self.slots, *idle])
        pairs[:, free] = ones
        return dealt

    def _seeds(self, work: Work) -> Bytes:
        """Seeds (tokens, seats, pairs, 32) of all pairs' units."""
        assert work.given.k is not None
        units, tokens = 2 // self.config.design.banks, len(work.given.k)
        shape = (tokens, self.items * self.parts, units)
        token, place, unit = np.indices(shape, sparse=True)
        item, part = np.divmod(place, self.parts)
        part, stripe = np.divmod(part, self.stripes)
        request, head = np.divmod(item, self.heads)
        if self.seating is None:
            layer, whose = 0, [Bits(self.seed, n, self.first) for n in range(self.items)]
        else:
            layer, whose = self.seating.layer, list(self.seating.bits)
        mask = (1 << 64) - 1
        seed, request_seed, first = (
            np.array([n & mask for n in numbers], dtype=np.uint64)[request]
            for numbers in zip(*whose, strict=True)
        )
        number = token.astype(np.uint64) + first + np.uint64(work.first)
        updates = [mode == "update" for mode, _ in self.passes]
        further = units * sum(updates[: work.number]) + stripe * max(16, units * sum(updates))
        words = seed_words(seed, request_seed, layer, head, part, number, unit + further)
        seeds = np.zeros((*shape[:2], 2, 16), dtype=np.uint8)
        seeds[..., :units, :] = words.astype("<u8").view(np.uint8)
        return self._dealt(seeds).reshape(tokens, self.seats, -1, 32)

    def _columns(self, x: Floats) -> Bytes:
        """(tokens, items, dim_state) as bytes (tokens, seats, banks, chunks, bytes of 32 numbers)."""
        tokens = len(x)
        wide = np.zeros((tokens, self.items, self.stripes * self.chunks * self.each))
        wide[..., : self.columns] = x
        if self.mode == "attend":
            halves = wide.reshape(tokens, self.items, 1, self.chunks, 2, COLUMNS).swapaxes(3, 4)
        else:
            halves = wide.reshape(tokens, self.items, self.stripes, 1, self.chunks, COLUMNS)
            halves = np.tile(halves, (1, 1, self.parts // self.stripes, 1, 1, 1))
        full = np.broadcast_to(halves, (tokens, self.items, self.parts, 2, self.chunks, COLUMNS))
        data = coded(self.config.format, full)
        return self._dealt(data.reshape(tokens, self.items * self.parts, 2, self.chunks, -1))

    def parts_of(self, state: Floats) -> Bytes:
        """Return a state (items, dim_head, dim_state), or a cache of keys (items, dim, tokens) or of values
        (items, dim, tokens), as bytes (items · parts, 2 banks, chunks, 32, 32)."""
        lanes, parts, stripes = self.config.lanes, self.parts, self.stripes
        if self.mode == "attend":
            wide = np.zeros((self.items, parts * lanes, self.chunks * 2 * COLUMNS))
            wide[:, : self.head, : self.columns] = state
            x = wide.reshape(self.items, parts, lanes, self.chunks, 2, COLUMNS)
            x = x.transpose(0, 1, 4, 3, 5, 2)  # item, part, bank, chunk, column, lane
        else:
            shape = self.items, 2 * parts // stripes * lanes, stripes * self.chunks * COLUMNS
            wide = np.zeros(shape)
            wide[:, : self.head, : self.columns] = state
            x = wide.reshape(self.items, -1, 2, lanes, stripes, self.chunks, COLUMNS)
            x = x.transpose(0, 1, 4, 2, 5, 6, 3)
        data = coded(self.config.format, np.ascontiguousarray(x))
        return data.reshape(self.items * parts, 2, self.chunks, COLUMNS, 32)

    def rows_of(self, state: Floats) -> Bytes:
        """Return what `parts_of` takes, as bytes (rows, banks, 32, 32)."""
        dealt = self._dealt(self.parts_of(state)[None])[0]  # seats, banks, chunks, …
        return dealt.swapaxes(1, 2).reshape(self.rows, -1, COLUMNS, 32)

    def numbers_of(self, parts: Bytes) -> Floats:
        """Return the state or cache of bytes that `parts_of` gave."""
        shape = (self.items, -1, self.stripes, 2, self.chunks, COLUMNS, self.config.lanes)
        order = (0, 1, 2, 6, 4, 3, 5) if self.mode == "attend" else (0, 1, 3, 6, 2, 4, 5)
        dealt = decoded(self.config.format, parts).reshape(shape).transpose(order)
        x = dealt.reshape(self.items, -1, self.stripes * self.chunks * self.each)
        return x[:, : self.head, : self.columns]

    def state_of(self, rows: Bytes) -> Floats:
        """Return the state (items, dim_head, dim_state) of rows (rows, banks, 32, 32)."""
        data = rows.reshape(self.seats, self.chunks, -1, COLUMNS, 32).swapaxes(1, 2)
        data = data.reshape(self.seats * self.config.pairs, 2, self.chunks, COLUMNS, 32)
        return self.numbers_of(data[: self.items * self.parts])

    @property
    def reads(self) -> int:
        """RESULT_READs of a pair and row."""
        return 1 if self.mode == "attend" else self.config.result_reads

    def rates_of(self, operands: Operands) -> int:
        """Return how many registers of rates a first chunk writes: one where a head has a single rate."""
        single = operands.c is None or operands.c.shape[-1] == 1
        return 1 if single else self.config.lanes // 16

    def round_of(self, number: int, chunk: int, rates: int = 1, row: int = 0) -> Round:
        """Return the round of a chunk in one of a token's passes, an update's first of which has `rates` registers of rates."""
        (mode, reads), first = self.passes[number], chunk == 0
        drawn = int(first and mode == "update" and self.config.stochastic)
        round = Round(mode, 1, row, self.reads * reads, first, drawn, rates)
        return replace(round, registers=len(registers_of(self.config, round)))

    def token_cycles(self, most: int = 32, waits: bool = False) -> int:
        """Return the cycles of a token in steady state, as the scheduler places them, without refresh. Of more than about `most` rows only so many
        are scheduled, and the result is scaled up. `waits`: each pass of a token waits for the results of the pass before."""
        count = min(self.rows, max(1, most // self.chunks) * self.chunks)
        count = min(count, most) if self.chunks > most else count
        config, sets = replace(self.config, refresh="none"), range(self.config.sets)
        passes = [
            [self.round_of(number, row % self.chunks) for row in range(count)]
            for number in range(len(self.passes))
        ]
        if waits:
            longest = sum(schedule(config, [rounds for _ in sets]).length for rounds in passes)
        else:
            rounds = [one for rounds_of_pass in passes for one in rounds_of_pass]
            plan = schedule(config, [rounds * 3 for _ in sets])
            longest = max(starts[2 * len(rounds)] - starts[len(rounds)] for starts in plan.starts)
        return -(-longest * self.rows // count)

    def steps(
        self,
        works: Sequence[Work],
        order: Iterable[tuple[int, int]],
        fresh: Sequence[bool],
        start: Floats | None = None,
        stores: bool = False,
    ) -> list[list[Step]]:
        """Return the steps of each set: a given state is loaded; then all rounds of a pass for a token, in the `order` of (which of the works, which
        of its tokens); `stores`: then the state is read. `fresh`: which requests begin with the first token."""
        each = self.config.groups * self.config.banks // self.config.sets
        held = [self.held(work, np.repeat(fresh, self.heads)) for work in works]
        rounds = [(works[which], held[which], token) for which, token in order]
        rows = None if start is None else self.rows_of(start)
        by_set: list[list[Step]] = []
        for number in range(self.config.sets):
            banks = slice(number * each, (number + 1) * each)
            steps = []
            if rows is not None:
                steps += self.loads(rows[:, banks])
            for work, operands, token in rounds:
                rates = self.rates_of(work.given)
                for seat, chunk in np.ndindex(self.seats, self.chunks):
                    round = self.round_of(work.number, chunk, rates, self.row(seat, chunk))
                    steps.append(self.step_of(round, operands, token, seat, chunk, banks))
            if stores:
                none = np.zeros(0, dtype=np.uint8)
                steps += [Step(Round("store", row=r), none) for r in range(self.rows)]
            by_set.append(steps)
        return by_set

    def loads(self, rows: Bytes) -> list[Step]:
        """Return the rounds that write rows (rows, banks, 32, 32)."""
        return [Step(Round("load", row=self.base + n), row) for n, row in enumerate(rows)]

    def held(self, work: Work, fresh: NDArray[np.bool_]) -> dict[str, Bytes]:
        """Return the registers' bytes of a pass; `fresh`: items that begin with the first token."""
        operands, registers = work.given, {}
        updates = [mode == "update" for mode, _ in self.passes]
        begins = fresh & (work.first == 0)
        if updates[work.number]:
            assert operands.k is not None
            registers["k"] = self._vectors(operands.k)
            c = np.zeros((*operands.k.shape[:2], 1)) if operands.c is None else operands.c
            rates = self._rates(c, begins & (not any(updates[: work.number])))
            registers |= {f"c{n}": rates[..., n, :] for n in range(rates.shape[-2])}
            q = np.zeros_like(operands.k) if operands.q is None else operands.q
            registers["q"] = self._vectors(q)
            if self.config.stochastic:
                registers["seed"] = self._seeds(work)
        elif operands.q is not None:
            q = operands.q
            if any(updates[work.number :]) and begins.any():  # it reads what is not there yet
                q = q.copy()
                q[0, begins] = 0
            registers["q"] = self._vectors(q)
        if operands.v is not None:
            registers["v"] = self._columns(operands.v)
        return registers

    def step_of(
        self, round: Round, held: Mapping[str, Bytes], token: int, seat: int, chunk: int, cut: slice
    ) -> Step:
        """A round of the banks in `cut` with its operands."""
        names = registers_of(self.config, round)
        data = np.zeros((cut.stop - cut.start, len(names), 32), dtype=np.uint8)
        for index, name in enumerate(names):
            if name[0] == "v":
                half = slice(32 * int(name[1]), 32 * int(name[1]) + 32)
                data[:, index] = held["v"][token, seat, cut, chunk, half]
            else:
                data[:, index] = held[name][token, seat, cut]
        pairs = slice(cut.start // 2, cut.stop // 2)
        seeds = held["seed"][token, seat, pairs] if round.seeds else None
        if not self.config.chip:
            return Step(round, data, seeds)
        puts = shared(self.config.banks, names, data, seeds, 2 // self.config.design.banks)
        return Step(replace(round, shared=len(puts)), data, seeds, puts=puts)

    def results(
        self, order: Iterable[tuple[int, int, int]], steps: list[list[Step]], out: Bytes
    ) -> tuple[Floats, Floats | None]:
        """Return the outputs (passes of tokens, items, dim_state; dim of values in attend) as the host adds them, 0 of passes that do not
        read, and the state after the last token (None where it is not stored). `order`: of the transfers, as `Program` has it."""
        config = self.config
        each = config.pairs // config.sets
        kinds = [step.round.mode for step in steps[0]]
        before, stored = kinds.count("load"), kinds.count("store") > 0
        rounds = len(kinds) - before - kinds.count("store")
        partial = np.zeros((rounds, config.pairs, self.reads, 32), dtype=np.uint8)
        rows = np.zeros((self.rows, config.pairs * 2 * COLUMNS, 32), dtype=np.uint8)
        for data, (number, step, index) in zip(out, order, strict=True):
            place = step - before
            if place < rounds:
                pair, half = divmod(index, self.reads)
                partial[place, number * each + pair, half] = data
            else:
                rows[place - rounds, number * each * 2 * COLUMNS + index] = data
        return self.added(partial), self.state_of(rows) if stored else None

    def added(self, partial: Bytes, scales: Floats | None = None) -> Floats:
        """Return the outputs (turns, items, …) of what all rounds read (turns · rows, pairs, reads, 32), as the host adds it; `scales`: what each
        chunk of a turn counts (turns, items, chunks)."""
        x = decoded(self.config.format, partial.reshape(*partial.shape[:2], -1))
        turns = len(partial) // self.rows
        x = x.reshape(turns, self.seats, self.chunks, self.config.pairs, -1)
        x = x.transpose(0, 1, 3, 2, 4).reshape(turns, -1, self.chunks, x.shape[-1])
        x = x[:, self.slots].reshape(turns, self.items, -1, self.stripes * self.chunks, x.shape[-1])
        if scales is not None:
            counts = scales[:, :, None, :, None]
            x = np.where(counts == 0, 0, x) * counts
        many, axis = (self.head, 3) if self.mode == "attend" else (self.columns, 2)
        x = np.moveaxis(x, axis, 0)
        y = x[0]
        with np.errstate(invalid="ignore"):  # ∞ − ∞, where parts left float16 on opposite sides
            for part in x[1:]:  # one after another: NumPy's order depends on the array's shape
                y = y + part
        return np.asarray(y.reshape(turns, self.items, -1)[..., :many])
