"""Programs that Penstock starts: none outlives it, however it ends.

Each is the leader of a process group. A guard, a shell that knows these groups, reads a pipe from us. When it sees the end of the pipe, because we have
ended (also by SIGKILL or a crash), it kills the groups that are left, and ends.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

_GUARD = """
trap '' INT TERM HUP
left=' '
while read -r what group; do
    case $what in
        +) left="$left$group " ;;
        -) left="${left%% $group *} ${left#* $group }" ;;
    esac
done
for group in $left; do kill -KILL "-$group" 2>/dev/null; done
"""

_RUNNING: set[subprocess.Popen[Any]] = set()
_LOCK = threading.Lock()
_pipe: int | None = None


def _guard() -> int:
    """Start the guard; return its pipe."""
    reader, here = os.pipe()
    try:
        null = [(os.POSIX_SPAWN_OPEN, out, os.devnull, os.O_WRONLY, 0) for out in (1, 2)]
        actions = [(os.POSIX_SPAWN_DUP2, reader, 0), *null]
        command = ["/bin/sh", "-c", _GUARD]
        os.posix_spawn(command[0], command, os.environ, file_actions=actions, setsid=True)
    finally:
        os.close(reader)
    return here


def _tell(what: str, group: int) -> None:
    """Tell the guard of a group; it is started with the first, and again where somebody ended it. Under `_LOCK`."""
    global _pipe
    text = f"{what} {group}\n"
    if _pipe is not None:
        try:
            os.write(_pipe, text.encode())
            return
        except BrokenPipeError:
            os.close(_pipe)
    _pipe = _guard()
    os.write(_pipe, "".join(f"+ {process.pid}\n" for process in _RUNNING).encode())


def _forked() -> None:
    """A process that is forked off has programs, and a guard, of its own: the pipe of the one before would stay open, and say nothing of it."""
    global _pipe, _LOCK
    _LOCK = threading.Lock()
    _RUNNING.clear()
    if _pipe is not None:
        os.close(_pipe)
        _pipe = None


os.register_at_fork(after_in_child=_forked)


def start(command: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
    """Start a program as `subprocess.Popen` does, in a process group of its own. `end` is to be called of it."""
    with _LOCK:
        process = subprocess.Popen(command, start_new_session=True, **options)
        _RUNNING.add(process)
        _tell("+", process.pid)
    return process


def end(process: subprocess.Popen[Any]) -> None:
    """End a program and all that it started, if it still runs; wait for it, close its pipes and forget it."""
    kill(process)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    with _LOCK:
        if process in _RUNNING:
            _RUNNING.discard(process)
            _tell("-", process.pid)


def run(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end as `subprocess.run` does, without a timeout; where we are interrupted it is ended."""
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options.setdefault("stdin", subprocess.DEVNULL)
    process = start(command, **options)
    try:
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
    finally:
        end(process)


class Threads(ThreadPoolExecutor):
    """Threads that wait for programs: after a failure none begins, and where we are interrupted all programs are ended."""

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> bool | None:
        if kind is not None:
            self.shutdown(wait=False, cancel_futures=True)
        if kind is not None and not issubclass(kind, Exception):
            waiting = threading.Thread(target=self.shutdown)
            waiting.start()
            while waiting.is_alive():  # a thread may begin another one meanwhile
                end_all()
                waiting.join(0.02)
        return super().__exit__(kind, *rest)


def end_all() -> None:
    """Kill all programs that run, in whatever threads they were started, with all that they started."""
    for process in running():
        kill(process)


def running() -> list[subprocess.Popen[Any]]:
    """Return the programs that run."""
    with _LOCK:
        return list(_RUNNING)


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a program and all that it started, if it still runs."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
