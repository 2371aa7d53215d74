"""A generated token on NeuPIMs: matrix products on systolic arrays, attention beside the banks, in six stages.

Source: NeuPIMs (ASPLOS 2024) and its public simulator. Softmax and norms are not charged: the cycles of their
operations are not printed. Weights and activations have 16 bits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .estimate import Channel, dealt, halves

_WIDTH = 2


@dataclass(frozen=True)
class Shape:
    """A decoder's `layers`, width, heads, and over how many devices each layer is split."""

    layers: int
    hidden: int
    heads: int
    devices: int


#: the paper's models that fit into four devices each
MODELS = {
    "gpt3-7b": Shape(32, 4096, 32, 4),
    "gpt3-13b": Shape(40, 5120, 40, 4),
    "gpt3-30b": Shape(48, 7168, 56, 4),
}


@dataclass(frozen=True)
class Stage:
    """What arrays and banks do side by side, and in how many cycles each."""

    arrays: str
    banks: str
    array_cycles: int
    bank_cycles: int

    @property
    def cycles(self) -> int:
        return max(self.array_cycles, self.bank_cycles)


@dataclass(frozen=True)
class Times:
    """Cycles of a token of the whole batch: attention on the arrays' side of the memory (`alone`); beside the
    banks, one after the other (`in_turn`); in two halves that overlap (`overlapped`), and its `stages`:
    A and B, C and D of a layer, E and F."""

    alone: int
    in_turn: int
    stages: tuple[Stage, ...]
    layers: int

    @property
    def overlapped(self) -> int:
        cycles = [stage.cycles for stage in self.stages]
        return sum(cycles[:2]) + (self.layers - 1) * sum(cycles[2:4]) + sum(cycles[4:])


@dataclass(frozen=True)
class Device:
    """`arrays` systolic arrays of `side` × `side` at 1 GHz beside `channels` channels, which hand out
    `bandwidth` bytes a cycle together."""

    arrays: int = 8
    side: int = 128
    channels: int = 32
    bandwidth: int = 1024
    channel: Channel = field(default_factory=Channel)

    def product(self, rows: int, depth: int, columns: int) -> int:
        """Return the cycles of `rows` × `depth` times `depth` × `columns`: tiles of weights follow each other
        in an array when the one before has passed or the next is loaded, and as fast as weights arrive."""
        tiles = math.ceil(depth / self.side) * math.ceil(columns / self.side)
        each = math.ceil(tiles / self.arrays)
        last = self.side + self.side - 2 + max(rows, 4)
        compute = 2 * self.side - 1 + (each - 1) * max(self.side, rows) + last
        return max(compute, math.ceil(depth * columns * _WIDTH / self.bandwidth))

    def _layer(self, shape: Shape, rows: int) -> tuple[int, int]:
        """Return the cycles of a layer's projection to queries, keys and values, and of all behind attention."""
        width, share = shape.hidden, shape.hidden // shape.devices
        rest = ((share, width), (width, 4 * share), (4 * share, width))
        return self.product(rows, width, 3 * share), sum(self.product(rows, *size) for size in rest)

    def times(self, shape: Shape, contexts: Sequence[int]) -> Times:
        """Return what a token of requests with `contexts` tokens before it takes. Raises ValueError for
        fewer than 2 requests."""
        if len(contexts) < 2:
            raise ValueError("two halves need 2 requests or more")
        width = shape.hidden // shape.devices
        heads, dim_head = shape.heads // shape.devices, shape.hidden // shape.heads
        costs = [self.channel.attention(context, width, heads, dim_head) for context in contexts]
        channels = dealt(costs, self.channels)
        parts = halves(channels)
        attention = [self._attention(costs, part) for part in parts]
        before, behind = zip(
            *(self._layer(shape, sum(map(len, part))) for part in parts), strict=True
        )
        read = sum(contexts) * 2 * width * _WIDTH
        whole = sum(self._layer(shape, len(contexts)))
        return Times(
            shape.layers * (whole + math.ceil(read / self.bandwidth)),
            shape.layers * (whole + self._attention(costs, channels)),
            _stages(before, behind, attention),
            shape.layers,
        )

    def _attention(self, costs: Sequence[int], channels: Sequence[Sequence[int]]) -> int:
        """Return the cycles of the channel with the most work."""
        return max(sum(costs[request] for request in requests) for requests in channels)


def _stages(
    before: Sequence[int], behind: Sequence[int], attention: Sequence[int]
) -> tuple[Stage, ...]:
    (qkv, qkv2), (rest, rest2), (mha, mha2) = before, behind, attention
    return (
        Stage("QKV 1", "", qkv, 0),
        Stage("QKV 2", "attention 1", qkv2, mha),
        Stage("projection, FFN, QKV 1", "attention 2", rest + qkv, mha2),
        Stage("projection, FFN, QKV 2", "attention 1", rest2 + qkv2, mha),
        Stage("projection, FFN 1", "attention 2", rest, mha2),
        Stage("projection, FFN 2", "", rest2, 0),
    )
