"""Tokens of a recurrence on `u55c`, whose banks are its own block RAM, beside one core in C, in one run."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from common import EXAMPLES, SEED, Options, Section, machine, main, markdown

from penstock.api import compile
from penstock.engines.qr.refit_c import FLAGS, address
from penstock.sim.native.toolchain import build_text

HEADS, TOKENS = 4, 64
SIZES = (64, 128, 256)
LAYOUTS = ("rows", "panels", "columns")
#: the least of so many runs counts
BEST_OF = 200


def core_seconds(size: int, times: int) -> tuple[float, str]:
    """Return the seconds of one core for all tokens, in the fastest layout, and which that is; each must give what NumPy gives in float64."""
    text = Path(__file__).with_suffix(".c").read_text()
    loaded = ctypes.CDLL(str(build_text("pim_core", text, (*FLAGS, "-ffast-math"))))
    loaded.time_tokens.restype = ctypes.c_double
    rng = np.random.default_rng(SEED)
    k, v, q = rng.standard_normal((3, TOKENS, HEADS, size), dtype=np.float32)
    d = (1 - 2.0 ** -(5.0 + np.arange(HEADS))).astype(np.float32)
    state, expected = np.zeros((HEADS, size, size)), np.zeros((TOKENS, HEADS, size))
    for t in range(TOKENS):
        state = d[:, None, None] * state + k[t, :, :, None] * v[t, :, None].astype(np.float64)
        expected[t] = np.einsum("hkv,hk->hv", state, q[t])
    s, y, taken = np.zeros((HEADS, size, size), np.float32), np.empty_like(v), []
    sizes = [ctypes.c_size_t(n) for n in (size, HEADS, TOKENS)]
    for layout in range(len(LAYOUTS)):
        run = lambda of=layout: loaded.time_tokens(of, *sizes, *map(address, (s, d, k, v, q, y)))
        taken.append(min(run() for _ in range(times)))
        if not np.allclose(y, expected, rtol=0, atol=1e-5 * np.abs(expected).max()):
            raise AssertionError(f"{LAYOUTS[layout]} of {size} differ from NumPy")
    best = int(np.argmin(taken))
    return taken[best], LAYOUTS[best]


def beside(options: Options) -> str:
    """All sizes; the device's cycles are the model's, at the part's clock."""
    found = []
    for size in SIZES[: 1 if options.quick else None]:
        design = compile(
            EXAMPLES / "retnet.psk",
            target="u55c",
            heads=HEADS,
            dims={"k": size, "v": size},
            dram="on-chip",
            schedule="halves",
        )
        run = design.run(f"random:rows={TOKENS},seed={SEED}", backend="model")
        assert run.cycles is not None and run.bound is not None
        device = run.cycles / (design.target.clock_mhz * 1e6)
        core, layout = core_seconds(size, 3 if options.quick else BEST_OF)
        cells = f"{core * 1e6:.0f} ({layout})", f"{device * 1e6:.0f}", f"{core / device:.2f} ×"
        binds = f"{run.cycles / run.bound.cycles:.2f} × {run.bound.by}"
        found.append([f"{size}²", *cells, f"{run.cycles:,}", design.text(), binds])
    heads = f"{HEADS} heads, {TOKENS} tokens | core, µs | `u55c`, µs | core ÷ device | cycles | device | cycles ÷ bound"
    return f"{markdown(heads, found)}\n\n{machine()}"


SECTIONS = [Section("pim-core", True, beside)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
