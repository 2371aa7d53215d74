"""Real bitstreams, each from one command, with --long: small ones, and every open board's, which is built in two processes at once that
share no cache, folder or hash seed, and both must give the same bytes. On every run tests/sim/test_bitstream.py has the tools place small parts, and
test_seeds.py has the command with tools that take no time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.boards.catalogue import boards
from testbench import outside

pytestmark = pytest.mark.long
EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = """kernel small(x: input[2], y: output, w: model[2], rate: meta = 0.25)
  step = merge((sum(w * x) - y) * x, 4)
  w    <- w - rate * step
"""
TEXTS = {"small.psk": SMALL, "sums.py": outside.KERNEL}


@dataclass(frozen=True)
class Case:
    """One build: `kernel` a file of examples, or a text here by its name; further words of the command line."""

    board: str
    kernel: str
    words: tuple[str, ...]


#: the smallest devices of the families that the open tools know well
SMALLEST = [
    Case("hx8k-evn", "sums.py", ()),
    Case("ulx3s-12f", "small.psk", ("--format", "fixed:4,4")),
    Case("hx8k-evn", "small.psk", ("--format", "fixed:4,4", "--bind", "x=a,b", "--bind", "y=c")),
]
#: every open board, with the clock that the plan chooses
ALL = [
    Case(board, "logistic.py", ("--dim", "d=4", "--format", "fixed:8,8"))
    for board in (
        "ulx3s-12f",
        "ulx3s-25f",
        "ulx3s-45f",
        "ulx3s-85f",
        "orangecrab-r0.2",
        "colorlight-i5",
        "ecpix5-85f",
        "ecp5-evn",
        "tang-nano-9k",
        "crosslink-nx-evn",
    )
]
ALL += [
    Case(
        board,
        "logistic.py",
        ("--dim", "d=2", "--bind", "x=a,b", "--bind", "y=y", "--format", "fixed:4,6"),
    )
    for board in ("icebreaker", "hx8k-evn")
]


def _build(case: Case, folder: Path, times: int) -> dict:
    """Build in so many processes at once; return the manifest after comparing all that was written."""
    processes, numbers = [], range(1, times + 1)
    for number in numbers:
        place = folder / f"place{number}"
        place.mkdir()
        source = EXAMPLES / case.kernel
        if case.kernel in TEXTS:
            source = place / case.kernel
            source.write_text(TEXTS[case.kernel])
        environment = {
            **os.environ,
            **outside.installed(place / "site"),
            "PENSTOCK_CACHE": str(place / "cache"),
            "PYTHONHASHSEED": str(number),
        }
        code = "import sys; from penstock.cli.main import main; sys.exit(main())"
        processes.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    code,
                    "build",
                    str(source),
                    "--board",
                    case.board,
                    "--out",
                    "out",
                    "-q",
                    *case.words,
                ],
                cwd=place,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * times, said
    written = [
        {path.name: path.read_bytes() for path in (folder / f"place{number}" / "out").iterdir()}
        for number in numbers
    ]
    assert all(files == written[0] for files in written)
    manifests = [json.loads(files["manifest.json"]) for files in written]
    for files, manifest in zip(written, manifests, strict=True):
        build = manifest["build"]
        assert build["sha256"] == {
            name: hashlib.sha256(files[name]).hexdigest() for name in build["sha256"]
        }
        assert build["fmax_mhz"] >= build["clock_mhz"] == manifest["board"]["clock_mhz"]
        assert (
            build["tools"]
            and all(re.match(r"\d+\.\d+", version) for version in build["tools"].values())
            and build["seed"] == 1
        )
        text = files["manifest.json"].decode()
        assert str(folder) not in text and "/tmp" not in text and str(Path.home()) not in text
    return manifests[0]


def _check(case: Case, folder: Path, times: int) -> None:
    manifest = _build(case, folder, times)
    placed, expected = manifest["build"]["resources"], manifest["estimate"]
    if boards()[case.board].family == "ecp5":
        assert (expected["dsp"], expected["bram"]) == (placed["dsp"], placed["bram"])
        assert abs(expected["lut"] / placed["lut"] - 1) < 0.15


@pytest.mark.parametrize("case", SMALLEST, ids=lambda case: f"{case.kernel}-{case.board}")
def test_small(case: Case, tmp_path: Path) -> None:
    _check(case, tmp_path, 1)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.board)
def test_board(case: Case, tmp_path: Path) -> None:
    _check(case, tmp_path, 2)
