"""Rows of models in memory (hdl.rows): in no kernel's own device, whose part has one memory port."""

from __future__ import annotations

from penstock.hdl.rows.unit import RowUnit
from penstock.models.rows.unit import Place, RowTable, RowUnitConfig

__all__ = ["COMPONENTS", "PROOFS"]


def _unit() -> RowUnit:
    tables = RowTable(("P", "b"), (3, 1), 6, 6, (1,)), RowTable(("Q",), (2,), 3, 3)
    places = Place(0, 0, 0, True), Place(3, 1, 1, False)
    config = RowUnitConfig(tables, places, 2, 8, 2, 2, 1, 4)
    return RowUnit(config, address_width=12, beats_width=4)


PROOFS: list[object] = []
COMPONENTS = {"RowUnit": _unit}
