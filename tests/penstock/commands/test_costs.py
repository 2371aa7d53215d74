"""What commands print of a run from disk to result: the streams by hand, energy, peers, the verdict; what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.api import compile, load_kernel
from penstock.cli.main import run
from penstock.engines.base import Given

EXAMPLES = Path(__file__).parents[3] / "examples"
MODEL = ["model", str(EXAMPLES / "logistic.py"), "--dim", "d=6", "-q", "--json", "r.json"]


def reported(*words: str) -> dict[str, Any]:
    assert run([*MODEL, *words]) == 0
    return json.loads(Path("r.json").read_text())


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_streams_of_a_run() -> None:
    """A table at 8 Gbit/s with 10 µs before the first byte, in chunks of 1 MiB, each of a burst of its own."""
    words = ("--rows", "300000", "--target", "u55c", "--link", "gbps=8,latency=10us")
    warm, cold = reported(*words), reported(*words, "--disk", "gbps=4,latency=1ms")
    found, cycles = warm["seconds"], warm["cycles"]["model"]
    pages = warm["table"]["pages"] * 8192
    assert found["engine"] == pytest.approx(cycles / 250e6, rel=1e-12)
    # the image that starts a run goes over the link, too: some hundred bytes
    assert pages / 1e9 < found["link"] < (pages + 4096) / 1e9 + 10e-6 * (pages / 2**20 + 2)
    assert found["total"] == pytest.approx(
        found["link"] + found["engine"] + found["results"], rel=1e-9
    )
    assert "disk" not in found and found["clock_evidence"] == "assumed"
    assert cold["seconds"]["disk"] > 2 * pages / 1e9 and cold["seconds"]["total"] > found["total"]
    energy = warm["energy"]
    assert 0 < energy["joules"] < energy["ceiling"] and "estimate" in energy["source"]


@pytest.mark.parametrize(
    ("target", "said"), [("ulx3s-85f-sdram", "without turns of rows"), ("u55c", "exact at")]
)
def test_what_the_cycles_leave_out(
    target: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows in memory take turns with pages at a board's one port, which the engine's cycles do not have."""
    sizes = "--dim m=900 --dim n=900 --dim k=8 --format fixed:8,8 --rows 500 --place P=memory"
    assert run(["model", f"{EXAMPLES}/lrmf.psk", *sizes.split(), "--target", target]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert said in text[text.index("engine ", text.index("link ")) :].partition("results")[0]


@pytest.mark.parametrize(
    ("kernel", "given"),
    [
        ("closed_form.py", {"rows": 300, "options": {"refits": 2, "new": 40, "gone": 30}}),
        ("rank_model.py:slots", {"rows": 300}),
        ("retnet.py", {"options": {"tokens": 2}}),
    ],
)
def test_what_the_link_brings_back_is_what_the_engine_wrote(
    kernel: str, given: dict[str, Any]
) -> None:
    dims = {"dims": {"d": 5}} if kernel == "closed_form.py" else {}
    design = compile(load_kernel(EXAMPLES / kernel), "kcu105", **dims)
    work = design.workload(Given(**given))
    there, back = work.moved()
    assert 0 < back == work.model(design.memory).bytes_written
    assert 0 < there <= work.memory_bytes() * (1 + given.get("options", {}).get("refits", 4))


def test_a_target_without_link_memory_or_watts_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    part = 'part = "xcku040"\nclock = { mhz = 9, evidence = "assumed", source = "none" }'
    Path("bare.toml").write_text(f'[target]\nname = "bare"\n{part}\n')
    assert run([*MODEL[:4], "--rows", "1000000", "--target", "bare.toml"]) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert re.search(r"link [\d,]+ bytes, not counted: the target has no link \(--link\)", said)
    assert re.search(r"memory [\d,]+ bytes; the target does not say how many it has", said)
    found = reported("--rows", "1000")
    assert set(found["seconds"]) == {"engine", "total", "clock_mhz", "clock_evidence"}
    assert "joules" not in found["energy"] and "watts are not known" in found["energy"]["source"]


def test_peers_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    found = reported("--data", "random:rows=3000", "--beside", "cpu", "--cpu-watts", "50")
    names = {peer["name"] for peer in found["beside"]}
    assert all(peer["joules"] > 0 and peer["watts"] == 50 for peer in found["beside"])
    assert names - {"scikit-learn's LogisticRegression"} == {"C", "NumPy"}
    best = min(peer["seconds"] for peer in found["beside"] if peer.get("reached") is not False)
    ratio = best / found["seconds"]["total"]
    judged = "not said: the target has no link" if ratio >= 1.5 else "no:"
    assert found["verdict"].startswith(f"worth it: {judged}")
    assert run([*MODEL[:4], "--data", "random:rows=3000", "--no-striders"]) == 0
    assert re.search(r"host .*estimated", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rows", "10", "--link", "pigeon"], "error[E604]: there is no link 'pigeon'"),
        (["--rows", "10", "--disk", "gbps=0"], "error[E604]: gbps must be a number above 0"),
        (["--rows", "10", "--link", "none"], "error[E604]: there is no link 'none'"),
        (["--rows", "10", "--disk", "gbps=-1"], "gbps must be a number above 0, not '-1'"),
        (["--rows", "10", "--worth", "nan"], "it must be a number, x>=1, not 'nan'"),
        (["--rows", "10", "--cpu-watts", "inf"], "it must be a number, x>0, not 'inf'"),
        (["--rows", "10", "--fill", "nan"], "it must be a number, 0.01<=x<=1.0, not 'nan'"),
        (["--rows", "10", "--beside", "cpu"], "has no peers of this run"),
        (
            ["--rows", "10", "--no-striders"],
            "--no-striders is for a kernel that reads the pages of a table, which --data gives",
        ),
    ],
)
def test_what_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is printed, but for peers, which need the run."""
    assert run([*MODEL[:4], *words]) == 1
    out, err = capsys.readouterr()
    assert said in err and err.count("error[") == 1 and "hint: " in err
    assert not out or "--beside" in words


def test_a_map_whose_ports_carry_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """Its link is in its cycles already: nothing else is loaded, from a disk neither."""
    Path("m.psk").write_text("map m(key: u64, value: bytes[8])\n  capacity = 2**10\n")
    words = ["model", "m.psk", "--ops", "5", "--json", "r.json"]
    assert run(words) == 0
    found = json.loads(Path("r.json").read_text())["seconds"]
    assert found["total"] == found["engine"] and not {"link", "results"} & found.keys()
    capsys.readouterr()
    assert run([*words, "--disk", "gbps=1"]) == 1
    said = capsys.readouterr().err
    assert "error[E902]: --disk gbps=1: a run of the engine omap reads no table" in said


def test_the_costs_stand_in_a_report() -> None:
    words = "--data random:rows=3000 --target u55c --disk gbps=4 --beside cpu --cpu-watts 9"
    found = reported(*words.split(), "--worth", "2", "--report", "r.html")
    page = Path("r.html").read_text()
    title = '<th colspan="2" scope="rowgroup">from disk to result</th>'
    _, there, costs = page.partition(title)
    rows = re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td>', costs)
    names = [name for name, _ in rows]
    streams = ["disk", "link", "engine", "results", "total", "energy", "carbon"]
    assert there and names == [*streams, *["beside"] * len(found["beside"]), "verdict"]
    said = dict(rows)
    assert re.match(r"[\d.]+ [mµ]?g CO2, estimated", said["carbon"])
    assert said["verdict"] == found["verdict"] and "exact at 250 MHz (assumed)" in said["engine"]
