"""A session: requests whose states stay in the banks, over several layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engines.base import Given
from penstock.engines.session import SessionError
from penstock.errors import not_both, not_one_of
from penstock.host.sources.errors import SourceError
from penstock.models.inputs import InputError
from penstock.models.numerics.floating import float32
from penstock.models.pim.device import Step
from penstock.models.pim.operands import Operands, Work
from penstock.models.pim.seats import read, transfer
from penstock.report.words import plural
from penstock.sim.machine import Closing, Metered

from .accuracy import Compared, clipped, collapsed
from .attention import Brought, Remembered, check_room, decoded, program_size
from .banks import Banks, Golden, Hardware, Modelled, Order, Room
from .data import Inputs, policy_of, shapes_of
from .host import Course, batches, worked
from .requests import Layer, Request, State, compare, layers_of
from .snapshot import FORM, packed, unpacked

Floats = NDArray[np.float64]


class LostSums(SourceError):
    """Sums of some requests of a step are no numbers (E841). `outputs`: those of the step's other requests."""

    def __init__(self, who: Request, error: SourceError, outputs: dict[Request, Floats]) -> None:
        message = f"{who!r}{error.message}; the states have taken the tokens"
        super().__init__(message, error.hint, code=error.code)
        self.outputs = outputs


class PimSession(Closing):
    """A session of a design (`penstock.engines.session.Session`); see `PimDesign.open`.

    Whatever is refused is refused before a bank changes: a step for a request that left, arrays that do not fit, NaN, a snapshot of
    another design. A sum that leaves float32 is told of after the step: its states have taken the tokens.
    """

    def __init__(
        self,
        design: Any,
        banks: Banks,
        layers: Sequence[tuple[Layer, ...]],
        seed: int,
        saturates: bool,
    ) -> None:
        self.design, self.seed, self.saturates = design, seed, saturates
        self._banks, self._layers = banks, layers
        self._requests: dict[Request, State] = {}
        self._joined = 0
        self._counters: Counter[str] = Counter(saturated_inputs=0, saturated_sums=0, moved=0)
        self._compared = Compared()
        self._collapsed: dict[tuple[int, int, int], float] = {}
        self._ended = ""

    # -- what is said

    @property
    def cycles(self) -> int | None:
        """Since it is open, all programs together; None on golden."""
        return self._banks.cycles

    @property
    def counters(self) -> Mapping[str, int]:
        """Of the hardware, and `saturated_inputs`, `saturated_sums`; `moved`: seats that packing moved."""
        return {**self._banks.counters, **self._counters}

    @property
    def errors(self) -> Mapping[str, Any]:
        """How far outputs were from float64's, with the bound, a restored request from its snapshot on. `heads`: how many of a request's are
        compared, by layer; `collapsed`: heads whose decays do."""
        return {
            "heads": [len(layer.heads) for layer, *_ in self._layers],
            "of": self.design.heads,
            **self._compared.to_json(),
            "collapsed": [
                {"layer": layer, "request": request, "head": head, "rate": rate}
                for (layer, request, head), rate in sorted(self._collapsed.items())
            ],
        }

    @property
    def requests(self) -> tuple[Request, ...]:
        """Those that are seated."""
        return tuple(self._requests)

    @property
    def free(self) -> int:
        """How many more requests can join."""
        return self._layers[0][0].fit - len(self._requests)

    def __repr__(self) -> str:
        seated = plural(len(self._requests), "request")
        return f"<Session of {self.design.name}: {seated}, {self._banks.computes}>"

    # -- requests

    def join(self, *, seed: int | None = None, state: bytes | None = None) -> Request:
        """Seat a request; return what names it.

        Parameters: `seed`: of its random bits, beside the session's: its number unless given; `state`: a snapshot, which goes on where it
        was taken, with the bits of its seeds.

        Raises SessionError where no seat is free (E466), for a snapshot that is cut short or of another design (E467); OptionError for both.
        """
        self._check_open()
        if seed is not None and state is not None:
            raise not_both("state", "seed")
        request = Request(self._joined)
        parts: dict[int, list[NDArray[np.uint8]]] = {}
        none = [self._no_states(number) for number in range(len(self._layers))]
        entry = State(request.number, self.seed, request.number, [0] * len(self._layers), none)
        if isinstance(seed, (int, np.integer)):
            entry.request = int(seed)
        elif seed is not None:
            raise not_one_of("seed", seed, ["a whole number"])
        if state is not None:
            parts = self._restored(state, entry)
        self._seat(request)
        self._joined += 1
        self._requests[request] = entry
        for number, blocks in parts.items():
            self._remember(entry, number, blocks)
            for layer, part in zip(self._layers[number], blocks, strict=True):
                begun = layer.begun(entry.tokens[number])
                slots = layer.seats.slots[request.number]
                data = part[:, :, :begun].reshape(-1, *part.shape[-2:])
                self._write(layer.places(slots, begun), data)
        return request

    def _remember(self, entry: State, number: int, blocks: Sequence[NDArray[np.uint8]]) -> None:
        """Know in float64 what a snapshot has of a layer."""
        layers, recurrent = self._layers[number], self.design.stack[number]
        held = [layer.one.numbers_of(parts) for layer, parts in zip(layers, blocks, strict=True)]
        if recurrent.values is None:
            entry.exact[number] = layers[0].exact(recurrent, entry.held[number], held[0])
        else:
            entry.exact[number] = memory = self._remembered(number)
            memory.start(entry.tokens[number], held)

    def _remembered(self, number: int) -> Remembered:
        keys, values = self._layers[number]
        return Remembered(keys.one, values.one, keys.heads)

    def leave(self, request: Request) -> None:
        """Free the seats of a request; its states are gone. Raises SessionError (E466)."""
        self._state(request)
        del self._requests[request]
        for layer in self._all:
            layer.seats.leave(request.number)

    @property
    def _all(self) -> list[Layer]:
        return [layer for layers in self._layers for layer in layers]

    def snapshot(self, request: Request) -> bytes:
        """Return a request's states, for `join` of this session or of another one, on any backend, target and number of banks. The request
        stays. Raises SessionError (E466)."""
        entry = self._state(request)
        tensors = {}
        for layer in self._all:
            if tokens := entry.tokens[layer.number]:
                slots = layer.seats.slots[request.number]
                places = layer.places(slots, layer.begun(tokens))
                tensors[layer.name] = layer.columns(self._read(places))
        held = [{name: x.tolist() for name, x in states.items()} for states in entry.held]
        note = {"seed": entry.seed, "request": entry.request, "tokens": entry.tokens, "held": held}
        return packed(tensors, {**self._form, **note})

    # -- steps

    def step(
        self, given: Mapping[Request, Mapping[str, Any]], *, layer: int = 0
    ) -> dict[Request, Floats]:
        """Take tokens with some requests in one layer; return the output of each, (tokens, heads, …).

        Parameters: `given`: arrays by name, (tokens, heads, …): as `run` takes them, without an axis of requests. Requests may have
        different numbers of tokens. Those that are not named keep their bits.

        Raises SessionError (E466) for a request that is not seated, and a layer that there is not; SourceError as `run` does, and
        (E841) for sums beyond float32, after the step, with the `outputs` of requests that have none; RunError where the hardware stops.
        """
        self._check_open()
        if not isinstance(layer, int) or not 0 <= layer < len(self._layers):
            last = len(self._layers) - 1
            raise _refused(f"there is no layer {layer!r}", f"the design has layers 0 to {last}")
        if not isinstance(given, Mapping):
            what = f"a step takes arrays by request, not {type(given).__name__}"
            raise _refused(what, "write step({request: {name: array, …}})")
        for request in given:
            self._state(request)
        taken = {who: self._taken(who, layer, arrays) for who, arrays in given.items()}
        done, lost = 0, dict[Request, SourceError]()
        for count in sorted({course.inputs.tokens for course in taken.values()}):
            many = {who: course for who, course in taken.items() if course.inputs.tokens >= count}
            lost = lost | self._played(layer, many, done, count) | lost  # the first of each
            self._compare(layer, many, done, count)
            done = count
        for who, course in taken.items():
            self._counters["saturated_inputs"] += course.beyond
            self._requests[who].held[layer] = {n: x[-1] for n, x in course.held.items()}
            self._name_collapsed(layer, who, course)
        lost = {} if self.saturates else lost
        lost |= {
            who: SourceError(f": {of.message}", of.hint, code=of.code)
            for who, course in taken.items()
            if who not in lost and (of := course.lost)
        }
        outputs = {who: course.output() for who, course in taken.items() if who not in lost}
        for who, error in lost.items():
            raise LostSums(who, error, outputs)
        return outputs

    def _compare(self, number: int, many: Mapping[Request, Any], begin: int, end: int) -> None:
        """Compare results of tokens with float64's."""
        latest = [(self._requests[who], course) for who, course in many.items()]
        layer = self._layers[number][0]
        if self.design.stack[number].values is None:
            compare(layer, latest, begin, end, self._compared)
            return
        for state, brought in latest:
            memory: Remembered = state.exact.setdefault(number, self._remembered(number))
            first = state.tokens[number] - (end - begin)
            places = _Places([number, state.number], first, brought.turns, layer.heads)
            self._compared.add(*memory.step(brought, begin, end), places.place)

    def _taken(self, who: Request, layer: int, arrays: Any) -> Any:
        """Return what a request brings: a Course, or a Brought of attention. Raises SourceError."""
        design, recurrent = self.design, self.design.stack[layer]
        try:
            group = 1 if recurrent.values is None else design.group
            inputs = Inputs.of(recurrent, None, design.heads, arrays, None, group)
            held, tokens = self._requests[who].held[layer], self._requests[who].tokens[layer]
            if recurrent.values is not None:
                check_room(recurrent, tokens, inputs.tokens)
                return Brought(inputs, design.device.format, self.saturates)
            return Course(inputs, self.design.device.format, self.saturates, held, defers=True)
        except SourceError as problem:
            message = f"{who!r}: {problem.message}"
            raise SourceError(message, problem.hint, code=problem.code) from None

    def _name_collapsed(self, layer: int, who: Request, course: Course) -> None:
        """Name the heads whose decays collapse."""
        rates = course.first_update(course.inputs.tokens).c
        for head, least in collapsed(self.design.device.format, rates).items():
            self._collapsed.setdefault((layer, who.number, head), least)

    def _no_states(self, number: int) -> dict[str, Floats]:
        """Return the host's states of a request that begins, (heads, …)."""
        recurrent = self.design.stack[number]
        shapes = shapes_of(recurrent)
        return {name: np.zeros((self.design.heads, *shapes[name])) for name, _ in recurrent.held}

    def _decoded(
        self, number: int, many: Mapping[Request, Brought], begin: int, end: int
    ) -> dict[Request, SourceError]:
        """As `_played`, for attention: as many requests at once as the softmax unit has room for."""
        layers, lost, who = self._layers[number], dict[Request, SourceError](), list(many)
        most = self.design.device.soft_items // layers[0].one.heads
        for first in range(0, len(who), most):
            group = who[first : first + most]
            states = [self._requests[one] for one in group]
            for layer in layers:
                self._pack(layer, group)
            seatings = [layer.seating(states, self._requests.values()) for layer in layers]
            keys, values = (
                self.design.seated(number, len(group), 1, seating, part)
                for part, seating in enumerate(seatings)
            )
            for token in range(begin, end):
                held = [state.tokens[number] for state in states]
                brought = [many[one] for one in group]
                beyond, sums, wrong = decoded((keys, values), brought, held, token, self._play)
                self._counters.update(saturated_scores=beyond, saturated_sums=sums)
                for one in np.flatnonzero(wrong).tolist():
                    lost.setdefault(group[one], _no_sum(f", token {token}"))
                for state in states:
                    state.tokens[number] += 1
        return lost

    def _played(
        self, number: int, many: Mapping[Request, Any], begin: int, end: int
    ) -> dict[Request, SourceError]:
        """Take the tokens from `begin` to `end` of what some requests bring. Return, of requests whose sums left float32, which did first."""
        if self.design.stack[number].values is not None:
            return self._decoded(number, many, begin, end)
        layer, courses = self._layers[number][0], list(many.values())
        lost = dict[Request, SourceError]()
        self._pack(layer, list(many))
        fresh = [not self._requests[who].tokens[number] for who in many]
        for batch in batches(self.design.stack[number], end - begin):
            parts = [worked(batch, partial(_operands, course, begin)) for course in courses]
            order = parts[0][1]
            works = [_joined(pieces) for pieces in zip(*(w for w, _ in parts), strict=True)]
            seating = layer.seating([self._requests[who] for who in many], self._requests.values())
            layout = self.design.seated(number, len(many), end - begin, seating)
            steps = layout.steps(works, order, fresh)
            sent, out = self._play(steps)
            y, _ = layout.results(sent, steps, out)
            y, outside = clipped(y)
            self._counters["saturated_sums"] += int(outside.sum())
            for turn, item in np.argwhere(outside.any(axis=2)).tolist():
                which, head = divmod(item, self.design.heads)
                token = begin + works[order[turn][0]].first + order[turn][1]
                lost.setdefault(list(many)[which], _no_sum(f", token {token}, head {head}"))
            y = float32.decode(float32.encode(y))
            for course, output in zip(courses, np.split(y, len(many), axis=1), strict=True):
                course.took(works, order, output, begin)
        for who in many:
            self._requests[who].tokens[number] += end - begin
        return lost

    def _pack(self, layer: Layer, many: Sequence[Request]) -> None:
        """Exchange seats of the requests that take a step with others, where they lie in too many groups."""
        moves = layer.seats.moves([who.number for who in many])
        if not moves:
            return
        held = set(layer.held(self._requests.values()))
        ways = [(a, b) for x, y in moves for a, b in ((x, y), (y, x)) if a in held]
        self._write(layer.places(b for _, b in ways), self._read(layer.places(a for a, _ in ways)))
        layer.seats.exchange(moves)
        self._counters["moved"] += len(ways)

    # -- banks

    def _play(self, steps: Sequence[Sequence[Step]]) -> tuple[Order, NDArray[np.uint8]]:
        """Play steps of each set. Raises RunError; what the banks hold is not known then, and the session has ended."""
        try:
            return self._banks.play(steps)
        except BaseException as problem:
            self._ended = f"it ended with an error: {problem}"
            raise

    def _read(self, places: Sequence[tuple[int, int]]) -> NDArray[np.uint8]:
        steps, where = transfer(self.design.device, places)
        return read(len(places), where, *self._play(steps))

    def _write(self, places: Sequence[tuple[int, int]], data: NDArray[np.uint8]) -> None:
        self._play(transfer(self.design.device, places, data)[0])

    def close(self) -> None:
        """Give the machine back; the states are gone."""
        if not self._ended:
            self._ended = "it is closed"
        self._banks.close()

    # -- what is known of requests

    def _check_open(self) -> None:
        if self._ended:
            hint = "open another one, and join with snapshots"
            raise _refused(f"the session takes no more: {self._ended}", hint)

    def _state(self, request: Any) -> State:
        """Return what is known of a request. Raises SessionError (E466)."""
        self._check_open()
        if isinstance(request, Request) and request in self._requests:
            return self._requests[request]
        seated = ", ".join(map(repr, self._requests)) or "none"
        gone = isinstance(request, Request)
        what = (
            "is not in this session: it left, or is another session's"
            if gone
            else "names no request"
        )
        raise _refused(
            f"{request!r} {what}", f"seated are {seated}; join() gives what names a request"
        )

    def _seat(self, request: Request) -> None:
        """Take seats in all layers. Raises SessionError (E466) where some layer has none."""
        done = []
        try:
            for layer in self._all:
                layer.seats.take(request.number, layer.one.items * layer.one.parts)
                done.append(layer)
        except ValueError:
            for layer in done:
                layer.seats.leave(request.number)
            what = f"no seat is free: {self._layers[0][0].fit} requests fit, and {len(self._requests)} are seated"
            raise _refused(what, "let one leave, or compile for more requests (--batch)") from None

    # -- snapshots

    @property
    def _form(self) -> dict[str, Any]:
        """What a snapshot must have alike."""
        design, device = self.design, self.design.device
        return {
            "format": device.format,
            "rounding": "stochastic" if device.stochastic else "nearest",
            # which number takes which of a request's random bits
            "units": [device.design.banks, device.stripes] if device.stochastic else [],
            "heads": design.heads,
            "layers": [
                [
                    f"{one.name} {one.digest}",
                    *(n for part in one.parts for n in part.form[1:]),
                    one.turned,
                ]
                + ([] if one.values is None else [design.group])
                for one in design.stack
            ],
        }

    def _restored(self, state: Any, entry: State) -> dict[int, list[NDArray[np.uint8]]]:
        """Take up what a snapshot says of its request; return the parts of each layer that took a token. Raises SessionError (E467)."""
        if not isinstance(state, (bytes, bytearray, memoryview)):
            what = f"a snapshot is bytes, not {type(state).__name__}"
            raise SessionError(what, "session.snapshot(request) gives them", code="E467")
        try:
            tensors, note = unpacked(bytes(state))
            for name, form in self._form.items():
                if note.get(name) != form:
                    what = f"the snapshot is of another design: its {name} are {note.get(name)}, the session's {form}"
                    raise SessionError(what, "compile the design as that one was", code="E467")
            with FORM.parsing(""):  # anybody can compute the digest
                numbers, parts = [note["seed"], note["request"], *note["tokens"]], {}
                entry.seed, entry.request, *entry.tokens = map(index, numbers)
                for n, (tokens, layers) in enumerate(zip(entry.tokens, self._layers, strict=True)):
                    if tokens < 0 or any(x.begun(tokens) > x.one.chunks for x in layers):
                        raise ValueError
                    if tokens:
                        parts[n] = [one.parts(tensors[one.name]) for one in layers]
                        for name, none in entry.held[n].items():
                            value = np.array(note["held"][n][name], np.float64)
                            entry.held[n][name] = value.reshape(none.shape)
                return parts
        except InputError as problem:
            hint = "take it again, and keep all of its bytes"
            raise SessionError(f"this is no snapshot: {problem}", hint, code="E467") from None


