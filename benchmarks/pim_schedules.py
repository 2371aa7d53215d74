"""Cycles of a later round for each schedule, with refresh and without: averages over 120 rounds, published count; hardware count."""

from __future__ import annotations

from dataclasses import replace

from penstock.models.pim.config import PimConfig
from penstock.models.pim.rounds import Charges, Round
from penstock.models.pim.schedule import schedule

DEVICES = {
    "all banks together": PimConfig(),
    "two halves": PimConfig(sets=2),
    "four groups, COMP bank-local": PimConfig(sets=4, bank_local=True),
}


def cycles(config: PimConfig, drain: bool) -> float:
    """Return the average cycles of a later round."""
    made = schedule(config, [[Round()] * 120 for _ in range(config.sets)], Charges(drain))
    return max((own[-1] - own[0]) / (len(own) - 1) for own in made.starts)


def main() -> None:
    for name, config in DEVICES.items():
        cells = []
        for refresh in ("none", "all-bank", "per-bank"):
            one = replace(config, refresh=refresh)
            cells.append("; ".join(f"{cycles(one, drain):.1f}" for drain in (False, True)))
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
