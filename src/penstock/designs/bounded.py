"""Work on what a folder says, which ends where a folder of its size cannot need more."""

import ctypes
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.designs.folder import AGAIN, unfit

#: seconds of the processor for any folder, and for each of its bytes (`logistic` of two features: 2 s for 368,307 bytes)
_SECONDS, _OF_BYTE = 9.0, 30e-6
#: bytes that count for the time: the largest design known, a map's, has 2.6 MB of Verilog, and whoever sends a folder may fill it up
_LARGEST = 3 << 20
#: memory beside what the process had before, for any folder, and for each of its bytes (the same: 60 MB)
_MEMORY, _MEMORY_OF_BYTE = 1 << 29, 200


class _Excess(BaseException):
    """Raised in the thread that works; nothing that it runs catches it."""


@contextmanager
def bounded(size: int) -> Iterator[None]:
    """End what is within where it takes too much of the processor, or too much memory, for a folder of `size` bytes. Raises FolderError (E806)."""
    thread, ended = threading.get_ident(), threading.Event()
    clock = time.pthread_getcpuclockid(thread)
    seconds = _SECONDS + _OF_BYTE * min(size, _LARGEST)
    last = time.clock_gettime(clock) + seconds
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most = before + (_MEMORY + _MEMORY_OF_BYTE * size) // 1024

    def watch() -> None:
        while not ended.wait(0.02):  # seconds between two looks
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if time.clock_gettime(clock) > last or peak > most:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(_Excess)
                )
                ended.wait(1.0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        try:
            yield
        finally:
            ended.set()
            watcher.join()
    except _Excess:
        ended.set()
        what = f"a plan of {size:,} bytes whose hardware takes more than {seconds:.0f} seconds of the processor, or too much memory"
        raise unfit(what, AGAIN) from None