def _operands(course: Course, first: int, number: int, begin: int, end: int) -> Operands:
    return course.operands(number, first + begin, first + end)


class _Places(NamedTuple):
    """Places of what the tokens of a layer's state, `owner`, give."""

    owner: list[int]
    first: int
    turns: int
    heads: Sequence[int]

    def place(self, turn: int, item: int, column: int) -> list[int]:
        token, offset = divmod(turn, self.turns)
        return [*self.owner, self.first + token, self.heads[item] * self.turns + offset, column]


def _joined(works: Sequence[Work]) -> Work:
    """The works of several requests as one."""
    operands = [work.given for work in works]
    both = {
        name: np.concatenate([getattr(x, name) for x in operands], axis=1)
        for name in ("q", "c", "k", "v")
        if getattr(operands[0], name) is not None
    }
    return works[0]._replace(given=Operands(**both))


def _refused(message: str, hint: str) -> SessionError:
    return SessionError(message, hint, code="E466")


def _no_sum(place: str) -> SourceError:
    """Return the error of a sum of the units, without its request."""
    what = f"{place}: a sum of the units' results is beyond float32 or their format, or no number"
    hint = (
        "open(on_overflow='saturate') takes the end of the range in its place, or 0, and counts it"
    )
    return SourceError(what, hint, code="E841")


