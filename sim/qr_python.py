"""The qr engine in Amaranth's own simulator. Whole workloads run on `sim.qr`."""

from __future__ import annotations

from collections.abc import Sequence

from ..hdl.modules import Submodules
from ..hdl.qr.engine import FitEngine
from ..models.memory import FixedLatency
from ..models.qr.config import FitPlan
from ..models.qr.image import place_jobs
from ..models.qr.job import Job
from .engine_python import EngineSimulation
from .qr import Simulated, unpack_results

__all__ = ["Simulation"]


class Simulation:
    """One engine, elaborated once, which may run several times.

    Parameters
    ----------
    config
        The engine; ValueError where there is no hardware for it.
    memory
        Timing of the memory port.
    """

    def __init__(self, config: FitPlan, memory: FixedLatency | None = None) -> None:
        self.config = config
        self._simulation = EngineSimulation(FitEngine(config, Submodules()), memory)       # type: ignore[arg-type]

    def run(self, jobs: Sequence[Job], *, limit: int = 1_000_000) -> Simulated:
        """Run jobs, as `sim.qr.simulate` does. Raises as `EngineSimulation.run`."""
        image, config = place_jobs(jobs, self.config, base=0), self.config
        content = image.memory.copy()
        ended = self._simulation.run({"ring": 0, "jobs": len(jobs)}, content, limit=limit)
        found = unpack_results(jobs, image, config, lambda at, size: content[at:][:size].tobytes()) if ended.error is None else []
        return Simulated(**vars(ended), results=found, memory=content)
