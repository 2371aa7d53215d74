"""How well the time of a call tells what was asked, for devices of oblivious maps that are processes: area under the
curve of hits against each other kind of operation, and against hits of their own, which is the control.

Time is the thread's own, of calls of 64 frames. Beside it stands what an answer with constant work would take at
least: to read all entries of the position map and all frames once.
"""

import random
from statistics import median
from time import thread_time_ns

import numpy as np
from common import Options, Section, machine, main, markdown
from scipy.stats import mannwhitneyu

import penstock as ps
from penstock.engines.omap.native import NativeDevice
from penstock.host.omap.devices import GoldenDevice
from penstock.host.omap.local import LocalBackend
from penstock.models.omap.messages import Operation, Request

_FRAMES = 64
_SEEDS = range(3)


def _kinds(draw, fill):
    """Makers of requests, by name; of a map that has keys 0 to `fill` - 1."""
    asked = lambda operation, key: Request(operation, key, draw.randbytes(8))
    hit = lambda: asked(Operation.GET, draw.randrange(fill))
    return {
        "hit": hit,
        "control": hit,
        "miss": lambda: asked(Operation.GET, 10**9 + draw.randrange(fill)),
        "PUT": lambda: asked(Operation.PUT, draw.randrange(fill)),
        "one key": lambda: asked(Operation.GET, 1),
    }


def _areas(device, capacity, calls, seed):
    """Return the microseconds of an operation, and of each kind the area under the curve."""
    config = ps.ObliviousMap(key=ps.u64, value=ps.bytes(8), capacity=capacity).open().config
    times, draw, fill = [], random.Random(seed), capacity * 3 // 4

    class Timed(device):
        def carry(self, frames, opening=b""):
            begin = thread_time_ns()
            answers = super().carry(frames, opening)
            times.append(thread_time_ns() - begin)
            return answers

    backend, kinds = LocalBackend(config, lambda config, root: Timed(config, root)), None
    kinds = _kinds(draw, fill)
    for at in range(0, fill, 256):
        keys = range(at, min(at + 256, fill))
        backend.run([Request(Operation.PUT, key, bytes(8)) for key in keys])
    labels = [draw.choice(list(kinds)) for _ in range(calls)]
    times.clear()
    for label in labels:
        backend.run([kinds[label]() for _ in range(_FRAMES)])
    taken, labels = np.array(times[-calls:]), np.array(labels)
    hits, areas = taken[labels == "hit"], {}
    for name in [*kinds][1:]:
        other = taken[labels == name]
        areas[name] = mannwhitneyu(hits, other).statistic / (len(hits) * len(other))
    return median(taken) / 1000 / _FRAMES, areas, config


def _read_once(config):
    """Return the microseconds of reading the position map and all frames."""
    size = config.buckets * config.bucket_bytes + config.frames * (config.key_bytes + 8)
    words, times = np.ones(size // 8, dtype=np.uint64), []
    for _ in range(50):
        begin = thread_time_ns()
        np.bitwise_or.reduce(words)
        times.append(thread_time_ns() - begin)
    return median(times) / 1000


def timing(options: Options) -> str:
    """Golden and native devices, of small and of large maps."""
    rows = []
    for name, device, capacity in (
        ("golden", GoldenDevice, 1000),
        ("native", NativeDevice, 1000),
        ("native", NativeDevice, 100_000),
    ):
        if options.quick and (capacity > 1000 or device is GoldenDevice):
            continue
        calls = 40 if options.quick else 250 if device is GoldenDevice else 1500
        runs = [_areas(device, capacity, calls, seed) for seed in _SEEDS]
        shown = [
            "–".join(f"{f(run[1][kind] for run in runs):.2f}" for f in (min, max))
            for kind in runs[0][1]
        ]
        taken = median(run[0] for run in runs)
        rows.append(
            (name, f"{capacity:,}", *shown, f"{taken:,.1f}", f"{_read_once(runs[0][2]):,.1f}")
        )
    head = (
        *("device", "items", "control", "miss", "PUT", "one key"),
        *("an operation, µs", "all entries read once, µs"),
    )
    return f"{markdown(head, rows)}\n\n{machine()}"


SECTIONS = [Section("omap-timing", True, timing)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
