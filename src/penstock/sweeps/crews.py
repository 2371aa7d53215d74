"""Who computes points: the workers of a crew, each with one point at a time."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.sim.processes import end, start
from penstock.sim.staging import staging

from .grid import bad
from .points import Point, Task, code_of

#: seconds: between looks at the workers, until a scheduler answers, without any worker
_LOOK, _CONNECT, _PATIENCE = 0.3, 5.0, 60.0
#: a point and its row, None where its worker has ended
Done = tuple[Point, dict[str, Any] | None]


def unable(why: str) -> KernelError:
    """Return the error for a kernel that other processes cannot read (E906)."""
    hint = "what its function uses must be plain data, or in a module that is installed"
    return bad(f"the kernel cannot be taken to other processes: {why}", hint, "KERNEL")


def _packed(task: Task) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(task)
    except Exception as problem:  # whatever a kernel's function holds
        raise unable(f"{type(problem).__name__}: {problem}") from problem


class Crew:
    """Workers, in a `with` statement. `begun`: whether any has; `left_out`: why others are not used."""

    def __init__(self) -> None:
        self.begun, self.left_out = False, dict[str, str]()
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Point]] = {}  # worker and point by future
        self._ended: SimpleQueue[Any] = SimpleQueue()

    def free(self) -> bool:
        """Return whether a worker waits for a point."""
        return bool(self._idle)

    def give(self, point: Point) -> None:
        worker = self._idle.pop()
        future = self._submit(worker, point)
        self._busy[future] = worker, point
        future.add_done_callback(self._ended.put)

    def done(self) -> list[Done]:
        """Return points that are done; waits a while for one. Raises KernelError where no worker can
        go on."""
        try:
            future = self._ended.get(timeout=_LOOK)
            worker, point = self._busy.pop(future)
        except (Empty, KeyError):
            return self._look()
        try:
            row = future.result()
        except Exception:
            return [(point, None), *self._look(worker)]
        if isinstance(row, str):
            raise unable(row)
        self.begun = True
        self._idle.append(worker)
        return [(point, row), *self._look()]

    def _submit(self, worker: Any, point: Point) -> Any:
        raise NotImplementedError

    def _look(self, ended: Any = None) -> list[Done]:
        """Take up new workers; return the points of workers that are gone. `ended`: a worker that is."""
        raise NotImplementedError

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers' work at once."""


# processes

#: little is imported before the parent has said where from
_MAIN = """import sys
from multiprocessing.connection import Connection
parent = Connection(int(sys.argv[1]))
sys.path[:], place = parent.recv()
from penstock.sweeps.crews import serve
serve(parent, place)
"""
#: a worker has a core: libraries do not share its work out
_ALONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Processes(Crew):
    """Processes on this computer, begun when they are first needed; those that end are replaced."""

    def __init__(self, task: Task, count: int) -> None:
        super().__init__()
        data = _packed(task)
        self._held = ExitStack()
        self._place = str(self._held.enter_context(staging()) / "task")
        Path(self._place).write_bytes(data)
        self._threads = ThreadPoolExecutor(count)
        self._all = [_Process(self._place) for _ in range(count)]
        self._idle = list(self._all)

    def _submit(self, worker: _Process, point: Point) -> Any:
        return self._threads.submit(worker.ask, point)

    def _look(self, ended: _Process | None = None) -> list[Done]:
        if ended is not None:
            ended.close()
            self._idle.append(ended)
        return []

    def __exit__(self, *_: object) -> None:
        for worker in self._all:
            worker.close(last=True)
        self._threads.shutdown()
        self._held.close()


class _Process:
    """A worker's process, which begins with its first point. It is in a process group of its own:
    Ctrl-C is for the sweep, which ends it."""

    def __init__(self, place: str) -> None:
        self._place, self._lock, self._last = place, threading.Lock(), False
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, point: Point) -> Any:
        """Return a point's row. Raises OSError, EOFError where the process ends."""
        with self._lock:
            if self._last:
                raise EOFError
            if self._process is None:
                self._begin()
        self._connection.send(point)
        return self._connection.recv()

    def _begin(self) -> None:
        self._connection, far_end = Pipe()
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        with far_end:
            self._process = start(
                # -P: nothing of the current folder is imported
                [sys.executable, *flags, "-P", "-c", _MAIN, str(far_end.fileno())],
                env=os.environ | _ALONE,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[far_end.fileno()],
            )
        self._connection.send((sys.path, self._place))

    def close(self, last: bool = False) -> None:
        """End the process, if there is one; `last`: for good."""
        with self._lock:
            self._last = last
            if self._process is not None:
                end(self._process)
                self._process = None


