"""Commands on kernels with rows: what runs, what is refused, what is said of rows that are left out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.load import from_text
from penstock.engines.base import Given
from penstock.engines.discovery import engine_named
from penstock.sweeps.points import Task
from testbench.command_line import reported, told

KERNEL = """kernel groups(g: index[n], x: input, many: model[n])
  many[g] += x
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.psk").write_text(KERNEL)
    bag = KERNEL.replace("index[n]", "index[n, 2]")
    Path("bags.psk").write_text(bag)
    Path("words.csv").write_text("g,x\nab,1\ncd,2\nab,3\n")
    Path("numbers.csv").write_text("g,x\n0,1\n5,2\n0,3\n,4\n")


def test_check_says_what_runs() -> None:
    said = told("check k.psk --data words.csv")
    assert "W496" not in said and "k.psk: the kernel groups is fine" in said
    assert "column g (2 categories: ab, cd)" in said and "n=2" in said
    assert "warning[W496]" in told("check bags.psk --data words.csv")
    assert "W496" not in told("check k.psk") + told(
        "check k.psk --data numbers.csv --dim n=6 --on-null skip"
    )
    said = told("check k.psk --data numbers.csv --dim n=3", 1)
    assert (
        "error[E848]: VALUE_INDEX: an index names a row that there is not: 5 is not one of 0 to 2"
        in said
    )
    assert "numbers.csv, row 2, column g" in said
    said = told("check k.psk --data numbers.csv", 1)
    assert "error[E814]: TUPLE_NULL" in said and "numbers.csv, row 4, column g" in said


@pytest.mark.parametrize(
    "line",
    [
        "model bags.psk --data words.csv",
        "simulate bags.psk --data words.csv",
        "simulate bags.psk --data words.csv --backend model",
        "compile bags.psk --data words.csv --out d",
        "export bags.psk --data words.csv --ip groups --out d",
        "build bags.psk --data words.csv --board ulx3s-85f --out d",
    ],
)
def test_what_there_is_no_hardware_for(line: str) -> None:
    said = told(line, 1)
    assert said.count("error[E496]") == 1 and "cycles" not in said and "LUT" not in said
    assert not Path("d").exists()


def test_golden_results() -> None:
    line = "simulate k.psk --backend golden --data"
    report = reported(f"{line} words.csv --on-unseen skip")
    assert report["result"] == {"many": [4, 2]} and report["errors"] == []
    assert report["counters"]["unseen_rows"] == 0
    whole = reported(f"{line} numbers.csv --dim n=6 --on-null skip")
    assert "resources" in whole and whole["result"] == {"many": [4, 0, 0, 0, 0, 2]}
    report = reported(f"{line} numbers.csv --dim n=3 --on-index skip --on-null skip")
    assert report["result"] == {"many": [4, 0, 0]}
    assert report["counters"]["index_rows"] == 1 and report["table"]["skipped"] == 2
    said = told(f"{line} numbers.csv --dim n=3 --on-index skip --on-null skip")
    assert "1 row: an index names no row" in said
    bags = reported(f"{line.replace('k.psk', 'bags.psk')} words.csv")
    assert not {"cycles", "resources", "seconds", "memory"} & set(bags)
    assert "clock_mhz" not in bags["design"]["config"]
    told(f"{line.replace('k.psk', 'bags.psk')} words.csv --report r.html")
    page = Path("r.html").read_text()
    assert "golden results alone" in page and "LUT" not in page and "MHz" not in page
    report = reported(f"{line} numbers.csv --categories g --on-null skip")
    assert report["result"] == {"many": [4, 2]}


def test_a_sweep_counts_what_the_table_has() -> None:
    """Sizes that only the table says are known before the first point."""
    kernel, engine = from_text(KERNEL), engine_named("analytics")
    given = engine.reads(kernel, Given(None, "words.csv"))
    given = replace(given, data=engine.open("words.csv", given))
    assert engine.sizes(kernel, given) == {"n": 2}
    assert Task(kernel, "analytics", given).digest()


def test_what_is_told_of_rows_in_memory() -> None:
    """The term that binds by its name, waits by cause, the row and the DRAM bank that are asked for most."""
    asked = np.r_[np.full(30, 3), np.arange(50), np.arange(100, 300)].astype(np.int32)
    np.savez("t.npz", g=asked, x=np.ones(len(asked), np.float32))
    line = "model k.psk --data t.npz --dim n=300 --place many=memory:16 --target u55c"
    line += " --format fixed:16,8"
    report = reported(f"{line} --memory hbm2")
    counts, cycles = report["counters"], report["cycles"]
    assert counts["hottest_row.many"] == 3 and counts["hottest_lookups.many"] == 31
    assert counts["rows_fetched"] == 250 and counts["row_lookups"] == 280
    assert counts["row_waits.lines"] > 0 and counts["row_waits.batches"] > 0
    assert 0 < counts["busiest_bank_rows"] <= 250 + counts["rows_written"]
    assert cycles["bound_by"] == "recurrence" and cycles["bound"] == 2 * 280
    said = re.sub(r"[\s│]+", " ", told(f"{line} --memory hbm2"))
    assert "hottest row 3, 31 times an epoch" in said and "busiest bank" in said
    assert (
        "560 by recurrence" in said and "lookups of rows 530" in said and "for a free line" in said
    )
    assert "busiest_bank" not in reported(line)["counters"]


