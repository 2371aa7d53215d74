"""Bitstreams of the logistic example for every open board, each by the command that a user types, and the table of docs/howto/boards.md.

A build takes minutes. `--boards` names some of them; `--seeds` placements each; `--write` puts the rows into the page, in the place of those of the same
boards; a board whose build fails is named with its diagnostic, and keeps its row.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from common import EXAMPLES, ROOT, markdown

FIXED, FLOAT = ("--dim", "d=4", "--format", "fixed:8,8"), ("--dim", "d=4", "--format", "float32")
PLAIN = ("--dim", "d=2", "--bind", "x=a,b", "--bind", "y=y", "--format", "fixed:4,6")
#: what suits each board's size
CASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ulx3s-12f", FIXED),
    ("ulx3s-25f", FIXED),
    ("ulx3s-45f", ("--dim", "d=8", "--format", "bfloat16")),
    ("ulx3s-85f", FIXED),
    ("ulx3s-85f", FLOAT),
    ("ulx3s-25f-sdram", FIXED),
    ("ulx3s-85f-sdram", FIXED),
    ("orangecrab-r0.2", FIXED),
    ("colorlight-i5", FIXED),
    ("colorlight-i5", (*FIXED, "--link", "udp", "--ip-address", "192.168.1.50")),
    ("colorlight-i5-sdram", FIXED),
    ("ecp5-evn", FIXED),
    ("ecpix5-85f", FLOAT),
    ("ecpix5-85f", (*FLOAT, "--link", "udp", "--ip-address", "192.168.1.50")),
    ("icebreaker", PLAIN),
    ("hx8k-evn", ("--dim", "d=2", "--format", "fixed:4,6")),
    ("tang-nano-9k", FIXED),
    ("crosslink-nx-evn", FIXED),
)
PAGE = ROOT / "docs" / "howto" / "boards.md"
HEADER = "board | d | format | estimated LUT | placed LUT / FF / DSP / BRAM | clock, MHz | Fmax, MHz | seconds"


def named(board: str, link: str) -> str:
    """Return what the table calls a board; with Ethernet it is another row."""
    return f"{board}+udp" if link == "udp" else board


def build(board: str, words: tuple[str, ...], seeds: int) -> tuple[str, ...]:
    """Return the row of one board. Raises RuntimeError with what the command said where it fails."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as temporary:
        out, begin = Path(temporary) / "out", perf_counter()
        line = [
            "build",
            EXAMPLES / "logistic.py",
            "--board",
            board,
            "--out",
            out,
            "--seeds",
            str(seeds),
        ]
        command = [sys.executable, "-m", "penstock", *line, "-q", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return row(json.loads((out / "manifest.json").read_text()), perf_counter() - begin)


def row(manifest: dict, seconds: float | None) -> tuple[str, ...]:
    """Return a manifest as a row of the table; `seconds`: of the build, where it was watched."""
    plan, made = manifest["plan"], manifest["build"]
    placed = made["resources"]
    size = next(b["cols"] for b in plan["buffers"] if b["kind"] == "model")
    return (
        named(manifest["board"]["name"], manifest["board"]["link"]),
        str(size),
        plan["format_name"],
        f"{manifest['estimate']['lut']:,}",
        " / ".join(f"{placed[name]:,}" for name in ("lut", "ff", "dsp", "bram")),
        f"{made['clock_mhz']:g}",
        f"{made['fmax_mhz']:.1f}",
        f"{seconds:.0f}" if seconds is not None else "–",
    )


def written(text: str, rows: list[tuple[str, ...]]) -> str:
    """Return the page with these rows in its table; rows of other boards stay."""
    begin, end = "<!-- builds -->\n", "<!-- end of builds -->\n"
    before, rest = text.split(begin)
    table, after = rest.split(end)
    lines = {
        (found[1], found[2]): line
        for line in table.splitlines()
        if (found := re.match(r"\| (\S+) \| \d+ \| (\S+) \|", line))
    }
    lines |= {(r[0], r[2]): f"| {' | '.join(r)} |" for r in rows}
    places = {
        named(board, "udp" if "udp" in words else ""): n for n, (board, words) in enumerate(CASES)
    }
    order = sorted(lines, key=lambda key: (places.get(key[0], len(places)), key[1]))
    table = markdown(HEADER, (lines[key].strip("| ") for key in order))
    return f"{before}{begin}{table}\n{end}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boards", nargs="+", choices=sorted({board for board, _ in CASES}))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--built",
        nargs="+",
        type=Path,
        default=[],
        help="folders of builds whose rows are written, in place of building",
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    failed = 0
    made = [
        row(json.loads((folder / "manifest.json").read_text()), None) for folder in options.built
    ]
    for board, words in () if options.built else CASES:
        if options.boards and board not in options.boards:
            continue
        try:
            made.append(build(board, words, options.seeds))
        except RuntimeError as problem:
            failed += 1
            print(f"{board}: {problem}", file=sys.stderr, flush=True)
            continue
        print(" | ".join(made[-1]), flush=True)
    if options.write:
        PAGE.write_text(written(PAGE.read_text(), made))
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
