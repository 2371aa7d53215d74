"""The golden model of a device, quickly: the rounds of `models.pim.device` from C++ (`golden.cpp`), which g++ compiles once.

`Device` there stays the specification; tests hold this one equal to it in every bit.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.models.pim.config import PimConfig
from penstock.models.pim.device import Device, Step
from penstock.models.pim.rounds import MODES
from penstock.sim.native.toolchain import NATIVE, BuildError, build_plain

Bytes = NDArray[np.uint8]
_SOURCES = ("golden.cpp", "golden_lanes.hpp", "golden_mx8.hpp", "golden_float16.hpp")
#: registers as C++ has them, one after another
_HELD = ("c0", "c1", "k", "q", "v0", "v1")


@cache
def _library() -> ctypes.CDLL | BuildError:
    """Return the library, or why there is none."""
    try:
        flags = (*NATIVE, "-ffp-contract=off")
        path = build_plain("pim-golden", *map(Path(__file__).with_name, _SOURCES), flags=flags)
    except BuildError as problem:
        return problem
    library = ctypes.CDLL(str(path))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.penstock_pim_golden.restype = number
    library.penstock_pim_golden.argtypes = [
        number, *[pointer] * 3, *[number] * 4, pointer, *[number] * 2, pointer, number, *[pointer] * 2,
    ]  # fmt: skip
    return library


class InCpp(Device):
    """`models.pim.device.Device` in C++. Raises BuildError where there is no g++."""

    def __init__(self, config: PimConfig) -> None:
        super().__init__(config)
        library = _library()
        if isinstance(library, BuildError):
            raise library
        self._play = library.penstock_pim_golden
        self._held = np.zeros((len(_HELD), self.count, 32), dtype=np.uint8)
        self._words = np.zeros((self.count, 2), dtype=np.uint64)
        self._begun: set[int] = set()

    def _rounds(self, number: int, steps: Sequence[Step]) -> list[Bytes]:
        outs: list[Bytes] = []
        moves = ("load", "store")
        for moved, group in groupby(steps, lambda step: step.round.mode in moves):
            stretch = list(group)
            outs += super()._rounds(number, stretch) if moved else self._computed(number, stretch)
        return outs

    def _computed(self, number: int, steps: Sequence[Step]) -> list[Bytes]:
        """Run rounds that compute, in one call."""
        banks = self.set_banks(number)
        first, count = int(banks[0]), len(banks)
        for step in steps:
            if step.seeds is not None:
                self._begun.add(number)
            draws = self.config.stochastic and step.round.mode == "update"
            if draws and number not in self._begun:
                raise KeyError(number)  # as the specification
        wide = self.config.format == "float16"
        rounds = [step.round for step in steps]
        table = np.array(
            [
                (MODES.index(r.mode), r.row, r.first, r.rates, s.seeds is not None, r.reads)
                for r, s in zip(rounds, steps, strict=True)
            ],
            dtype=np.int64,
        )
        operands = np.concatenate([step.data.reshape(-1) for step in steps])
        seeds = [step.seeds.reshape(-1) for step in steps if step.seeds is not None]
        drawn = np.concatenate(seeds) if seeds else operands
        reads = [1 if r.mode == "attend" else (1 + wide) * (r.reads > 0) for r in rounds]
        out = np.empty((count // 2 * sum(reads) + 2, 32), dtype=np.uint8)
        bank, row = self.banks.strides[:2]
        self.saturated += self._play(
            len(steps),
            table.ctypes.data,
            operands.ctypes.data,
            drawn.ctypes.data,
            wide,
            self.config.stochastic,
            self.config.design.banks,
            count,
            self.banks.ctypes.data + first * bank,
            bank,
            row,
            self._held.ctypes.data + 32 * first,
            32 * self.count,
            self._words.ctypes.data + 16 * first,
            out.ctypes.data,
        )
        return np.split(out[:-2], np.cumsum(reads[:-1]) * (count // 2))


def golden_device(config: PimConfig) -> Device:
    """Return a device that has played nothing: in C++, or where there is no g++ the specification in NumPy."""
    return Device(config) if isinstance(_library(), BuildError) else InCpp(config)


def language_of(device: Device) -> str:
    """Return what computes a device's rounds, for reports."""
    if isinstance(device, InCpp):
        return "C++"
    library = _library()
    return f"NumPy: {str(library).splitlines()[0]}" if isinstance(library, BuildError) else "NumPy"