def test_how_indices_of_assumed_rows_are_drawn() -> None:
    """Some rows come more often than others, so that more of those that are asked for are held."""
    line = "model k.psk --rows 4000 --dim n=2000 --target u55c --place many=memory:64"
    found = [told(f"{line} --indices {law}") for law in ("uniform", "zipf:0.99")]
    cycles = [re.findall(r" cycles +│ ([\d,]+)", said) for said in (found[0], told(line))]
    assert cycles[0] == cycles[1]
    held = [float(re.findall(r"([\d.]+)% of them held", said)[0]) for said in found]
    assert held[1] > 2 * held[0]
    for said, law in zip(found, ("uniform", "Zipf 0.99"), strict=True):
        assert f"indices drawn: {law}, seed 1" in " ".join(said.replace("│", " ").split())
    assert "it must be uniform or zipf:THETA" in told(f"{line} --indices zipf:-1", 1)
    said = told("model k.psk --data words.csv --indices uniform", 1)
    assert "error[E609]: indices: a table has its own" in said


@pytest.mark.parametrize("law", ["uniform", "zipf:0.99"])
def test_figures_of_drawn_indices_say_so_whatever_models_lie_in(law: str, tmp_path: Path) -> None:
    """Reports and JSON of the model and of a sweep name law and seed; those of a table's indices do not."""
    said, line = f"indices drawn: {law.replace('z', 'Z').replace(':', ' ')}, seed 1", "k.psk"
    line += f" --rows 400 --dim n=20 --target u55c --indices {law}"
    for place in ("chip", "memory:16"):
        report = told(f"model {line} --place many={place}")
        assert said in " ".join(report.replace("│", " ").split())
        assert reported(f"model {line} --place many={place}")["table"]["drawn"] == said
    swept = told(f"explore {line} --out {tmp_path / 'swept'} --jobs 1")
    assert said in " ".join(swept.replace("│", " ").split())
    points = json.loads((tmp_path / "swept" / "points.json").read_text())["points"]
    assert [point["drawn"] for point in points] == [said]
    assert "drawn" not in reported("model k.psk --data words.csv --target u55c")["table"]


@pytest.mark.parametrize("lanes, columns, most", [(8, 4, 4), (16, 8, 8), (128, 10, 16)])
def test_lanes_that_a_row_does_not_fill_are_named(lanes: int, columns: int, most: int) -> None:
    Path("sums.psk").write_text(
        "kernel f(g: index[n], y: output, E: model[n, d])\n  E[g] += sum(E[g]) - y\n"
    )
    line = f"model sums.psk --rows 100 --dim n=9 --dim d={columns} --target u55c --lanes"
    said = " ".join(told(f"{line} {lanes}", 1).split())
    assert f"no plan has {lanes} lanes: the shortest sum of 'f' fills {most}" in said
    assert "without --lanes it fits" in said and "larger target" not in said
    assert f"× {most} lanes" in told(f"{line} {most}")
    said = told("model k.psk --rows 100 --dim n=9 --target u55c --lanes 128", 1)
    assert "no plan has 128 lanes: 64 at most" in " ".join(said.split())
    said = " ".join(told("model k.psk --rows 100 --dim n=9 --target u55c --lanes 3", 1).split())
    assert "depends on lanes or threads, and ports take tuples in another order" in said


def test_the_table_says_what_an_index_counts() -> None:
    given = "--data numbers.csv --on-null skip --dim n=max"
    assert "n=6" in told(f"check k.psk {given}")
    Path("matrix.psk").write_text(
        "kernel f(g: index[n], x: input[d], E: model[n, d])\n  E[g] += x\n"
    )
    said = told("check matrix.psk --data numbers.csv --dim d=max", 1)
    assert "error[E504]: dimension d cannot have the size max" in said
    made = ps.compile("k.psk", table="numbers.csv", dims={"n": "max"}, on_null="skip")
    assert made.run("numbers.csv", backend="golden").result["many"].tolist() == [4, 0, 0, 0, 0, 2]


def test_sweeps_read_categories() -> None:
    found = ps.explore("k.psk", table="words.csv", target="u55c", dims={"n": "max"})
    assert found["status"].to_pylist() == ["fits"]
    rows = {"rows": 2000, "target": "u55c", "dims": {"n": 900}, "place": {"many": "memory:64"}}
    even, uneven = (ps.explore("k.psk", indices=law, **rows) for law in ("uniform", "zipf:0.99"))
    assert even["cycles"][0].as_py() > uneven["cycles"][0].as_py() > 0
