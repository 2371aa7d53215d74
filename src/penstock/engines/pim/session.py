"""A session: requests whose states stay in the banks, over several layers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.engines.base import Given
from penstock.errors import not_both, not_one_of
from penstock.host.sources.errors import SourceError
from penstock.models.numerics.floating import float32
from penstock.models.pim.operands import Operands, Work
from penstock.report.words import plural
from penstock.sim.machine import Closing, Metered

from .accuracy import clipped
from .attention import Brought, check_room, decoded, program_size
from .banks import Banks, Golden, Hardware, Modelled, Room
from .comparison import Comparison
from .data import Inputs, policy_of, shapes_of
from .host import Course, batches, worked
from .requests import Layer, Request, State, layers_of
from .seated import Seated, refused
from .snapshot import restored, snapshot_of

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
        self._seated = Seated(design.device, banks, layers)
        self._joined = 0
        self._counters: Counter[str] = Counter(saturated_inputs=0, saturated_sums=0)
        self._comparison = Comparison(design, layers)

    # -- what is said

    @property
    def cycles(self) -> int | None:
        """Since it is open, all programs together; None on golden."""
        return self._seated.banks.cycles

    @property
    def counters(self) -> Mapping[str, int]:
        """Of the hardware, and `saturated_inputs`, `saturated_sums`; `moved`: seats that packing moved."""
        moved = {"moved": self._seated.moved}
        return {**self._seated.banks.counters, **self._counters, **moved}

    @property
    def errors(self) -> Mapping[str, Any]:
        """How far outputs were from float64's, with the bound, a restored request from its snapshot on. `heads`: how many of a request's are
        compared, by layer; `collapsed`: heads whose decays do."""
        return self._comparison.to_json()

    @property
    def requests(self) -> tuple[Request, ...]:
        """Those that are seated."""
        return tuple(self._seated.states)

    @property
    def free(self) -> int:
        """How many more requests can join."""
        return self._seated.free

    def __repr__(self) -> str:
        seated = plural(len(self.requests), "request")
        return f"<Session of {self.design.name}: {seated}, {self._seated.banks.computes}>"

    # -- requests

    def join(self, *, seed: int | None = None, state: bytes | None = None) -> Request:
        """Seat a request; return what names it.

        Parameters: `seed`: of its random bits, beside the session's: its number unless given; `state`: a snapshot, which goes on where it
        was taken, with the bits of its seeds.

        Raises SessionError where no seat is free (E466), for a snapshot that is cut short or of another design (E467); OptionError for both.
        """
        seated = self._seated
        seated.check_open()
        if seed is not None and state is not None:
            raise not_both("state", "seed")
        request = Request(self._joined)
        none = [self._no_states(number) for number in range(len(seated.layers))]
        entry = State(request.number, self.seed, request.number, [0] * len(none), none)
        if isinstance(seed, (int, np.integer)):
            entry.request = int(seed)
        elif seed is not None:
            raise not_one_of("seed", seed, ["a whole number"])
        blocks = {} if state is None else restored(state, self.design, entry, seated.layers)
        seated.enter(request, entry)
        self._joined += 1
        for number, of_layer in blocks.items():
            self._comparison.restore(entry, number, of_layer)
            for layer, part in zip(seated.layers[number], of_layer, strict=True):
                seated.write(layer, request, part)
        return request

    def leave(self, request: Request) -> None:
        """Free the seats of a request; its states are gone. Raises SessionError (E466)."""
        self._seated.leave(request)

    def snapshot(self, request: Request) -> bytes:
        """Return a request's states, for `join` of this session or of another one, on any backend, target and number of banks. The request
        stays. Raises SessionError (E466)."""
        entry = self._seated.state(request)
        taken = (layer for layer in self._seated.parts if entry.tokens[layer.number])
        tensors = {layer.name: self._seated.columns(layer, request) for layer in taken}
        return snapshot_of(self.design, entry, tensors)

    def close(self) -> None:
        """Give the machine back; the states are gone."""
        self._seated.close()

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
        self._seated.check_open()
        if not isinstance(layer, int) or not 0 <= layer < len(self.design.stack):
            last = len(self.design.stack) - 1
            raise refused(f"there is no layer {layer!r}", f"the design has layers 0 to {last}")
        if not isinstance(given, Mapping):
            what = f"a step takes arrays by request, not {type(given).__name__}"
            raise refused(what, "write step({request: {name: array, …}})")
        states = {who: self._seated.state(who) for who in given}
        taken = {who: self._taken(who, layer, arrays) for who, arrays in given.items()}
        done, lost = 0, dict[Request, SourceError]()
        for count in sorted({course.inputs.tokens for course in taken.values()}):
            many = {who: course for who, course in taken.items() if course.inputs.tokens >= count}
            lost = lost | self._played(layer, many, done, count) | lost  # the first of each
            latest = [(states[who], course) for who, course in many.items()]
            self._comparison.add(layer, latest, done, count)
            done = count
        for who, course in taken.items():
            self._counters["saturated_inputs"] += course.beyond
            states[who].held[layer] = {n: x[-1] for n, x in course.held.items()}
            self._comparison.name_collapsed(layer, who.number, course)
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

    def _taken(self, who: Request, layer: int, arrays: Any) -> Any:
        """Return what a request brings: a Course, or a Brought of attention. Raises SourceError."""
        design, recurrent = self.design, self.design.stack[layer]
        try:
            group = 1 if recurrent.values is None else design.group
            inputs = Inputs.of(recurrent, None, design.heads, arrays, None, group)
            state = self._seated.states[who]
            held, tokens = state.held[layer], state.tokens[layer]
            if recurrent.values is not None:
                check_room(recurrent, tokens, inputs.tokens)
                return Brought(inputs, design.device.format, self.saturates)
            return Course(inputs, self.design.device.format, self.saturates, held, defers=True)
        except SourceError as problem:
            message = f"{who!r}: {problem.message}"
            raise SourceError(message, problem.hint, code=problem.code) from None

    def _no_states(self, number: int) -> dict[str, Floats]:
        """Return the host's states of a request that begins, (heads, …)."""
        recurrent = self.design.stack[number]
        shapes = shapes_of(recurrent)
        return {name: np.zeros((self.design.heads, *shapes[name])) for name, _ in recurrent.held}

    def _decoded(
        self, number: int, many: Mapping[Request, Brought], begin: int, end: int
    ) -> dict[Request, SourceError]:
        """As `_played`, for attention: as many requests at once as the softmax unit has room for."""
        layers, lost, who = self._seated.layers[number], dict[Request, SourceError](), list(many)
        most = self.design.device.soft_items // layers[0].one.heads
        for first in range(0, len(who), most):
            group = who[first : first + most]
            states = [self._seated.states[one] for one in group]
            seatings = [self._seated.seating(layer, group) for layer in layers]
            keys, values = (
                self.design.seated(number, len(group), 1, seating, part)
                for part, seating in enumerate(seatings)
            )
            for token in range(begin, end):
                held = [state.tokens[number] for state in states]
                brought = [many[one] for one in group]
                beyond, sums, wrong = decoded(
                    (keys, values), brought, held, token, self._seated.play
                )
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
        [layer], courses = self._seated.layers[number], list(many.values())
        states, lost = [self._seated.states[who] for who in many], dict[Request, SourceError]()
        fresh = [not state.tokens[number] for state in states]
        seating = self._seated.seating(layer, list(many))
        for batch in batches(self.design.stack[number], end - begin):
            parts = [worked(batch, partial(_operands, course, begin)) for course in courses]
            order = parts[0][1]
            works = [_joined(pieces) for pieces in zip(*(w for w, _ in parts), strict=True)]
            layout = self.design.seated(number, len(many), end - begin, seating)
            steps = layout.steps(works, order, fresh)
            sent, out = self._seated.play(steps)
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
        for state in states:
            state.tokens[number] += end - begin
        return lost


def _operands(course: Course, first: int, number: int, begin: int, end: int) -> Operands:
    return course.operands(number, first + begin, first + end)


def _joined(works: Sequence[Work]) -> Work:
    """The works of several requests as one."""
    operands = [work.given for work in works]
    both = {
        name: np.concatenate([getattr(x, name) for x in operands], axis=1)
        for name in ("q", "c", "k", "v")
        if getattr(operands[0], name) is not None
    }
    return works[0]._replace(given=Operands(**both))


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
        raise refused(what, "K = append(K, key) has a cache grow from nothing")
    if design.device.refresh != "none":
        what = f"refresh {design.device.refresh!r} of banks is not counted from one program to the next"
        raise refused(what, "compile with --refresh none")
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
