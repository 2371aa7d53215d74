"""The engine of fits over numeric columns in Amaranth's own simulator. Whole tables run on `sim.table_fit`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..hdl.modules import Submodules
from ..hdl.qr.table_engine import TableFitEngine
from ..models.memory import FixedLatency
from ..models.qr.columns import Totals
from ..models.qr.table_config import Segment, TableFitPlan
from ..models.qr.table_memory import memory_for, pack_totals, places, registers
from .engine_python import EngineSimulation
from .table_fit import Fitted

__all__ = ["Simulation"]


class Simulation:
    """One engine, elaborated once, which may make several fits.

    Parameters
    ----------
    config
        The engine.
    memory
        Timing of the memory port.
    """

    def __init__(self, config: TableFitPlan, memory: FixedLatency | None = None) -> None:
        self.config = config
        self._simulation = EngineSimulation(TableFitEngine(config, Submodules()), memory)       # type: ignore[arg-type]

    def run(self, pages: NDArray[np.uint8], totals: Totals, segments: Sequence[Segment], *, limit: int = 1_000_000) -> Fitted:
        """Make one fit, as `sim.table_fit.simulate` does, of segments of the pages that lie at `table_memory.places`. Raises as `EngineSimulation.run`."""
        config, where = self.config, places(self.config)
        content = np.zeros(memory_for(config, len(pages)), dtype=np.uint8)
        before, after = where.answers
        packed = pack_totals(totals, config)
        content[before:before + packed.size], content[where.pages:where.pages + pages.size] = packed, pages.reshape(-1)
        ended = self._simulation.run(registers(before, after, segments), content, limit=limit)
        answer = content[after:after + config.answer_words * config.bus_bytes]
        return Fitted(**vars(ended), answer=answer if ended.error is None else None)
