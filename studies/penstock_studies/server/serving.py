"""A system that serves a model: latency, throughput and energy of its generated tokens.

Only generation is looked at, as in the paper: prompts are computed on GPUs alike in all systems. Layers follow one
another; GPU and units beside the banks never work at the same time.
"""

from dataclasses import dataclass

import numpy as np

from .assumptions import PUBLISHED, Assumptions
from .gpu import GPUS, Energy, Gpu
from .memory import PimMemory
from .operators import Attention, Category, StateUpdate
from .rounds import Design, Staggered
from .shapes import ModelShape, generation
from .timings import memory_timing


@dataclass(frozen=True)
class System:
    """GPUs, with units beside the banks where `design` says which. `state_bytes`: of an element of state,
    key or value; `staggered`: our schedule of the units."""

    name: str
    gpu: Gpu
    design: Design | None = None
    state_bytes: int = 2
    staggered: Staggered | None = None


#: our schedules, by the name of the system: with tCCD_S between bank groups, and with COMPs local to banks
OURS = {"Pimba, two halves": Staggered(2, False), "Pimba, four groups": Staggered(4, True)}


def systems(gpu: str = "A100") -> dict[str, System]:
    """Return the paper's systems with this GPU, and ours, by name."""
    base = GPUS[gpu]
    made = [System("GPU", base), System("GPU+Q", base, state_bytes=1)]
    names = {Design.HBM_PIM: "GPU+PIM", Design.PIMBA: "Pimba"}
    made += [System(names.get(d, d.title), base, d, d.width) for d in Design]
    made += [System(name, base, Design.PIMBA, 1, how) for name, how in OURS.items()]
    return {system.name: system for system in made}


@dataclass(frozen=True)
class Breakdown:
    """Seconds of a token of the whole batch, and picojoules of it on all devices, by category."""

    batch: int
    seconds: dict[Category, float]
    energy: dict[Category, Energy]

    @property
    def latency(self) -> float:
        return sum(self.seconds.values())

    @property
    def throughput(self) -> float:
        """Tokens a second."""
        return self.batch / self.latency

    @property
    def picojoules(self) -> float:
        return sum(part.total for part in self.energy.values())


def serve(
    shape: ModelShape,
    system: System,
    batch: int,
    *,
    assumptions: Assumptions = PUBLISHED,
    prompt: int = 2048,
    tokens: int = 2048,
) -> Breakdown:
    """Return what a token costs, averaged over the `tokens` that follow a prompt of `prompt` tokens.

    The first token comes with the prompt, so `tokens` − 1 are generated one by one. Raises ValueError for a
    batch, prompt or number of tokens below 1 (below 2 for tokens).
    """
    if batch < 1 or prompt < 1 or tokens < 2:
        raise ValueError("a batch and a prompt have 1 or more, and there are 2 tokens or more")
    contexts = np.arange(prompt + 1, prompt + tokens)
    memory = None
    if system.design is not None:
        timing = memory_timing(system.gpu.memory_mhz, assumptions)
        memory = PimMemory(
            system.design,
            system.gpu.channels,
            system.gpu.memory_mhz,
            timing,
            system.staggered,
        )
    seconds = dict.fromkeys(Category, 0.0)
    energy = dict.fromkeys(Category, Energy(0.0, 0.0))
    devices = shape.devices
    for operator in generation(shape, batch, devices, contexts):
        if memory is not None and isinstance(operator, StateUpdate | Attention):
            time = memory.seconds(operator, assumptions)
            spent = memory.energy(operator, assumptions)
        else:
            width, gpu = system.state_bytes, system.gpu
            time = gpu.seconds(operator, width, devices, assumptions.occupancy)
            spent = gpu.energy(operator, width, devices)
        seconds[operator.category] += time * operator.repeats
        energy[operator.category] += spent * (operator.repeats * devices)
    return Breakdown(batch, seconds, energy)
