"""Programs that are started end with us, however we end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.sim.processes import end, run, running, start

#: starts three programs, one of which ends, and one that starts another; says who they are, and waits
SCRIPT = """
import sys, time
from penstock.sim.processes import end, run, start
run(["true"])
end(start(["sleep", "600"]))
one = start(["sleep", "600"])
two = start(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=-1, text=True)
print(one.pid, two.pid, two.stdout.readline().strip(), flush=True)
{end}
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["kill", "crash", "exit"])
def test_nothing_is_left(how: str, tmp_path: Path) -> None:
    last = {"kill": "", "crash": "import os; os.abort()", "exit": "raise SystemExit"}[how]
    script = SCRIPT.format(end=last)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        started = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        if how == "kill":
            process.kill()
    assert len(started) == 3
    _, left = psutil.wait_procs(started, timeout=2)
    assert not left


def test_a_run() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    with pytest.raises(FileNotFoundError):
        run(["/nothing/at/all"])
    process = start(["sleep", "600"])
    assert process in running()
    end(process)
    assert process not in running() and process.returncode == -9
