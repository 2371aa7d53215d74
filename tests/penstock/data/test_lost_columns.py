"""Columns of which a number format leaves nothing are counted and warned of, whatever they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pytest
from pyarrow import parquet

import penstock as ps
from penstock.cli.main import run
from penstock.dsl.core.load import from_text
from penstock.host.sources import Table
from penstock.models.numerics.formats import parse_format
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.layout import Source, TupleLayout
from penstock.models.strider.lost import lost
from penstock.models.strider.table import walk_table

KERNEL = """kernel f(tiny: input, id: input, plain: input, same: input, y: output, w: model)
  w <- w - 0.125 * (w * tiny + id + plain + same - y)
"""
DATA: dict[str, Any] = {
    "tiny": np.arange(1, 9) * 1e-40,
    "id": np.arange(2**53 - 3, 2**53 + 5),
    "plain": np.arange(8) / 4,
    "same": np.full(8, 1e-40),
    "y": np.arange(8) % 2,
}
LOST = {"lost_columns": 2, "lost_columns.tiny": 1, "lost_columns.id": 1}
SOURCES = ("csv", "npz", "parquet", "dict", "pandas", "arrow", "buffers", "files", "rows", "query")


def opened(kind: str, folder: Path, request: pytest.FixtureRequest) -> Any:
    frame = pd.DataFrame(DATA)
    path = folder / f"t.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "npz":
        np.savez(path, **DATA)
    elif kind == "parquet":
        parquet.write_table(pa.table(DATA), path)
    else:
        held = {"dict": DATA, "pandas": frame, "arrow": pa.table(DATA)}
        return held[kind] if kind in held else server(kind, request.getfixturevalue("postgres"))
    return str(path)


def server(kind: str, address: str) -> Table:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SET client_min_messages = error; DROP TABLE IF EXISTS lost; CREATE EXTENSION IF NOT EXISTS pageinspect; "
            "CREATE TABLE lost (tiny float8, id int8, plain float4, same float8, y float4)"
        )
        with connection.cursor() as cursor:
            rows = list(zip(*(v.tolist() for v in DATA.values()), strict=True))
            cursor.executemany("INSERT INTO lost VALUES (%s, %s, %s, %s, %s)", rows)
        if kind == "files":
            connection.execute("DROP EXTENSION pageinspect")
    what = "query=SELECT * FROM lost" if kind == "query" else "table=lost"
    return ps.open_table(f"{address}&{what}", pages=False if kind == "rows" else None)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_column_that_becomes_one_number(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = opened(kind, tmp_path, request)
    counters = (
        ps.compile(from_text(KERNEL), "small", source, "float32").run(source, "golden").counters
    )
    assert {k: v for k, v in counters.items() if k.startswith("lost")} == LOST


def test_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.psk").write_text(KERNEL)
    pd.DataFrame(DATA).to_csv("t.csv", index=False)
    command = ["simulate", "f.psk", "--data", "t.csv", "--backend", "golden", "--json", "r.json"]
    assert run([*command, "--format", "float32"]) == 0
    assert "tiny, id: values differ in the table, but are all equal in the format" in " ".join(
        capsys.readouterr().out.replace("│", " ").split()
    )
    assert json.loads(Path("r.json").read_text())["counters"].items() >= LOST.items()


@pytest.mark.parametrize("seed", range(40))
def test_random_columns(seed: int) -> None:
    """As NumPy says of the same rows; some rows are left out, and some pages are not alike."""
    rng = np.random.default_rng(seed)
    name = ("float16", "fixed:8,8", "float32")[seed % 3]
    count, unit = int(rng.integers(2, 3000)), {"float32": 1e-46}.get(name, 1e-9)
    x = rng.integers(0, rng.choice([1, 2, 5], 6), (count, 6)) * rng.choice([unit, 1.0, -unit], 6)
    gone = rng.random(count) < rng.choice([0, 0.01, 0.9])
    gone[0] = False
    data = {f"c{k}": np.ma.masked_array(x[:, k], gone & (k == 2)) for k in range(6)}
    data["x"], data["y"] = x, np.zeros(count)
    table, fmt = Table.from_columns(data | {"x": x}, page_size=1024), parse_format(name)
    sources = (*(Source(k, 0, 1, k) for k in range(6)), Source(6, 0, 6, 6))
    walk = WalkConfig(table.schema, TupleLayout(1, 12, (), sources, "skip"), fmt)
    codes = [walk_table(part, walk)[0] for part in (table.pages[::2], table.pages[1::2])]
    kept = x[~gone]
    encoded = fmt.encode(kept)
    wanted = {k for k in range(6) if len(set(kept[:, k])) > 1 and len(set(encoded[:, k])) == 1}
    found = lost(walk, table.pages, codes)
    assert found == (*(f"c{k}" for k in sorted(wanted)), *(f"x[{k + 1}]" for k in sorted(wanted)))


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_zeros_of_both_signs_are_one_value(name: str) -> None:
    x = np.r_[1e-45, -2e-45, np.full(98, 3e-45)] / 1e3
    signs = np.r_[-0.0, np.zeros(99)]  # nothing of these is lost
    data = {"x": x, "a": np.stack([np.arange(100.0), x, signs], 1), "z": signs, "y": np.arange(100)}
    kernel = """kernel f(x: input, a: input[3], z: input, y: output, w: model)
  w <- w - 0.125 * (w * x + sum(a) + z - y)
"""
    made = ps.compile(from_text(kernel), "small", data, name).run(data, "golden").counters
    assert {k for k in made if k.startswith("lost_columns.")} == {
        "lost_columns.x",
        "lost_columns.a[2]",
    }
