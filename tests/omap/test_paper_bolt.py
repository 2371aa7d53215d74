"""BOLT: the artifact's figures as we hold them say what the sheet infers from them, and ours stand beside them."""

from __future__ import annotations

import pytest

from penstock.engines.omap import bolt
from penstock.models.derating import fullest
from penstock.models.omap.config import OmapConfig
from penstock.report.papers import figures, records
from penstock.report.parts import Grid

DATA = figures("penstock.engines.omap", "bolt")


def test_figures() -> None:
    rows = {row["name"]: row for row in records(DATA["rows"])}
    for alpha in (0.01, 0.2, 0.5):  # a page costs 1.26 µs, the rest 2.49
        row = rows[f"1M, α {alpha}"]
        assert row["us"] == pytest.approx(2.49 + 1.26 * 2 * (1 - alpha), abs=0.07)
    peers = {row["name"]: row for row in records(DATA["peers"])}
    assert 2282 / 4.75 == pytest.approx(DATA["headlines"]["queries"], abs=0.5)
    assert peers["olabs umap"]["20"] / rows["1M, α 0.2"]["us"] == pytest.approx(1.4, abs=0.03)
    assert peers["olabs, 15 shards"]["20"] == pytest.approx(1e6 / 713_745, abs=0.005)
    told = {(row["name"], row["log"]): row["us"] for row in records(DATA["baselines"])}
    assert told["EnigMap", 18] == peers["EnigMap"]["18"] or told["EnigMap", 18] == 2282


def test_rows() -> None:
    """Every row has a plan within 80 % of the part."""
    grids = {part.title: part for part in bolt._rows() if isinstance(part, Grid)}
    for title in (
        "Artifact: µs an operation, one in flight",
        "Artifact: µs between results, many in flight",
    ):
        for _, printed, ours, ratio, _ in grids[title].rows:
            assert float(ours) / float(printed) == pytest.approx(float(ratio), rel=0.02)
    for *_, part in grids["Our plans"].rows:
        assert int(part.partition("%")[0]) <= 80


def test_served() -> None:
    found = bolt._map(1 << 12)
    assert isinstance(found, bolt.Served) and isinstance(found.design.plan, OmapConfig)
    assert (
        found.full < found.half < found.fetched
        and fullest(found.design.resources, found.design.target)[1] <= 0.8
    )
    assert found.single == pytest.approx(found.fetched, rel=0.1)
