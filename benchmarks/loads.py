"""Processor time of a design's first load, whose Verilog is made anew, beside that of its compilation; of a second load; every example, saved and loaded."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

from common import EXAMPLES, Options, Section, machine, main, markdown

from penstock import api
from penstock.dsl.core.load import load_kernel

GOAL = 1.1
#: of dimensions, where the example needs them
SIZES = {"t": 32, "p": 32, "fields": 3, "cells": 64} | dict.fromkeys("kv", 32)
#: engines whose recurrences have their dimensions in blocks; others are small
LITTLE = 4


def dims(file: Path) -> dict[str, int]:
    """Return the sizes of an example's dimensions that its text leaves open."""
    kernel = load_kernel(file)
    names = {d for p in kernel.parameters for d in p.dims if isinstance(d, str)}
    sizes = SIZES if kernel.keyword == "recurrence" else {"fields": 3, "cells": 64}
    wide = 32 if kernel.keyword == "recurrence" else LITTLE
    return {name: sizes.get(name, wide) for name in names}


def timed(cache: str, act: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor's seconds of what is done with a cache, and what comes of it."""
    os.environ["PENSTOCK_CACHE"] = cache
    begin = process_time()
    made = act()
    return process_time() - begin, made


def one(file: Path) -> tuple[float, float, float]:
    """Return the seconds of compiling and saving, of the first load elsewhere, and of the second."""
    sizes = dims(file)
    with tempfile.TemporaryDirectory() as folder:
        here, there, saved = (f"{folder}/{name}" for name in ("here", "there", "design"))
        compiled, _ = timed(here, lambda: api.compile(file, dims=sizes).save(saved))
        first, _ = timed(there, lambda: api.load(saved))
        second, _ = timed(there, lambda: api.load(saved))
    return compiled, first, second


def make(options: Options) -> str:
    files = sorted(EXAMPLES.glob("*.psk"))
    files = [file for file in files if not options.quick or file.stem in ("logistic", "gla")]
    one(EXAMPLES / "logistic.psk")  # imports, which no load is charged with
    rows, ratios = [], []
    for file in files:
        compiled, first, second = one(file)
        ratios.append(first / compiled)
        rows.append(f"{file.stem} | {compiled:.2f} | {first:.2f} | {second:.2f} | {ratios[-1]:.2f}")
    total = f"of {len(files)} examples, least, median and most | | | | {min(ratios):.2f}, {statistics.median(ratios):.2f}, {max(ratios):.2f}"
    titles = (
        f"example | compiled, s | first load, s | second load, s | first / compiled, goal ≤ {GOAL}"
    )
    return f"{machine()}\n\n" + markdown(titles, [*rows, total])


SECTIONS = [Section("loads", True, make)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
