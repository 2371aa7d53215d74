"""DAnA: its figures as we hold them agree with what its text says of them, and ours stand beside them."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from penstock.dsl.analytics import interp
from penstock.dsl.core.load import from_text
from penstock.engines.analytics import dana, equal_loss
from penstock.models.derating import fullest
from penstock.report.papers import Cell, beside, figures, geomean, number, records
from penstock.report.parts import Chart, Grid

DATA = figures("penstock.engines.analytics", "dana")
WORK = {w["name"]: w for w in dana.workloads()}
#: table 5 as it is printed: MADlib on PostgreSQL, on Greenplum, DAnA
TABLE_5 = """
RS LR|3.6s|1.1s|0.10s   WLAN|14.0s|14.0s|0.61s   RS SVM|1.7s|0.6s|0.09s   Netflix|62.3s|69.2s|7.89s   Patient|2.8s|0.9s|1.18s
Blog|1.6s|0.5s|0.34s   S/N LR|54m52s|49m53s|2m11s   S/N SVM|56m26s|12m50s|4m04s   S/N LRMF|23s|3s|2s   S/N linear|29m07s|24m16s|5m35s
S/E LR|66h45m|8h30m|11m24s   S/E SVM|6m00s|5m24s|1m12s   S/E LRMF|54m36s|26m24s|39m00s   S/E linear|6h36m36s|5h22m12s|16m48s
"""


def seconds(text: str) -> float:
    return sum(
        float(n) * {"h": 3600, "m": 60, "s": 1}[u] for n, u in re.findall(r"([\d.]+)([hms])", text)
    )


def test_table_5() -> None:
    rows = [row.split("|") for line in TABLE_5.strip().splitlines() for row in line.split("   ")]
    assert [row[0].strip() for row in rows] == list(WORK)
    for name, *times in rows:
        w = WORK[name.strip()]
        assert [w["madlib"], w["greenplum"], w["dana"]] == [seconds(text) for text in times]
        assert w["madlib"] / w["greenplum"] == pytest.approx(w["gp_warm"], rel=0.07), name


def test_what_does_not_agree_is_marked() -> None:
    """Where table 5 and the figures differ by more than 1.4 ×, the paper's row is named."""
    off = {
        n
        for n, w in WORK.items()
        if abs(math.log(w["madlib"] / w["dana"] / w["warm"])) > math.log(1.4)
    }
    assert off == {"Patient", "Blog", "S/N SVM", "S/N LRMF", "S/N linear"}
    assert all(name in DATA["marked"]["table 5"] for name in off)


def test_means() -> None:
    for mean in records(DATA["means"]):
        if mean["group"] == "all" and mean["column"] in ("slow", "fast"):
            own = [w for w in WORK.values() if w["group"] == "public"]  # as is marked
        else:
            own = [w for w in WORK.values() if mean["group"] in ("all", w["group"])]
        assert geomean(w[mean["column"]] for w in own) == pytest.approx(
            mean["printed"], abs=0.05, rel=0.012
        ), mean
    printed = {(m["group"], m["column"]): m["printed"] for m in records(DATA["means"])}
    for group, (warm, cold) in DATA["greenplum"].items():
        for said, column in ((warm, "warm"), (cold, "cold")):
            assert printed[group, column] / printed[group, f"gp_{column}"] == pytest.approx(
                said, rel=0.03
            )
    *cells, mean = records(DATA["segments"])
    for head in DATA["segments"]["head"][1:]:
        assert geomean(cell[head] for cell in cells) == pytest.approx(mean[head], rel=0.03)


def test_libraries_are_those_of_the_figures() -> None:
    for line in records(DATA["libraries"]):
        w = WORK[line["name"]]
        assert line["DAnA"][1] == w["warm"]
        assert line["Greenplum"][1] == pytest.approx(w["gp_warm"], abs=0.11)


