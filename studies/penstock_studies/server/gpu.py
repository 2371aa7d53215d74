"""Time and energy of operators on a GPU, after the public performance model of Pimba (itself after AttAcc's).

A matrix product takes the longer of arithmetic and memory traffic, both scaled by the share of processors
that have a thread block; tiles are those with the least traffic. Pointwise operators take a launch and a
time per byte. Energies are per byte at each level of memory, and per multiplication.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .operators import AllReduce, Attention, Gemm, Operator, Pointwise, Softmax, StateUpdate

#: bytes of a weight or an activation
WIDTH = 2
_TILES = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512)
_TILE_DEPTH = 32
#: share of the depth that lies in the second cache at a time
_CACHED_DEPTH = 64
_REGISTER_TILE = 16
#: bandwidth of the GPU on which the times of pointwise kernels were taken, in bytes a second
_MEASURED_BANDWIDTH = 1555e9
#: of pointwise operators: (microseconds a byte there, microseconds of a launch, operations and transfers of an element)
_POINTWISE = {
    "activation": (4.47e-7, 8.29, 8, 2),
    "norm": (1.6e-6, 6.87, 5, 3),
    "softmax": (6.15e-7, 6.87, 5, 2),
}
#: an all-reduce: nanoseconds to begin, nanoseconds a byte over a link of 600 GB/s
_LINK_START, _LINK_BYTE, _LINK_MEASURED = 6060.0, 0.009, 600e9


@dataclass(frozen=True)
class Energy:
    """Picojoules: of main memory and its parts below the interface (`memory`, `compute`)."""

    memory: float
    compute: float

    def __add__(self, other: Energy) -> Energy:
        return Energy(self.memory + other.memory, self.compute + other.compute)

    def __mul__(self, factor: float) -> Energy:
        return Energy(self.memory * factor, self.compute * factor)

    @property
    def total(self) -> float:
        return self.memory + self.compute


@dataclass(frozen=True)
class Gpu:
    """A GPU: `cores` (streaming multiprocessors), bytes of a core's first cache and of the second,
    operations a second at 16 bits, bytes a second of memory and of the link between devices, bus clock in
    MHz and number of its memory's channels. `compute_share` and `memory_share` of the peak are reached."""

    name: str
    cores: int
    first_cache: int
    second_cache: int
    peak_flops: float
    bandwidth: float
    link: float
    memory_mhz: int
    channels: int = 40
    compute_share: float = 0.8
    memory_share: float = 0.85
    #: picojoules: a byte at main memory, second cache, first cache, register; a multiply-add
    energies: tuple[float, float, float, float, float] = (28.72, 2.4, 1.28, 0.0675, 0.32)

    def occupied(self, blocks: int) -> float:
        """Return the share of cores that have a thread block, averaged over the waves of `blocks` blocks."""
        return blocks / (math.ceil(blocks / self.cores) * self.cores)

    def seconds(self, operator: Operator, state_bytes: int, devices: int, occupancy: bool) -> float:
        """Return how long the operator takes once, averaged over its contexts.

        `state_bytes`: of an element of state, key or value; `devices`: that the model is split over;
        `occupancy`: state updates and attention get bandwidth by occupancy.
        """
        match operator:
            case Gemm():
                return self._gemm(operator)
            case StateUpdate(heads, dim_head, dim_state):
                shapes = ((dim_head, dim_state, 1), (1, dim_state, dim_head))
                return sum(
                    float(self._batched(shape, heads, state_bytes, occupancy)) for shape in shapes
                )
            case Attention(kind, heads, dim_head, contexts):
                shape = (1, contexts, dim_head) if kind == "score" else (1, dim_head, contexts)
                return float(np.mean(self._batched(shape, heads, state_bytes, occupancy)))
            case Softmax(heads, contexts):
                times = self._pointwise("softmax", heads * contexts, self.occupied(heads))
                return float(np.mean(times))
            case Pointwise(kind, elements):
                return float(self._pointwise(kind, elements, self.occupied(1)))
            case AllReduce(elements):
                return self._reduce(elements * WIDTH, devices)

    def _gemm(self, gemm: Gemm) -> float:
        rows, columns = self.tile(gemm.rows, gemm.columns, gemm.depth)
        share = self.occupied(math.ceil(gemm.rows / rows) * math.ceil(gemm.columns / columns))
        operations = 2 * gemm.rows * gemm.columns * gemm.depth
        traffic = WIDTH * self._traffic(gemm, *self._cached(gemm, rows, columns))
        compute = operations / (self.peak_flops * self.compute_share * share)
        return max(compute, traffic / (self.bandwidth * self.memory_share * share))

    @staticmethod
    def _traffic(gemm: Gemm, rows: int, columns: int) -> int:
        """Return the elements that move for tiles of `rows` × `columns`."""
        m, n, k = gemm.rows, gemm.columns, gemm.depth
        return math.ceil(n / columns) * m * k + math.ceil(m / rows) * n * k + m * n

    @cache  # noqa: B019
    def tile(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return rows and columns of a thread block's tile: the least traffic over the square of occupancy."""
        rows, columns = np.meshgrid(np.minimum(_TILES, m), np.minimum(_TILES, n), indexing="ij")
        fits = ((rows + columns) * _TILE_DEPTH + rows * columns) * WIDTH <= self.first_cache
        blocks = -(-m // rows) * -(-n // columns)
        occupied = blocks / (-(-blocks // self.cores) * self.cores)
        traffic = (-(-n // columns) * m * k + -(-m // rows) * n * k + m * n) * WIDTH
        cost = np.where(fits, traffic / occupied**2, np.inf)
        best = np.unravel_index(np.argmin(cost), cost.shape)
        return int(rows[best]), int(columns[best])

    def _cached(self, gemm: Gemm, rows: int, columns: int) -> tuple[int, int]:
        """Return the tile that lies in the second cache: multiples of a block's tile, or the whole."""
        m, n, k = gemm.rows, gemm.columns, gemm.depth
        tall = np.array([*range(rows, m + 1, rows), m])[:, None]
        wide = np.array([*range(columns, n + 1, columns), n])[None, :]
        needed = ((tall + wide) * (k / _CACHED_DEPTH) + tall * wide) * WIDTH
        fits = (needed <= self.second_cache) | ((tall == rows) & (wide == columns))
        cost = np.where(fits, -(-m // tall) * n * k + -(-n // wide) * m * k, np.inf)
        i, j = np.unravel_index(np.argmin(cost), cost.shape)
        return int(tall[i, 0]), int(wide[0, j])

    def _batched(self, shape: tuple[Any, Any, Any], heads: int, width: int, occupancy: bool) -> Any:
        """Return the seconds of `heads` small products, a thread block each; sizes may be arrays."""
        m, n, k = shape
        share = self.occupied(heads)
        compute = (
            2 * m * n * k * heads / (self.peak_flops * self.compute_share * share * (2 // width))
        )
        traffic = (m * k + n * k + m * n) * width * heads
        bandwidth = self.bandwidth * self.memory_share * (share if occupancy else 1.0)
        return np.maximum(compute, traffic / bandwidth)

    def _pointwise(self, kind: str, elements: Any, share: float) -> Any:
        byte, launch, *counts = _POINTWISE[kind]
        operations, transfers = counts
        compute = operations * elements / (self.peak_flops * self.compute_share * share)
        scaled = byte * _MEASURED_BANDWIDTH / self.bandwidth
        return np.maximum(compute, (scaled * transfers * WIDTH * elements + launch) * 1e-6)

    def _reduce(self, size: int, devices: int) -> float:
        if devices == 1:
            return 0.0
        begun = (_LINK_START + _LINK_BYTE * size * _LINK_MEASURED / self.link) * 1e-9
        return max(begun, size / (self.link / 2)) * math.log2(devices)

    def energy(self, operator: Operator, state_bytes: int, devices: int) -> Energy:
        """Return the energy of the operator once on one device, averaged over its contexts."""
        match operator:
            case Gemm():
                return self._gemm_energy(operator)
            case StateUpdate(heads, dim_head, dim_state):
                shapes = ((dim_head, dim_state, 1), (1, dim_state, dim_head))
                parts = [self._batched_energy(shape, heads, state_bytes) for shape in shapes]
                return parts[0] + parts[1]
            case Attention(kind, heads, dim_head, contexts):
                context = float(np.mean(contexts))
                shape = (1.0, context, dim_head) if kind == "score" else (1.0, dim_head, context)
                return self._batched_energy(shape, heads, state_bytes)
            case Softmax(heads, contexts):
                return self._pointwise_energy("softmax", heads * float(np.mean(contexts)))
            case Pointwise(kind, elements):
                return self._pointwise_energy(kind, elements)
            case AllReduce(elements):
                return Energy(elements * WIDTH * self.energies[0] * (devices > 1), 0.0)

    def _gemm_energy(self, gemm: Gemm) -> Energy:
        tile = self.tile(gemm.rows, gemm.columns, gemm.depth)
        tiles = (self._cached(gemm, *tile), tile, (_REGISTER_TILE, _REGISTER_TILE))
        memory, second, first = (WIDTH * self._traffic(gemm, *each) for each in tiles)
        products = gemm.rows * gemm.columns * gemm.depth
        return self._energy(memory, second, first, 3 * products, products)

    def _batched_energy(self, shape: tuple[float, float, float], heads: int, width: int) -> Energy:
        m, n, k = shape
        moved = (m * k + n * k + m * n) * width * heads
        near = (
            math.ceil(n / _REGISTER_TILE) * m * k + math.ceil(m / _REGISTER_TILE) * n * k + m * n
        ) * (width * heads)
        products = m * n * k
        return self._energy(moved, moved, near, 3 * products, products * heads)

    def _pointwise_energy(self, kind: str, elements: float) -> Energy:
        operations, transfers = _POINTWISE[kind][2:]
        moved = elements * WIDTH * transfers
        return self._energy(moved, moved, moved, moved, operations * elements / 2)

    def _energy(
        self, memory: float, second: float, first: float, register: float, multiplied: float
    ) -> Energy:
        amounts = (second, first, register, multiplied)
        return Energy(
            memory * self.energies[0],
            sum(amount * cost for amount, cost in zip(amounts, self.energies[1:], strict=True)),
        )


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("A100", 108, 192 << 10, 40 << 20, 312e12, 1935e9, 600e9, 1512),
        Gpu("H100", 132, 256 << 10, 50 << 20, 989.4e12, 3352e9, 900e9, 2626),
    )
}
