"""An oblivious map by linear scan, in C: what one core of this computer does in place of an engine."""

import ctypes
from functools import cache
from pathlib import Path

from penstock.sim.native.toolchain import build_text

_FLAGS = ("-O3", "-march=native", "-funroll-loops", "-shared", "-fPIC")
#: vectors of 512 bits, which a GCC older than the processor leaves out
_WIDE = ("avx512f", "avx512dq", "avx512bw", "avx512vl")


def flags() -> tuple[str, ...]:
    """Return g++'s flags for what is quickest on this processor."""
    known = Path("/proc/cpuinfo").read_text().split()
    wide = ("-mprefer-vector-width=512", *(f"-m{name}" for name in _WIDE))
    return (*_FLAGS, *(wide if set(_WIDE) <= set(known) else ()))


@cache
def _library(value_bytes: int) -> ctypes.CDLL:
    text = f"#define WORDS {value_bytes // 8}\n{Path(__file__).with_name('scan.c').read_text()}"
    loaded = ctypes.CDLL(str(build_text("scan", text, ("-x", "c", *flags()))))
    loaded.scan_seconds.restype = ctypes.c_double
    loaded.scan_seconds.argtypes = [ctypes.c_long] * 3
    return loaded


@cache
def scan_seconds(capacity: int, value_bytes: int) -> float:
    """Return the seconds of an operation, the least of 100 batches. Raises BuildError."""
    # short batches, of about a millisecond: the fastest one has met no other process
    count = max(1, min(2000, (1 << 24) // (capacity * (8 + value_bytes))))
    seconds = float(_library(value_bytes).scan_seconds(capacity, count, 100))
    if seconds < 0:
        raise ValueError("the scan gave a wrong answer")
    return seconds