def serve(parent: Connection, place: str) -> None:
    """Be a worker until the parent ends. A text in place of a row says why this process cannot."""
    try:
        answer = pickle.loads(Path(place).read_bytes()).row
    except Exception as problem:
        why = f"{type(problem).__name__}: {problem}"
        answer = lambda point: why
    try:
        while True:
            parent.send(answer(parent.recv()))
    except (EOFError, OSError):
        return


# Dask

#: what a worker of Dask knows: tasks by their digests; one point at a time, for engines know no threads
_TASKS: dict[str, Task] = {}
_ONE = threading.Lock()


def _prepare(name: str, data: bytes, code: str, modules: Sequence[str]) -> str:
    """On a worker: take up a task. Return why this worker cannot, "" where it can."""
    try:
        with _ONE:
            mine = code_of(*modules)
            _TASKS[name] = pickle.loads(data)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return "" if mine == code else f"penstock {version('penstock')} of other code"


def _compute(name: str, point: Point) -> dict[str, Any]:
    """On a worker: return a point's row."""
    with _ONE:
        return _TASKS[name].row(point)


def _trouble(what: str, hint: str) -> KernelError:
    return error("E907", what, Span.whole("--dask"), hint=hint)


class Dask(Crew):
    """The workers of a running scheduler whose code is the same."""

    def __init__(self, task: Task, address: str) -> None:
        super().__init__()
        try:
            from distributed import Client
        except ImportError:
            hint = "pip install 'penstock[dask]'"
            raise _trouble("Dask's distributed is not installed", hint) from None
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its words are not for users
        self._address, self._name = address, task.digest()
        self._task = (self._name, _packed(task), code_of(*task.modules), task.modules)
        try:
            self._client = Client(address, timeout=_CONNECT, set_as_default=False)
        except Exception as problem:  # OSError, TimeoutError, ValueError …
            reason = str(problem).partition("\n")[0] or type(problem).__name__
            hint = "`dask scheduler` says where it listens, as in tcp://127.0.0.1:8786"
            raise _trouble(f"no scheduler answers at {address}: {reason}", hint) from None
        self._looked, self._seen = 0.0, monotonic()

    def _submit(self, worker: str, point: Point) -> Any:
        options = {"workers": [worker], "allow_other_workers": False, "pure": False, "retries": 0}
        return self._client.submit(_compute, self._name, point, **options)

    def _look(self, ended: str | None = None) -> list[Done]:
        if monotonic() - self._looked < _LOOK:
            return []
        try:
            workers = set(self._client.nthreads())
            known = {*self._idle, *self.left_out, *(worker for worker, _ in self._busy.values())}
            answers: dict[str, Any] = {}
            if new := sorted(workers - known):
                answers = self._client.run(_prepare, *self._task, workers=new, on_error="return")
        except Exception as problem:
            what = f"the scheduler at {self._address} answers no more ({type(problem).__name__})"
            raise _trouble(what, "what is done is kept: the same command goes on") from None
        self.left_out |= {worker: str(why) for worker, why in answers.items() if why}
        self._idle = [w for w in (*self._idle, *answers) if w in workers and w not in self.left_out]
        gone = [future for future, (worker, _) in self._busy.items() if worker not in workers]
        lost: list[Done] = []
        for future in gone:
            lost.append((self._busy.pop(future)[1], None))
            future.cancel()
        self._looked = monotonic()
        self._check()
        return lost

    def _check(self) -> None:
        """Raise KernelError where there has been no worker for a while, or none of the same code."""
        if self._idle or self._busy:
            self._seen = monotonic()
        elif self.left_out and not self.begun:
            names = "; ".join(f"{worker} has {why}" for worker, why in self.left_out.items())
            hint = "install the same version, and the same engines, where workers run"
            raise _trouble(f"no worker of {self._address} has this Penstock: {names}", hint)
        elif monotonic() - self._seen > (_PATIENCE if self.begun else _CONNECT):
            hint = f"`dask worker {self._address} --nthreads 1` begins one"
            raise _trouble(f"the scheduler at {self._address} has no worker", hint)

    def __exit__(self, *_: object) -> None:
        for future in self._busy:
            future.cancel()
        self._client.close()
