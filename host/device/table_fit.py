"""Fits over a table's columns on a device: pages lie in its memory, and so do the sums that each fit goes on from. What `sim.table_fit.simulate` is for RTL
alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ...models.qr.columns import Totals
from ...models.qr.table_config import Segment, TableFitPlan
from ...models.qr.table_memory import memory_for, pack_totals, places, registers
from ...models.shell import Status
from ...sim.table_fit import Fitted
from .device import Device
from .errors import DeviceError

__all__ = ["TableFits"]


class TableFits:
    """Fits over one table, on a device with an engine of this configuration.

    A run that is still under way is stopped first.

    Parameters
    ----------
    device, engine
        Where fits are made.
    pages
        The table's heap pages (pages, page_size), which are loaded once.

    Attributes
    ----------
    first_page
        Address of the first page, for segments.

    Raises DeviceError where the memory is too small, LinkError where the device cannot be reached.
    """

    def __init__(self, device: Device, engine: TableFitPlan, pages: NDArray[np.uint8]) -> None:
        needed, size = memory_for(engine, len(pages)), device.identity.memory_bytes
        if needed > size:
            raise DeviceError(f"the table takes {needed} bytes of memory: {len(pages)} pages of {engine.walk.schema.page_size} bytes, sums and weights; the "
                              f"device has {size}", "fewer rows take less")
        self._device, self._engine, where = device, engine, places(engine)
        self.first_page, self._answers = where.pages, where.answers
        self._latest, self._begun = 0, False                  # which of the answers holds the sums of the latest fit
        if not device.read_register("status") & Status.IDLE:      # a run that somebody left
            device.stop()
        device.write(where.pages, pages.tobytes())

    def fit(self, segments: Sequence[Segment], totals: Totals | None = None, *, watchdog: int = 1_000_000, limit: float | None = None,
            progress: Callable[[int], None] | None = None) -> Fitted:
        """Make a fit: rows that come, rows that go; `totals`: what it goes on from, without them the fit before. `seconds` are those of the run.

        After an error the next fit goes on from what this one went on from.

        Raises ValueError where the first fit has no totals to go on from (`models.qr.columns.initial_totals` of its rows are such),
        LinkError where the device cannot be
        reached, TimeoutError after `limit` seconds.
        """
        device, engine, before = self._device, self._engine, self._answers[self._latest]
        after = self._answers[1 - self._latest]
        if totals is None and not self._begun:
            raise ValueError("the first fit goes on from totals: models.qr.columns.initial_totals of its rows")
        if totals is not None:
            device.write(before, pack_totals(totals, engine).tobytes())
        self._begun = True
        begin = perf_counter()
        report = device.run(registers(before, after, segments), watchdog=watchdog, limit=limit, progress=progress)
        seconds = perf_counter() - begin
        answer = None
        if report.error is None:
            answer = np.frombuffer(device.read(after, engine.answer_words * engine.bus_bytes), dtype=np.uint8)
            self._latest = 1 - self._latest
        return Fitted(report.error, report.cycles, dict(report.counters), 0, 0, seconds, answer)
