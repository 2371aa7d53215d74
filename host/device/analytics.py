"""Training on a device: the images of a plan go into its memory, the models come back. What `sim.analytics.simulate` is for RTL alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.job import port_pages
from ...models.analytics.shell import count_bits, images, unpack_result
from ...models.numerics.formats import Codes
from ...models.shell import Status
from ...sim.analytics import Simulated
from .device import Device
from .errors import DeviceError

__all__ = ["memory_needed", "train"]

#: where images begin: bursts do not cross such a boundary, so that each image costs the bursts that the cycle model counts
_ALIGNED = 4096
#: the widest bus there is, in bytes
_BUS = 128


def _round(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _layout(plan: AnalyticsPlan, boot: int, result: int, pages: int) -> tuple[dict[str, int], int]:
    """Return the address registers of a run, and the bytes of memory that it takes: boot image, result, each port's pages."""
    place = -(-boot // _BUS) * _BUS
    if place // _ALIGNED != (place + result - 1) // _ALIGNED:
        place = _round(boot)
    registers = {"boot_address": 0, "result_address": place}
    place = _round(place + result)
    for q in range(plan.ports):
        count = len(range(q, pages, plan.ports))
        registers |= {f"page_address{q}": place, f"pages{q}": count}
        place += _round(count * plan.schema.page_size)
    return registers, place


def memory_needed(plan: AnalyticsPlan, runs: Sequence[Codes], models: Mapping[str, Codes], pages: int) -> int:
    """Return the bytes of memory, a multiple of 4096, that a run on so many pages takes."""
    image = images(plan, runs, models)
    return _layout(plan, len(image.boot), image.result_bytes, pages)[1]


def train(device: Device, plan: AnalyticsPlan, pages: np.ndarray, runs: Sequence[Codes], models: Mapping[str, Codes], *, epochs: int | None = None,
          watchdog: int = 1_000_000, limit: float | None = None, progress: Callable[[int], None] | None = None) -> Simulated:
    """Train on heap pages (pages, page_size) on a device that runs the plan's design; `seconds` are those of the run, not of loading.

    A run that is still under way is stopped first.

    Raises DeviceError where the memory is too small or the epochs are more than the device counts, LinkError where the device
    cannot be reached, TimeoutError after `limit` seconds.
    """
    image = images(plan, runs, models)
    registers, needed = _layout(plan, len(image.boot), image.result_bytes, len(pages))
    if needed > device.identity.memory_bytes:
        raise DeviceError(f"the run takes {needed} bytes of memory: program and parameters, result, {len(pages)} pages of {plan.schema.page_size} bytes; "
                          f"the device has {device.identity.memory_bytes}", "fewer rows or smaller pages take less")
    count = epochs or plan.epochs
    if count >= 1 << count_bits(plan):
        raise DeviceError(f"{count} epochs are more than the device can count", f"it counts to {(1 << count_bits(plan)) - 1}")
    if not device.read_register("status") & Status.IDLE:      # a run that somebody left
        device.stop()
    device.write(registers["boot_address"], image.boot)
    for q, part in enumerate(port_pages(plan, pages)):
        device.write(registers[f"page_address{q}"], part)
    begin = perf_counter()
    report = device.run({**registers, "epochs": count}, watchdog=watchdog, limit=limit, progress=progress)
    seconds = perf_counter() - begin
    trained = None
    if report.error is None:
        trained = unpack_result(plan, np.frombuffer(device.read(registers["result_address"], image.result_bytes), dtype=np.uint8))
    return Simulated(report.error, report.cycles, dict(report.counters), 0, 0, seconds, trained)
