"""The states of a session's requests in the banks: their seats, and the programs that read, write and move them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.engines.session import SessionError
from penstock.models.pim.config import PimConfig
from penstock.models.pim.device import Step
from penstock.models.pim.operands import Seating
from penstock.models.pim.seats import read, transfer

from .banks import Banks, Order
from .requests import Layer, Request, State

Bytes = NDArray[np.uint8]


def refused(message: str, hint: str) -> SessionError:
    return SessionError(message, hint, code="E466")


class Seated:
    """The seated requests, and the banks of a device that hold their states.

    Once a program has failed, nothing is known of what the banks hold: every further call raises SessionError.
    """

    def __init__(
        self, config: PimConfig, banks: Banks, layers: Sequence[tuple[Layer, ...]]
    ) -> None:
        self.config, self.banks, self.layers = config, banks, layers
        self.states: dict[Request, State] = {}
        self.moved = 0  #: seats that packing moved
        self._ended = ""

    @property
    def parts(self) -> list[Layer]:
        """All layers; of attention, keys and values each."""
        return [part for layer in self.layers for part in layer]

    @property
    def free(self) -> int:
        return self.layers[0][0].fit - len(self.states)

    def check_open(self) -> None:
        if self._ended:
            hint = "open another one, and join with snapshots"
            raise refused(f"the session takes no more: {self._ended}", hint)

    def state(self, request: Any) -> State:
        """Return what is known of a request. Raises SessionError (E466)."""
        self.check_open()
        if isinstance(request, Request) and request in self.states:
            return self.states[request]
        what = "names no request"
        if isinstance(request, Request):
            what = "is not in this session: it left, or is another session's"
        seated = ", ".join(map(repr, self.states)) or "none"
        hint = f"seated are {seated}; join() gives what names a request"
        raise refused(f"{request!r} {what}", hint)

    def enter(self, request: Request, state: State) -> None:
        """Take seats in all layers. Raises SessionError (E466) where some layer has none."""
        done = []
        try:
            for part in self.parts:
                part.seats.take(request.number, part.one.items * part.one.parts)
                done.append(part)
        except ValueError:
            for part in done:
                part.seats.leave(request.number)
            what = f"no seat is free: {self.layers[0][0].fit} requests fit, and {len(self.states)} are seated"
            raise refused(what, "let one leave, or compile for more requests (--batch)") from None
        self.states[request] = state

    def leave(self, request: Request) -> None:
        """Free the seats of a request. Raises SessionError (E466)."""
        self.state(request)
        del self.states[request]
        for part in self.parts:
            part.seats.leave(request.number)

    def seating(self, part: Layer, many: Sequence[Request]) -> Seating:
        """Return where requests that take a step lie, after exchanging their seats with others' where they lie in too many groups."""
        if moves := part.seats.moves([who.number for who in many]):
            held = set(part.held(self.states.values()))
            ways = [(a, b) for x, y in moves for a, b in ((x, y), (y, x)) if a in held]
            self._write(
                part.places(b for _, b in ways), self._read(part.places(a for a, _ in ways))
            )
            part.seats.exchange(moves)
            self.moved += len(ways)
        return part.seating([self.states[who] for who in many], self.states.values())

    def columns(self, part: Layer, request: Request) -> Bytes:
        """Return what a request has in a layer, as its snapshot has it."""
        return part.columns(self._read(self._places(part, request)))

    def write(self, part: Layer, request: Request, blocks: Bytes) -> None:
        """Write what `Layer.parts` made of a snapshot's columns."""
        begun = part.begun(self.states[request].tokens[part.number])
        data = blocks[:, :, :begun].reshape(-1, *blocks.shape[-2:])
        self._write(self._places(part, request), data)

    def _places(self, part: Layer, request: Request) -> list[tuple[int, int]]:
        begun = part.begun(self.states[request].tokens[part.number])
        return part.places(part.seats.slots[request.number], begun)

    def play(self, steps: Sequence[Sequence[Step]]) -> tuple[Order, Bytes]:
        """Play steps of each set. Raises RunError; the session has ended then."""
        try:
            return self.banks.play(steps)
        except BaseException as problem:
            self._ended = f"it ended with an error: {problem}"
            raise

    def _read(self, places: Sequence[tuple[int, int]]) -> Bytes:
        steps, where = transfer(self.config, places)
        return read(len(places), where, *self.play(steps))

    def _write(self, places: Sequence[tuple[int, int]], data: Bytes) -> None:
        self.play(transfer(self.config, places, data)[0])

    def close(self) -> None:
        """Give the machine back; the states are gone."""
        self._ended = self._ended or "it is closed"
        self.banks.close()
