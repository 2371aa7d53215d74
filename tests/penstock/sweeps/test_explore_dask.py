"""Sweeps on Dask: a scheduler and workers of our own, on loopback."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest

from penstock.sweeps import crews
from testbench.command_line import told
from testbench.dask import cluster, there

#: its points take a while in other processes, and leave a file there
KERNEL = """import os, time
from pathlib import Path
import penstock as ps

HERE, FOLDER = os.getpid(), Path(__file__).resolve().parent

@ps.kernel
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"]):
    if os.getpid() != HERE:
        (FOLDER / f"traced{os.getpid()}").touch()
        time.sleep(0.05)
    return w - 0.1 * ps.merge((ps.sum(w * x) - y) * x, 4)
"""
LINE = "explore f.py --rows 200 --dim d=3 --format float32,bfloat16 --sweep threads=1..6"
pytestmark = pytest.mark.filterwarnings("ignore")  # those of distributed


def test_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explored(line: str, out: str) -> tuple[dict[str, bytes], str]:
        monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / f"cache-{out}"))
        text = told(f"{line} --out {out}")
        return {path.name: path.read_bytes() for path in Path(out).iterdir()}, text

    monkeypatch.chdir(tmp_path)
    Path("f.py").write_text(KERNEL)
    local, _ = explored(f"{LINE} --jobs 1", "local")
    with cluster(tmp_path) as (address, begin):
        line = f"{LINE} --dask {address}"
        monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(crews, "_CONNECT", 0.5)
        assert f"the scheduler at {address} has no worker" in told(line, 1)
        # workers of another version: an error where there are no others
        begin("import numpy\nnumpy.__version__ = '0'\n")
        begin("import sys\nsys.modules['penstock'] = None\n")
        there(address, 2)
        text = told(line, 1)
        assert text.startswith("error[E907]: no worker of") and text.count(" has ") == 3
        # beside others they are left out; one of these is killed in between
        workers = [begin(), begin()]
        there(address, 4)

        def kill() -> None:
            until = monotonic() + 60
            while not Path(f"traced{workers[0].pid}").exists() and monotonic() < until:
                sleep(0.01)
            workers[0].kill()

        killer = Thread(target=kill)
        killer.start()
        found, text = explored(line, "killed")
        killer.join()
        assert found == local and workers[0].wait() < 0 and workers[1].poll() is None
        assert text.count("is left out: it has") == 2 and "of other code" in text
        assert "No module named 'penstock" in text


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.py").write_text(KERNEL)
    monkeypatch.setattr(crews, "_CONNECT", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        places = [f"tcp://127.0.0.1:{taken.getsockname()[1]}", "nonsense://x", "tcp://"]
        for place in places:
            text = told(f"{LINE} --dask {place}", 1)
            assert text.startswith("error[E907]: no scheduler answers at") and "hint: " in text
            assert text.count("error[") == 1 and "Traceback" not in text
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "hint: pip install 'penstock[dask]'" in told(f"{LINE} --dask tcp://127.0.0.1:1", 1)
