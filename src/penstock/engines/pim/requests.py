"""Requests of a session, and the seats of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.pim.recurrent import Recurrent
from penstock.models.pim.config import COLUMNS
from penstock.models.pim.layout import Layout
from penstock.models.pim.operands import Bits, Seating
from penstock.models.pim.seats import Seats, stacked

from .accuracy import Exactly

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
#: numbers of a request's states that are computed in float64 at each token of a layer
_COMPARED = 1 << 16


class Request:
    """What names a request of a session: its number, in the order of joining."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"request {self.number}"


@dataclass(frozen=True)
class Layer:
    """Seats of a layer, or of one of its caches: from row `base` on. `name`: of its bytes in a snapshot; `one`: where the parts of one request
    lie, alone; `fit`: how many fit in the design; `heads`: those that are compared with float64."""

    number: int
    name: str
    one: Layout
    base: int
    seats: Seats
    fit: int
    heads: Sequence[int]

    @property
    def groups(self) -> int:
        return len(self.seats.owner) // self.seats.pairs

    def places(self, slots: Iterable[int], begun: int | None = None) -> list[tuple[int, int]]:
        """Return row and bank of each chunk of some slots, or of those that are `begun`: (slots, 2 banks, chunks)."""
        pairs, chunks = self.seats.pairs, self.one.chunks
        return [
            (self.base + slot // pairs * chunks + chunk, slot % pairs * 2 + bank)
            for slot in slots
            for bank in (0, 1)
            for chunk in range(chunks if begun is None else begun)
        ]

    def begun(self, tokens: int) -> int:
        """Return how many chunks hold something of a request: of caches, those of its tokens."""
        if self.one.mode == "update":
            return self.one.chunks
        return -(-tokens // self.one.each)

    def held(self, states: Iterable[State]) -> list[int]:
        """Return the slots of requests that have a state."""
        arrays = (self.seats.slots[s.number] for s in states if s.tokens[self.number])
        return [slot for slots in arrays for slot in slots.tolist()]

    def seating(self, many: Sequence[State], states: Iterable[State]) -> Seating:
        """Return where requests that take a step lie, beside the `states` of all."""
        seats, pairs = self.seats, self.seats.pairs
        groups = seats.opened([state.number for state in many])
        at = {group: place for place, group in enumerate(groups)}
        active = [slot for state in many for slot in seats.slots[state.number].tolist()]
        idle = [slot for slot in set(self.held(states)) - set(active) if slot // pairs in at]
        local = lambda slots: tuple(at[slot // pairs] * pairs + slot % pairs for slot in slots)
        return Seating(
            local(active),
            tuple(self.base + group * self.one.chunks for group in groups),
            local(idle),
            tuple(Bits(state.seed, state.request, state.tokens[self.number]) for state in many),
            self.number,
        )

    def columns(self, data: Bytes) -> Bytes:
        """Return a request's rows as its snapshot has them: (heads, columns, slices, 32)."""
        one = self.one
        x = data.reshape(one.heads, one.parts, 2, -1, COLUMNS, 32)
        grid = np.zeros((*x.shape[:3], one.chunks, COLUMNS, 32), dtype=np.uint8)
        grid[:, :, :, : x.shape[3]] = x
        if one.mode == "attend":  # chunks of tokens in both banks in turn
            x = grid.transpose(0, 3, 2, 4, 1, 5)
            return np.ascontiguousarray(x).reshape(one.heads, -1, one.parts, 32)
        x = grid.reshape(one.heads, -1, one.stripes, *grid.shape[2:])
        x = x.transpose(0, 2, 4, 5, 1, 3, 6)
        return np.ascontiguousarray(x).reshape(one.heads, -1, one.parts * 2 // one.stripes, 32)

    def parts(self, columns: Bytes) -> Bytes:
        """Return what `columns` took, as parts (heads · parts, 2, chunks, 32, 32)."""
        one = self.one
        if one.mode == "attend":
            x = columns.reshape(one.heads, one.chunks, 2, COLUMNS, one.parts, 32)
            x = x.transpose(0, 4, 2, 1, 3, 5)
        else:
            x = columns.reshape(one.heads, one.stripes, one.chunks, COLUMNS, -1, 2, 32)
            x = x.transpose(0, 4, 1, 5, 2, 3, 6)
        return np.ascontiguousarray(x).reshape(one.heads * one.parts, 2, one.chunks, COLUMNS, 32)

    def exact(
        self, recurrent: Recurrent, held: Mapping[str, Floats], start: Floats | None = None
    ) -> Exactly:
        """Return the compared heads of a request in float64: of zeros, or of a state (heads, dim_head, dim_state); `held`: of the host's states."""
        one, heads = self.one, list(self.heads)
        state = np.zeros((one.heads, one.head, one.columns)) if start is None else start
        return Exactly(recurrent, one.config, state[heads], {n: x[heads] for n, x in held.items()})


@dataclass
class State:
    """What is known of a request: its number, the seeds of its random bits; by layer, the tokens it took, the host's states (heads, …), and its
    heads in float64."""

    number: int
    seed: int
    request: int
    tokens: list[int]
    held: list[dict[str, Floats]]
    exact: dict[int, Any] = field(default_factory=dict)


def layers_of(design: Any) -> list[tuple[Layer, ...]]:
    """Return the seats of all layers, of attention those of keys and of values, all free: as many as the device's rows have room for."""
    config = design.device
    alone = [
        (number, f"layers.{number}.{'state' if one.values is None else recurrent.state}", layout)
        for number, one in enumerate(design.stack)
        for part, recurrent in enumerate(one.parts)
        for layout in [design.seated(number, 1, part=part)]
    ]
    of_request = [(one.items * one.parts, one.chunks) for _, _, one in alone]
    fit, rows = stacked(config.rows, config.pairs, of_request)
    layers: list[list[Layer]] = [[] for _ in design.stack]
    for (number, name, one), (base, groups) in zip(alone, rows, strict=True):
        most = min(one.heads, max(1, _COMPARED // (one.head * one.columns)))
        compared = [n * one.heads // most for n in range(most)]
        seats = Seats(groups, config.pairs)
        layers[number].append(Layer(number, name, one, base, seats, fit, compared))
    return [tuple(parts) for parts in layers]
