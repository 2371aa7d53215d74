"""State elements a second of the golden model of recurrences: its specification in NumPy, and C++, both on one core, in one run."""

from __future__ import annotations

from time import process_time

import numpy as np
from common import SEED, Options, Section, machine, main, markdown

from penstock.engines.pim.golden import InCpp
from penstock.models.pim.config import PimConfig
from penstock.models.pim.device import Device, Step, registers_of
from penstock.models.pim.rounds import Round

#: the units of `u55c`
GROUPS, BANKS = 4, 4
DEVICES = {
    "mx8, stochastic": PimConfig(stochastic=True, groups=GROUPS, banks=BANKS, rows=32),
    "mx8, nearest": PimConfig(groups=GROUPS, banks=BANKS, rows=32),
    "float16": PimConfig("float16", groups=GROUPS, banks=BANKS, rows=32),
}
MODES = ("update", "score", "attend")


def steps(config: PimConfig, mode: str) -> list[Step]:
    """Return a round of each row, with random operands of one size."""
    rng = np.random.default_rng(SEED)
    made = []
    for row in range(config.rows):
        given = Round(mode, row=row, first=not row)
        count = config.groups * config.banks
        data = rng.integers(0, 256, (count, len(registers_of(config, given)), 32), dtype=np.uint8)
        if config.format == "mx8":
            data[..., [0, 16]] = 127
        else:
            data[..., 1::2] = data[..., 1::2] & 0xBF | 0x20
        seeds = rng.integers(0, 256, (count // 2, 32), dtype=np.uint8)
        made.append(Step(given, data, seeds if config.stochastic and not row else None))
    return made


def speed(kind: type[Device], config: PimConfig, mode: str, times: int) -> float:
    """Return state elements a second of processor time: the best of `times`."""
    device, made = kind(config), steps(config, mode)
    device.banks[:] = np.random.default_rng(SEED).integers(0, 256, device.banks.shape)
    device.banks[..., [0, 16]] = 127
    best = np.inf
    for _ in range(times):
        begin = process_time()
        device.play_all(0, made)
        best = min(best, process_time() - begin)
    return len(made) * config.groups * config.banks * 32 * config.lanes / best


def golden(options: Options) -> str:
    rows = []
    for name, config in DEVICES.items():
        for mode in MODES:
            if config.stochastic and mode != "update":
                continue
            slow = speed(Device, config, mode, 2 if options.quick else 20)
            fast = speed(InCpp, config, mode, 40 if options.quick else 400)
            rows.append(
                [name, mode, f"{slow / 1e6:.2f}", f"{fast / 1e6:.0f}", f"{fast / slow:.0f} ×"]
            )
    heads = "units | rounds | NumPy, M elements/s | C++, M elements/s | C++ ÷ NumPy"
    return f"{markdown(heads, rows)}\n\n{machine()}"


SECTIONS = [Section("pim-golden", True, golden)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
