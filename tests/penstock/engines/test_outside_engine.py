"""An engine of another distribution, installed beside Penstock through entry points: all commands
work for it, and no file of Penstock names it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbench.outside import KERNEL, commands, installed
from testbench.reported import check_report

ROOT = Path(__file__).resolve().parents[3]
WORDS = [5, 7, 1 << 63, 11, 13, 17]


Penstock = Callable[..., tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of an environment in which the distribution is installed."""
    return installed(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def commanded(site: dict[str, str]) -> Iterator[Callable[..., Any]]:
    with commands(site) as run:
        yield run


@pytest.fixture
def penstock(
    commanded: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Penstock:
    """Runs a command there, in an empty folder; returns what it printed and its report."""
    monkeypatch.chdir(tmp_path)
    Path("sums.py").write_text(KERNEL)
    Path("sums.psk").write_text("tally sums(x: words[n])\n  y <- total(x)\n")

    def penstock(*arguments: str, code: int = 0) -> tuple[str, dict[str, Any]]:
        report = Path("report.json")
        report.unlink(missing_ok=True)
        reports = arguments[0] in ("check", "compile", "model", "simulate", "build")
        ended, *said = commanded(*arguments, *(("--json", str(report)) if reports else ()))
        assert ended == code, said
        return "".join(said), check_report(json.loads(report.read_text())) if reports else {}

    return penstock


def data(words: list[int]) -> tuple[str, str]:
    return "--data", f"numbers:{','.join(map(str, words))}"


def expected(words: list[int], gain: int = 3) -> list[float]:
    return [float(gain * sum(words) % (1 << 64))]


def test_check_compile_and_load(penstock: Penstock, site: dict[str, str]) -> None:
    said, _ = penstock("check", "sums.py")
    assert "the tally kernel sums is fine" in said
    penstock("check", "sums.psk")
    for _ in range(2):  # the second one replaces the first
        penstock("compile", "sums.py", "--out", "made")
    manifest = json.loads(Path("made/manifest.json").read_text())
    assert manifest["engine"] == "tally" and manifest["gain"] == 3
    assert [entry["name"] for entry in manifest["register_map"]["errors"]] == ["TALLY_FORBIDDEN"]
    penstock("compile", "sums.py", "--memory", "ddr4-2400", "--out", "dram")
    script = """
import penstock as ps, numpy as np
design = ps.load("made")
run = design.run(np.array([1, 2, 3, 4], dtype=np.uint64))
assert design.run("numbers:1,2,3,4").result == run.result
print(repr(design).count("\\n"), run.result["total"], ps.load("dram").run("numbers:1,2", backend="model").cycles > 0)
"""
    command = [sys.executable, "-c", script]
    assert subprocess.check_output(command, env=os.environ | site, text=True) == "0 [30.] True\n"


def test_model(penstock: Penstock) -> None:
    _, report = penstock("model", "sums.py", "--rows", "100")
    assert report["cycles"]["bound"] == 100 < report["cycles"]["model"]


@pytest.mark.parametrize("backend", ["rtl", "pysim"])
def test_simulate(backend: str, penstock: Penstock) -> None:
    how = ("simulate", "sums.py", "--backend", backend)
    _, report = penstock(*how, *data(WORDS))
    assert report["bit_exact"] and report["cycles"]["rtl"] == report["cycles"]["model"]
    assert report["result"]["total"] == expected(WORDS)
    _, report = penstock(*how, *data(WORDS), "--memory", "latency=7,bytes=3")
    assert report["bit_exact"] and report["cycles"]["rtl"] == report["cycles"]["model"]


@pytest.mark.parametrize("backend", ["rtl", pytest.param("pysim", marks=pytest.mark.long)])
def test_a_word_altered_during_the_run(backend: str, penstock: Penstock) -> None:
    altered = expected([*WORDS[:3], 12345, *WORDS[4:]])
    how = ("simulate", "sums.py", "--backend", backend, *data(WORDS))
    seen = set()
    # the cycles around the one in which word 3 is read
    for cycle in (0, 24, 25, 26, 27, 60):
        _, report = penstock(*how, "--fault", str(cycle))
        assert report["bit_exact"], (cycle, report)
        seen.add(report["result"]["total"][0])
    assert seen == {altered[0], expected(WORDS)[0]}


def test_an_error_of_its_own(penstock: Penstock) -> None:
    words = [*WORDS[:2], (1 << 64) - 1, *WORDS]
    for backend in ("rtl", "pysim", "golden"):
        said, report = penstock("simulate", "sums.py", "--backend", backend, *data(words), code=1)
        assert "TALLY_FORBIDDEN: a word is the forbidden one" in said
        assert "leave all-ones words out" in said
        assert [(e["code"], e["block"]) for e in report["errors"]] == [("TALLY_FORBIDDEN", 2)]
    said, _ = penstock("explain", "TALLY_FORBIDDEN")
    assert said.startswith("# E703")


def test_a_whole_device(penstock: Penstock) -> None:
    how = ("simulate", "sums.py", "--backend", "board", "--target", "ulx3s-25f")
    said, report = penstock(*how, *data(WORDS))
    assert report["bit_exact"] and report["result"]["total"] == expected(WORDS)
    assert "not compared" in said and "writes" in said


def test_build_a_project(penstock: Penstock) -> None:
    penstock("build", "sums.py", "--board", "arty-a7-100t", "--out", "project")
    assert any(Path("project").iterdir())


def test_a_port_wider_than_the_boards_memory(penstock: Penstock) -> None:
    said, _ = penstock("build", "sums.py", "--board", "icebreaker", "--out", "made", code=1)
    assert "does not fit on icebreaker: placed, it needs 131,072 bytes of SPRAM for words" in said
    assert not Path("made").exists()


@pytest.mark.long
def test_build(penstock: Penstock) -> None:
    """Two minutes of placement."""
    _, report = penstock(
        "build", "sums.py", "--board", "ulx3s-12f", "--out", "made", "--report", "b.html"
    )
    assert report["resources"]["source"] == "placed" and "<svg" in Path("b.html").read_text()


def test_report(penstock: Penstock) -> None:
    how = ("simulate", "sums.py", "--backend", "pysim", *data(WORDS), "--report", "r.html")
    penstock(*how)
    page = Path("r.html").read_text()
    assert "<svg" in page and "sums" in page and "bit for bit" in page


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ("", "0 words cannot be summed"),
        ("1,x", "these numbers are no words"),
        ("-1", "these numbers are no words"),
        (str(1 << 64), "these numbers are no words"),
    ],
)
def test_words_that_are_none(numbers: str, said: str, penstock: Penstock) -> None:
    how = ("simulate", "sums.py", "--backend", "golden", "--data", f"numbers:{numbers}")
    shown, report = penstock(*how, code=1)
    assert [(e["code"], e["message"]) for e in report["errors"]] == [("E701", said)]
    assert shown.count("error[") == 1 and "hint: " in shown


def test_a_dram(penstock: Penstock) -> None:
    how = ("simulate", "sums.py", "--backend", "pysim", "--memory", "ddr4-2400")
    _, report = penstock(*how, *data(WORDS))
    assert report["bit_exact"] and report["cycles"]["rtl"] == report["cycles"]["model"]
    assert report["result"]["total"] == expected(WORDS)


def test_options_of_other_engines(penstock: Penstock) -> None:
    said, _ = penstock("model", "sums.py", "--rows", "9", "--epochs", "2", code=1)
    assert "--epochs is not for the engine tally" in said
    said, _ = penstock("simulate", str(ROOT / "examples" / "logistic.py"), "--fault", "3", code=1)
    assert "--fault is not for the engine analytics" in said


def test_no_file_of_penstock_names_it() -> None:
    folders = [ROOT / name for name in ("src", "boards", "dsl", "hdl", "host", "models", "sim")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert files and not [path for path in files if "tally" in path.read_text().lower()]
