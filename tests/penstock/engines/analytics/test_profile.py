"""`penstock profile`: the rows of models that a table asks for, counted anew here."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

from penstock.dsl.core.load import from_text
from penstock.engines.analytics.profile import profiled
from penstock.host.sources import Table, open_table
from penstock.models.rows.integers import ABSENT
from testbench.command_line import done, reported, told

FACTORS = """kernel lrmf(u: index[m], i: index[n], r: output, P: model[m, k], Q: model[n, k])
  error = sum(P[u] * Q[i]) - r
  P[u] += error * Q[i]
  Q[i] += error * P[u]
  batch 8
"""
BAGS = """kernel bags(c: index[n, 4], y: output, E: model[n, k], h: model[16])
  E[c] += sum(E[c]) + sum(E[c // 2]) - y
  h[hash(c, 3) % 16] += 1
"""


def test_rows_in_the_order_in_which_they_are_asked_for() -> None:
    """All reads of a batch, then its changes; places that are left out are none."""
    rng = np.random.default_rng(1)
    c = rng.integers(0, 9, (21, 4))
    c[rng.random(c.shape) < 0.3] = ABSENT
    for batch in (1, 4, 21, 30):
        kernel = from_text(f"{BAGS}  batch {batch}\n")
        bags = [[i for i in bag if i != ABSENT] for bag in c.tolist()]
        table = open_table({"c": bags, "y": np.zeros(21)}, indices=("c",))
        found, _ = profiled(kernel, table, dims={"n": 9, "k": 2})
        rows: list[tuple[int, bool]] = []
        hashes: list[int] = []
        for first in range(0, 21, batch):
            for change in (False, True):
                for bag in c[first : first + batch].tolist():
                    there = [i for i in bag if i != ABSENT]
                    rows += [(i, change) for i in there]
                    rows += [(i // 2, change) for i in there if not change]
                    if change:
                        hashes += [murmurhash3_32(np.int64(i).tobytes(), 3) % 16 for i in there]
        # within a tuple, one use after the other
        asked = list(zip(found["E"].rows.tolist(), found["E"].changes.tolist(), strict=True))
        assert asked == rows
        assert found["h"].rows.tolist() == hashes and found["h"].changes.all()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lrmf.psk").write_text(FACTORS)
    (tmp_path / "bags.psk").write_text(BAGS)
    rng = np.random.default_rng(2)
    columns: dict[str, Any] = {
        "u": (rng.zipf(1.5, 400) % 200).astype(np.int32),
        "i": rng.integers(0, 30, 400).astype(np.int32),
        "r": rng.normal(size=400).astype(np.float32),
    }
    np.savez(tmp_path / "table.npz", **columns)
    return tmp_path


def test_command(folder: Path) -> None:
    shown = told("profile lrmf.psk --data table.npz --out hot.json --top 5")
    u = np.load(folder / "table.npz")["u"]
    assert f"of which {len(set(u.tolist()))} are asked for" in shown
    assert "800, of which 400 change the row" in shown and "model" in shown
    hot = json.loads((folder / "hot.json").read_text())["models"]["P"]
    counts = sorted(Counter(u.tolist()).items(), key=lambda item: (-item[1], item[0]))[:5]
    assert hot.pop("of") == u.max() + 1
    assert hot == {"rows": [n for n, _ in counts], "lookups": [2 * c for _, c in counts]}


@pytest.mark.parametrize("rows", [1, 2, 5, 40, 200, 3_000])
@pytest.mark.parametrize("lookups", [1, 3, 500])
def test_no_store_is_better_than_the_best(tmp_path: Path, rows: int, lookups: int) -> None:
    """Lines start empty for all, and there are no more of them than rows."""
    rng = np.random.default_rng(rows + lookups)
    (tmp_path / "few.psk").write_text("kernel few(i: index[n], E: model[n])\n  E[i] += 1\n")
    np.savez(tmp_path / "few.npz", i=(rng.zipf(1.2, lookups) % rows).astype(np.int32))
    shown = _plain(told(f"profile {tmp_path}/few.psk --data {tmp_path}/few.npz --dim n={rows}"))
    found = re.findall(r"([\d,]+) +([\d.]+)% +([\d.]+) +([\d.]+) +([\d.]+)", shown)
    assert found
    for lines, share, *hits in found:
        assert int(lines.replace(",", "")) <= rows and float(share) <= 100
        unit, fixed, best = map(float, hits)
        assert max(unit, fixed) <= best, found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("profile lrmf.psk", "a profile is that of a kernel's rows on a table"),
        ("profile lrmf.psk --data table.npz --dim n=7 --dim k=2", "names a row that there is not"),
        ("profile lrmf.psk --data table.npz --bind u=z", "has no column z"),
        ("profile lrmf.psk --data table.npz --bind u=r", "its type float4 is no integer"),
        ("profile lrmf.psk --data table.npz --bind u=u,i", "the column of that name feeds u"),
        ("profile lrmf.psk --data table.npz --dim q=7", "has no dimension q"),
        ("profile lrmf.psk --data table.npz --out no/hot.json", "no/hot.json"),
    ],
)
def test_mistakes(folder: Path, line: str, message: str) -> None:
    shown = told(line, 1)
    assert message in shown and shown.count("error[") == 1


def test_rows_that_are_left_out_are_not_asked_for(folder: Path) -> None:
    """With the options of a run, which its messages name; reports of runs count a NULL, too."""
    (folder / "few.psk").write_text("kernel few(i: index[n], x: input, E: model[n])\n  E[i] += x\n")
    (folder / "holes.csv").write_text("i,x\n0,1\n,2\n7,3\n2,\n2,4\n-1,5\n")
    line = "few.psk --data holes.csv --dim n=3"
    assert "hint: --on-null skip" in told(f"profile {line}", 1)
    assert "hint: --on-index skip" in told(f"profile {line} --on-null skip", 1)
    shown = told(f"profile {line} --on-null skip --on-index skip --out hot.json")
    assert "3, of which 2 are asked for" in shown
    assert json.loads((folder / "hot.json").read_text())["models"]["E"]["rows"] == [0, 2]
    shown = _plain(told(f"simulate {line} --backend golden --on-null skip --on-index skip"))
    assert "left out 2 rows: a column is NULL" in shown
    assert "left out 2 rows: an index names no row" in shown


def test_a_kernel_without_rows(folder: Path) -> None:
    (folder / "plain.psk").write_text("kernel plain(r: input, w: model)\n  w <- w + merge(r)\n")
    assert "plain reads and changes no rows" in told("profile plain.psk --data table.npz", 1)


def test_rows_that_are_chosen_by_values(folder: Path) -> None:
    text = "kernel near(r: input, C: model[k])\n  C[argmin((C - r) ** 2)] += r\n"
    (folder / "near.psk").write_text(text)
    assert "error[E497]" in told("profile near.psk --data table.npz --dim k=3", 1)


def test_fields_have_rows_of_their_own() -> None:
    """Several columns of one bag count one after the other; a bag may be longer."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 5, 50), rng.integers(0, 3, 50)
    a[0], b[0] = 4, 2
    table = Table.from_columns({"a": a, "b": b, "y": np.zeros(50, np.float32)}, "t")
    found, rows = profiled(from_text(BAGS), table, {"c": ("a", "b")})
    assert rows["E"] == 8
    counts = np.bincount(found["E"].rows[found["E"].changes], minlength=8)
    assert counts.tolist() == [*np.bincount(a, minlength=5), *np.bincount(b, minlength=3)]


def test_json(folder: Path) -> None:
    done("profile lrmf.psk --data table.npz --json r.json")
    assert json.loads((folder / "r.json").read_text())


HOT = "model lrmf.psk --data table.npz --dim n=30 --dim m=200 --dim k=2 --place P=memory:48 --target u55c"


def test_hot_rows(folder: Path) -> None:
    """What a profile names stays on the chip: fewer rows are moved, and the report says how many are held so."""
    sizes = "--dim n=30 --dim m=200 --dim k=2"
    told(f"profile lrmf.psk --data table.npz {sizes} --out hot.json")
    plain, pinned = reported(HOT)["counters"], reported(f"{HOT} --hot hot.json")["counters"]
    assert pinned["row_lookups"] == plain["row_lookups"] == 400
    for name in ("rows_fetched", "rows_written"):
        assert pinned[name] < plain[name]
    assert "48 of 200 rows held on chip, 32 of them hot ones" in _plain(
        told(f"{HOT} --hot hot.json")
    )
    # rows that are hot lie in memory; where all are held, none is hotter
    said = _plain(told(f"{HOT.replace('--place P=memory:48', '')} --hot hot.json"))
    assert "200 of 200 rows held on chip;" in said


def _plain(text: str) -> str:
    """Return a report without lines that are broken."""
    return re.sub(r"[\s│]+", " ", text)


def _changed(**models: Any) -> str:
    return json.dumps({"kernel": "lrmf", "models": models})


PROFILE = {"of": 200, "rows": [3, 5], "lookups": [7, 2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file bad.json"),
        (_changed(P=PROFILE)[:40], "bad.json is not a profile: line 1, column "),
        ("[]", "bad.json is no profile"),
        (_changed(P={"rows": ["a"]}), "bad.json is no profile"),
        (_changed(P={**PROFILE, "of": None}), "bad.json is no profile"),
        (json.dumps({"kernel": "other", "models": {}}), "of the kernel other, not of lrmf"),
        (_changed(P={**PROFILE, "of": 90}), "of a table with 90 rows of P, and there are 200"),
        (_changed(P={**PROFILE, "rows": [3, 200]}), "P has rows 0 to 199, not 200"),
        (_changed(P={**PROFILE, "rows": [3, -1]}), "P has rows 0 to 199, not -1"),
        (_changed(R=PROFILE), "lrmf has no model R"),
    ],
)
def test_bad_profiles(folder: Path, text: str | None, message: str) -> None:
    if text is not None:
        (folder / "bad.json").write_text(text)
    said = told(f"{HOT} --hot bad.json", 1)
    assert message in said and said.count("error[") == 1 and "error[E498]" in said
