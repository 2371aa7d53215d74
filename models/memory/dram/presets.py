"""Timing presets by name, of `presets.toml`. Times in ns are rounded up to whole cycles, intervals between refreshes down."""

import math
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from .organisation import Organisation
from .timing import Timing


def _read() -> dict[str, dict[str, Any]]:
    """Return what the file says of each preset, with what it has of another one."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    names, *rows = (line.split() for line in tables.pop("figures")["table"].strip().splitlines())
    for name, table in tables.items():
        base = tables.get(table.pop("like", None), {})
        for key, value in base.items():
            edits = table.get(key, {})
            table[key] = {**value, **edits} if isinstance(value, dict) else table.get(key, value)
        column = names.index(name) + 1
        table["figures"] = {row[0]: row[column] for row in rows if row[column] != "-"}
    return tables


def _cycles(name: str, text: str, clock_hz: Fraction) -> int:
    """Return what a cell of the table says."""
    rounding = math.floor if name == "nREFI" else math.ceil
    return max(
        rounding(Fraction(part[:-2]) * clock_hz / 10**9) if part.endswith("ns") else int(part)
        for part in text.split("|")
    )


def _preset(name: str, table: Mapping[str, Any]) -> Timing:
    clock = Fraction(table["clock_hz"])
    sources = {key: text for keys, text in table["sources"].items() for key in keys.split() or [""]}
    figures = {key: _cycles(key, text, clock) for key, text in table["figures"].items()}
    plain = Timing(
        name=name,
        title=table["title"],
        clock_hz=clock,
        organisation=Organisation(**table["organisation"]),
        standard=table["standard"],
        row_bus=table.get("row_bus", True),
        sources=sources,
    )
    return plain.with_(**figures)


_TABLES = _read()
#: every preset by its name
PRESETS: Mapping[str, Timing] = {name: _preset(name, table) for name, table in _TABLES.items()}
#: what `energy.Currents` takes, of presets where it is known
CURRENTS: Mapping[str, Mapping[str, Any]] = {
    name: table["currents"] for name, table in _TABLES.items() if "currents" in table
}
#: short names of presets
ALIASES: Mapping[str, str] = {
    "sdr": "sdr-166",
    "ddr4": "ddr4-2400",
    "hbm2": "hbm2-2000",
    "hbm2e": "hbm2e-3200",
    "hbm3": "hbm3-6400",
}


def preset(name: str) -> Timing:
    """Return the preset of that name or short name, capitals aside. Raises KeyError with the names
    there are."""
    key = name.lower()
    try:
        return PRESETS[ALIASES.get(key, key)]
    except KeyError:
        raise KeyError(f"there is no DRAM {name!r}; there are {', '.join(PRESETS)}") from None
