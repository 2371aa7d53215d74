"""Programs that are started end with us, however we end."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
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


FORK = """
import os, time
from penstock.sim.processes import start
ours = start(["sleep", "60"])
there, here = os.pipe()
child = os.fork()
if not child:
    os.write(here, b"%d" % start(["sleep", "60"]).pid)
    time.sleep(60)
theirs = int(os.read(there, 20))
os.kill(child, 9)
os.waitpid(child, 0)
print(ours.pid, theirs, flush=True)
time.sleep(60)
"""


def test_a_process_that_is_forked_ends_its_own_programs() -> None:
    """As a worker of `multiprocessing`: its programs end with it, those of the one before go on."""
    command = [sys.executable, "-c", FORK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        ours, theirs = map(int, script.stdout.readline().split())
        assert psutil.Process(ours).status() != "zombie"
        with suppress(psutil.NoSuchProcess):
            psutil.Process(theirs).wait(2)
        assert psutil.Process(ours).is_running()
        script.kill()
