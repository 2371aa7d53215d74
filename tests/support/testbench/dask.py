"""A scheduler of Dask and workers of our own, on loopback, at ports that the system chooses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

__all__ = ["Begin", "cluster", "there"]

#: begins a worker; what it takes is the text of its `sitecustomize`
Begin = Callable[..., "subprocess.Popen[bytes]"]


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, Begin]]:
    """Yield the address of a scheduler, and what begins a worker. All of them end with the block."""
    file = folder / "scheduler.json"
    begun: list[subprocess.Popen[bytes]] = []

    def begin(site: str = "", *words: str) -> subprocess.Popen[bytes]:
        own = folder / f"worker{len(begun)}"
        own.mkdir()
        (own / "sitecustomize.py").write_text(site)
        if not words:
            words = ("worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(own))
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        with (own / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--scheduler-file", str(file)],
                env=os.environ | {"PYTHONPATH": os.pathsep.join([str(own), *sys.path])},
                cwd=own,
                stdout=log,
                stderr=log,
            )
        begun.append(process)
        return process

    try:
        begin("", "scheduler", "--host", "127.0.0.1", "--port", "0")
        until = monotonic() + 60
        while not (file.exists() and file.read_text()) and monotonic() < until:
            sleep(0.05)
        yield json.loads(file.read_text())["address"], begin
    finally:
        for process in begun:
            process.kill()
            process.wait()


def there(address: str, count: int) -> None:
    """Wait until the scheduler has so many workers."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)