def opened(design: Any, backend: str, options: Mapping[str, Any]) -> PimSession:
    """Return a session of a design. Raises SessionError (E466), OptionError."""
    from penstock.runs.run import METERED, parted
    from penstock.sim.memory.dram import fast
    from penstock.targets import timing_of

    caches = [one.name for one in design.stack if one.mode != "update" and not one.grows]
    if caches:
        what = f"{caches[0]} reads a cache that does not grow, which a session does not keep"
        raise _refused(what, "K = append(K, key) has a cache grow from nothing")
    if design.device.refresh != "none":
        what = f"refresh {design.device.refresh!r} of banks is not counted from one program to the next"
        raise _refused(what, "compile with --refresh none")
    names = ("memory", "on_overflow", "on_nan")
    taker = f"a session of {design.name}"
    machine, rest, seed = parted(design, backend, options, names, taker)
    saturates = policy_of(Given(options=rest), design.device.format)
    memory = rest.get("memory")
    timing = (
        design.memory if memory is None else timing_of(memory, design.target, design.device.bus)
    )
    layers = layers_of(design)
    every = [layer for parts in layers for layer in parts]
    least = [
        program_size(
            design.device, design.group, pair[0].one.columns, (pair[0].groups, pair[1].groups)
        )
        for pair in layers
        if len(pair) > 1
    ]
    most = max(layer.groups * layer.one.chunks for layer in every)
    words, results = (max((one[n] for one in least), default=0) for n in (0, 1))
    room = Room(design.device, most, (words, results))
    banks: Banks
    if backend == "golden":
        banks = Golden(design.device)
    elif backend == "model":
        banks = Modelled(room, fast(timing))
    else:
        metered = {name: machine.pop(name) for name in METERED if name in machine}
        banks = Hardware(
            room, Metered(design.machine(backend, room.bytes, timing, **machine), **metered)
        )
    return PimSession(design, banks, layers, 1 if seed is None else int(seed), saturates)
