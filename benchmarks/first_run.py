"""A first simulation, split by step: the processor's seconds of Verilator, of g++ and of Penstock itself, with an empty cache. What g++ makes of Verilator's
own files is kept for all designs, and stands apart.

    python benchmarks/first_run.py [COMMIT ...]      # minutes

An earlier commit runs beside, in the same run. Each is installed, from what git has of it, in an environment of its own, with the packages that it asks for
(PyPI). benchmarks/history/commands.md has figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import EXAMPLES, ROOT, machine, markdown

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
from penstock.cli.main import run
code = run(sys.argv[1:])
assert code == 0, code
own = os.times()
print("\\n" + json.dumps(took | {"penstock": own.user + own.system}))
"""
_STEPS = ("verilator_bin", "g++", "g++ once", "penstock")


def installed(commit: str, folder: Path) -> Path:
    """Install a commit in a folder; return the Python of it."""
    (source := folder / "source").mkdir(parents=True)
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=source, input=packed.stdout, check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", source], check=True)
    return python


def split(python: Path, words: list[str]) -> dict[str, float]:
    """Return the seconds of each program."""
    command = [str(python), "-P", "-W", "ignore", "-c", _CHILD, "simulate", *words]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, "--target", "small"],
            env=os.environ | {"PENSTOCK_CACHE": folder},
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        sys.exit(done.stderr)
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


def main(commits: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        show({name: installed(name, Path(folder) / str(k)) for k, name in enumerate(commits)})


def show(pythons: dict[str, Path]) -> None:
    rows = []
    for name, words in CASES.items():
        tools = []
        for commit, python in pythons.items():
            took = split(python, [str(EXAMPLES / words[0]), *words[1:]])
            steps = [took.pop(step, 0.0) for step in _STEPS]
            tools.append((sum(steps[:2]), sum(steps[:3])))
            alone, whole = (f"{x / y:.2f}" for x, y in zip(tools[0], tools[-1], strict=True))
            seconds = (f"{s:.1f}" for s in (*steps, sum(took.values())))
            rows.append((name, commit, *seconds, alone, whole))
    header = ("example", "commit", "Verilator", "g++", "g++, once", "Penstock", "other programs")
    ratios = ("Verilator and g++, first ÷ this", "with once")
    print(f"{machine()}\n\n{markdown((*header, *ratios), rows)}")


if __name__ == "__main__":
    main(["HEAD", *sys.argv[1:]])
