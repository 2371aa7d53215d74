"""Refits on a device: a run's jobs go into its memory, their results come back. What `sim.qr.simulate` is for RTL alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from ...models.qr.config import FitPlan
from ...models.qr.image import place_jobs
from ...models.qr.job import Job
from ...models.shell import Status
from ...sim.qr import Simulated, unpack_results
from .device import Device
from .errors import DeviceError

__all__ = ["memory_for", "refit"]

#: what a device's memory is a multiple of
_PIECE = 4096


def memory_for(jobs: Sequence[Job], config: FitPlan) -> int:
    """Return the bytes of memory, a multiple of 4096, that a run of these jobs takes."""
    return -(-len(place_jobs(jobs, config, 0).memory) // _PIECE) * _PIECE


def refit(device: Device, config: FitPlan, jobs: Sequence[Job], *, watchdog: int = 1_000_000, limit: float | None = None,
          progress: Callable[[int], None] | None = None) -> Simulated:
    """Run jobs on a device with an engine of this configuration; `seconds` are those of the run, not of loading.

    A run that is still under way is stopped first.

    Raises DeviceError where the memory is too small, LinkError where the device cannot be reached, TimeoutError after `limit` seconds.
    """
    image = place_jobs(jobs, config, 0)
    if len(image.memory) > device.identity.memory_bytes:
        raise DeviceError(f"the run takes {len(image.memory)} bytes of memory: {len(jobs)} jobs with their rows, memos and results; the device has "
                          f"{device.identity.memory_bytes}", "fewer rows or groups take less")
    if not device.read_register("status") & Status.IDLE:      # a run that somebody left
        device.stop()
    device.write(0, image.memory)
    begin = perf_counter()
    report = device.run({"ring": 0, "jobs": len(jobs)}, watchdog=watchdog, limit=limit, progress=progress)
    seconds = perf_counter() - begin
    results = unpack_results(jobs, image, config, device.read) if report.error is None else []
    return Simulated(report.error, report.cycles, dict(report.counters), 0, 0, seconds, results)
