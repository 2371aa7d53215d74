"""A first simulation, split by step: the processor's seconds of Verilator, of g++ and of Penstock itself, with an empty cache. What g++ makes of Verilator's
own files is kept for all designs, and stands apart.

    python benchmarks/first_run.py [CHECKOUT ...]      # minutes

A checkout of an earlier commit runs beside, in the same run. benchmarks/history/first_run.md has the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import EXAMPLES, machine, markdown

TABLE = EXAMPLES / "data" / "cancer"
CASES = {
    "demo": ["logistic.py", "--data", f"heap:{TABLE}.heap,{TABLE}.json"],
    "svm": ["svm.py", "--dim", "d=8", "--data", "random:rows=200"],
    "mlp": ["mlp.py", "--dim", "d=8", "--dim", "h=4", "--data", "random:rows=200"],
}
#: runs a command, and says on the last line what each of its programs took of the processor, with all that these started
_CHILD = """
import json, os, subprocess, sys
from pathlib import Path
took = {}
def waited(self, flags):
    try:
        pid, status, used = os.wait4(self.pid, flags)
    except ChildProcessError:
        return self.pid, 0
    if pid:
        name, *words = (Path(str(word)).name for word in self.args)
        if name == "g++" and any(word.startswith("verilated") and word.endswith((".h", ".cpp")) for word in words[-3:]):
            name = "g++ once"
        took[name] = took.get(name, 0.0) + used.ru_utime + used.ru_stime
    return pid, status
subprocess.Popen._try_wait = waited
from penstock.cli import run
code = run(sys.argv[1:])
assert code == 0, code
own = os.times()
print("\\n" + json.dumps(took | {"penstock": own.user + own.system}))
"""
_STEPS = ("verilator_bin", "g++", "g++ once", "penstock")
_PACKAGES = ("boards", "dsl", "hdl", "host", "models", "sim")


def package(checkout: Path, folder: Path) -> Path:
    """Make a folder in which a checkout's package is found."""
    made = folder / "penstock"
    made.mkdir()
    for path in (checkout / "src" / "penstock").iterdir():
        (made / path.name).symlink_to(path)
    for name in _PACKAGES:
        (made / name).symlink_to(checkout / name)
    return folder


def split(checkout: Path, words: list[str]) -> dict[str, float]:
    """Return the seconds of each program."""
    with tempfile.TemporaryDirectory() as folder:
        (place := Path(folder) / "path").mkdir()
        variables = {"PYTHONPATH": str(package(checkout, place)), "PENSTOCK_CACHE": folder}
        example = str(EXAMPLES / words[0])
        command = [sys.executable, "-P", "-W", "ignore", "-c", _CHILD, "simulate", example]
        done = subprocess.run(
            [*command, *words[1:], "--target", "small"],
            env=os.environ | variables,
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        sys.exit(done.stderr)
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


def main(checkouts: list[str]) -> None:
    places = [Path(__file__).resolve().parents[1], *(Path(name).resolve() for name in checkouts)]
    rows = []
    for name, words in CASES.items():
        tools = []
        for place in places:
            took = split(place, words)
            steps = [took.pop(step, 0.0) for step in _STEPS]
            tools.append(sum(steps[:3]))
            ratio = f"{tools[0] / tools[-1]:.2f}" if len(tools) > 1 else ""
            rows.append(
                (name, place.name, *(f"{s:.1f}" for s in (*steps, sum(took.values()))), ratio)
            )
    header = (
        "example",
        "checkout",
        "Verilator",
        "g++",
        "g++, once",
        "Penstock",
        "other programs",
        "tools, first ÷ this",
    )
    print(f"{machine()}\n\n{markdown(header, rows)}")


if __name__ == "__main__":
    main(sys.argv[1:])
