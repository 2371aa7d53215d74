"""Bitstreams of the logistic example for every open board, each by the command that a user types, and the table of docs/boards.md.

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

from common import EXAMPLES, ROOT

#: what suits each board's size
CASES: dict[str, tuple[str, ...]] = {
    "ulx3s-12f": ("--dim", "d=4", "--format", "fixed:8,8"), "ulx3s-25f": ("--dim", "d=4", "--format", "fixed:8,8"),
    "ulx3s-45f": ("--dim", "d=8", "--format", "bfloat16"), "ulx3s-85f": ("--dim", "d=8", "--format", "float32"),
    "orangecrab-r0.2": ("--dim", "d=4", "--format", "fixed:8,8"), "colorlight-i5": ("--dim", "d=4", "--format", "fixed:8,8"),
    "ecp5-evn": ("--dim", "d=8", "--format", "float32")}
PAGE = ROOT / "docs" / "boards.md"
HEADER = ("board", "plan", "format", "estimated LUT / FF / DSP / BRAM", "placed LUT / FF / DSP / BRAM", "clock, MHz", "Fmax, MHz", "seconds", "seed")


def build(board: str, words: tuple[str, ...], seeds: int) -> tuple[str, ...]:
    """Return the row of one board. Raises RuntimeError with what the command said where it fails."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as temporary:
        out, begin = Path(temporary) / "out", perf_counter()
        line = ["build", str(EXAMPLES / "logistic.py"), "--board", board, "--out", str(out), "--seeds", str(seeds), "-q", *words]
        code = "import sys; from penstock.cli import main; sys.exit(main())"
        done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return row(json.loads((out / "manifest.json").read_text()), perf_counter() - begin)


def row(manifest: dict, seconds: float) -> tuple[str, ...]:
    """Return a manifest as a row of the table."""
    plan, made = manifest["plan"], manifest["build"]
    amounts = lambda r: f"{r['lut']:,} / {r['ff']:,} / {r['dsp']} / {r['bram']}"
    size = next(b["cols"] for b in plan["buffers"] if b["kind"] == "model")
    striders = f"{plan['walkers']} Strider{'s' * (plan['walkers'] > 1)}"
    shape = f"logistic, d = {size}, {plan['threads']} × {plan['lanes']}, {striders}, pages of {plan['schema']['page_size']}"
    return (manifest["board"]["name"], shape, plan["format_name"], amounts(manifest["estimate"]), amounts(made["resources"]), f"{made['clock_mhz']:g}",
            f"{made['fmax_mhz']:.1f}", f"{seconds:.0f}", str(made["seed"]))


def written(text: str, rows: list[tuple[str, ...]]) -> str:
    """Return the page with these rows in its table; rows of other boards stay."""
    begin, end = "<!-- builds -->\n", "<!-- end of builds -->\n"
    before, rest = text.split(begin)
    table, after = rest.split(end)
    lines = {found[1]: line for line in table.splitlines() if (found := re.match(r"\| (\S+) \| logistic", line))}
    lines |= {r[0]: f"| {' | '.join(r)} |" for r in rows}
    order = [board for board in CASES if board in lines] + [board for board in lines if board not in CASES]
    head = [f"| {' | '.join(HEADER)} |", f"|{' --- |' * len(HEADER)}"]
    return before + begin + "\n".join([*head, *(lines[board] for board in order)]) + "\n" + end + after


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    failed = 0
    for board in options.boards:
        try:
            made = build(board, CASES[board], options.seeds)
        except RuntimeError as problem:
            failed += 1
            print(f"{board}: {problem}", file=sys.stderr, flush=True)
            continue
        print(" | ".join(made), flush=True)
        if options.write:
            PAGE.write_text(written(PAGE.read_text(), [made]))
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
