"""NeuPIMs in a server of GPUs, as Pimba's figure 15 draws it: what the drawn bars can contain.

NeuPIMs has a unit beside each bank, so a round of attention has half the COMPs of a unit that two banks share, and
takes 16 bits. Whether attention is hidden, and where state updates are computed, are the two open choices.
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.models.memory.dram.timing import Timing

from ..server import MODELS, PUBLISHED, serve, systems
from ..server.memory import PimMemory, Work
from ..server.operators import Attention, Category, StateUpdate
from ..server.rounds import Design, Round
from ..server.shapes import generation
from ..server.timings import memory_timing


class _OneBank(Round):
    """A round of attention with a unit beside each bank."""

    @property
    def computes(self) -> int:
        return super().computes // 2

    def cycles(self, timing: Timing, drain: bool) -> int:
        skipped = super().computes - self.computes
        return super().cycles(timing, drain) - skipped * timing["nCCDL"]


class _OneBankMemory(PimMemory):
    def work(self, operation: str, groups: int, chunks: int) -> Work:
        made = super().work(operation, groups, chunks)
        first, later = (_OneBank(each.device, each.given) for each in (made.first, made.later))
        return replace(made, first=first, later=later)


@dataclass(frozen=True)
class Parts:
    """Seconds of a token: matrix products, state updates on the GPU and beside the banks, attention beside
    the banks, all else; `moved`: reading and writing all states in 16 bits at the memory's full rate."""

    products: float
    gpu_update: float
    bank_update: float
    attention: float
    rest: float
    moved: float

    def latency(self, *, gpu_update: bool, hidden: bool) -> float:
        """Return the latency with state updates there, and attention hidden under matrix products or not."""
        attention = max(0.0, self.attention - self.products) if hidden else self.attention
        update = self.gpu_update if gpu_update else self.bank_update
        return self.products + self.rest + update + attention


def parts_of(model: str, batch: int, context: int) -> Parts:
    """Return the parts of one token after `context` others on A100, under the paper's assumptions."""
    shape, made = MODELS[model], systems()
    gpu = made["GPU"].gpu
    plain, banks = (
        serve(shape, made[name], batch, prompt=context, tokens=2).seconds
        for name in ("GPU", Design.PIPELINED.title)
    )
    timing = memory_timing(gpu.memory_mhz, PUBLISHED)
    memory = _OneBankMemory(Design.PIPELINED, gpu.channels, gpu.memory_mhz, timing)
    operators = generation(shape, batch, shape.devices, np.array([context + 1]))
    attention = sum(
        memory.seconds(each, PUBLISHED) * each.repeats
        for each in operators
        if isinstance(each, Attention)
    )
    heads = sum(each.heads * each.repeats for each in operators if isinstance(each, StateUpdate))
    moved = 2 * 2 * heads * shape.dim_head * shape.dim_state / gpu.bandwidth
    update = plain[Category.STATE_UPDATE]
    rest = sum(plain.values()) - update
    rest -= plain[Category.ATTENTION] + plain[Category.GEMM]
    return Parts(plain[Category.GEMM], update, banks[Category.STATE_UPDATE], attention, rest, moved)