@pytest.mark.parametrize(
    "names", [("Patient",), pytest.param(("Patient", "Netflix"), marks=pytest.mark.long)]
)
def test_quick_report(names: tuple[str, ...]) -> None:
    """Cells are filled, and their ratio is ours ÷ printed; of factors of ratings with a tuple for each place of the paper's dense rows."""
    parts = list(dana.tables(names))
    grids = {part.title: part for part in parts if isinstance(part, Grid)}
    charts = {part.title: part.data for part in parts if isinstance(part, Chart)}
    assert [*charts["Figure 14, bandwidth"]["series"]] == ["a quarter of it", "four times"]
    for grid in grids.values():
        heads = [column.name for column in grid.columns]
        if "ratio" not in heads or grid.title.startswith(("Figure 14", "Geometric")):
            continue
        for row in grid.rows:
            printed, ours, ratio = (
                row[heads.index(h)].replace(",", "") for h in ("printed", "ours", "ratio")
            )
            if grid.title == "Figure 12: × over one thread, Netflix":
                assert (ours == "1.00") == (row[0] == "1")
            elif "– " not in (ours, printed) and "needs" not in row[-1] and printed != "–":
                assert float(ours) / float(printed) == pytest.approx(float(ratio), rel=0.02), row
    assert grids["Table 3: pages of 32 KB"].rows[-1][2] == "2,675"
    widths = grids["Figure 14: time at the baseline ÷ time at another bandwidth"]
    slow, *_, fast = widths.rows[-1][2:9]
    assert (slow, fast) == ("0.250", "3.98")  # 4 × is no width that a port does not have
    made = dana.epoch("linear", 384, 53_500)
    assert (
        isinstance(made, dana.Epoch)
        and fullest(made.design.resources, made.design.target)[1] <= 0.8
    )
    warm, cold = made.seconds(), made.seconds(disk=True)
    assert warm.total > warm.engine + warm.link and cold.total > warm.total and cold.binds == "disk"


@pytest.mark.parametrize("kernel", ["logistic", "svm", "linear"])
def test_peers(kernel: str) -> None:
    """Raw pages are the table's rows; NumPy on them makes our updates; MADlib's way loses no more."""
    table = equal_loss.random_table(dana.schema(kernel, 21), 21, 777, kernel)
    columns, rows = table.columns(), equal_loss.rows_of(table, 21)
    order = np.lexsort(rows.T)
    kept = np.column_stack([columns["x"], columns["y"]]).astype(np.float32)
    assert np.array_equal(rows[order], kept[np.lexsort(kept.T)])
    graph = from_text(dana.text(kernel, 64)).trace({"d": 21})
    w = interp.run(graph, {"x": rows[:, :-1]}, {"y": rows[:, -1]}, 3).models["w"]
    assert np.allclose(equal_loss._batches(kernel, rows, 64, 3), w, atol=1e-4)
    if kernel != "svm":
        goal = equal_loss._loss(kernel, rows, w)
        assert equal_loss._loss(kernel, rows, equal_loss._exact(kernel, rows, goal)) <= goal
    names = {m.name for m in equal_loss.measured(graph, kernel, table, 21, 64, 3)}
    assert {"C", "C, from pages", "NumPy, from pages"} <= names


def test_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs where they are asked for alone."""
    for name in ("_striders", "_equal_loss"):
        monkeypatch.setattr(dana, name, lambda chosen, name=name: iter([name]))
    assert [*dana.measured()] == ["_striders"]
    assert [*dana.measured(cpu=True)] == ["_striders", "_equal_loss"]


def test_cells() -> None:
    assert [number(v) for v in (None, 0, 0.0123456, 12.3456, 123456.7)] == [
        "–",
        "0",
        "0.0123",
        "12.3",
        "123,457",
    ]
    grid = beside("t", "name", [Cell("a", 2.0, 5.0, "why"), Cell("b", None, 1.0)])
    assert grid.rows == (("a", "2.00", "5.00", "2.50", "why"), ("b", "–", "1.00", "–", ""))
