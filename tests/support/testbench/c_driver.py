"""The C driver of an export, called from Python, carries out the recorded run on the simulated core.

    python c_driver.py KERNEL CORE [OPTION=VALUE …]      options of `compile`, as JSON

By polls, by a callback in place of an interrupt, and out of time. Prints PASS, or ends with what is not so.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from penstock.api import compile
from penstock.export.exporter import _timings
from penstock.models.errors import ErrorCode
from penstock.models.shell import Status

from .recorded import CHECK, COMPARE, CYCLES, PUT, SET, WAIT, Recorded, Step

__all__ = ["play"]

TIMEOUT = -2
_FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
_U32, _U64, _SIZE, _ADDRESS = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
_READ = ctypes.CFUNCTYPE(_U32, _ADDRESS, _U32)
_WRITE = ctypes.CFUNCTYPE(None, _ADDRESS, _U32, _U32)
_MOVE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, ctypes.c_uint, _U64, _ADDRESS, _SIZE)
_SLEEP = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS)


class Io(ctypes.Structure):
    _fields_ = [
        ("ctx", _ADDRESS), ("read32", _READ), ("write32", _WRITE), ("load", _MOVE), ("store", _MOVE),
        ("wait", _SLEEP),
    ]  # fmt: skip


class Place(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_uint), ("at", _U64), ("data", _ADDRESS), ("size", _SIZE)]


class Ended(ctypes.Structure):
    _fields_ = [("error", _U32 * 3), ("cycles", _U64), ("counters", _U64 * 64)]


def _starts(steps: Iterator[Step]) -> Iterator[tuple[list[Step], list[Step]]]:
    """Yield what comes before each wait, and what comes behind it until the next start is prepared."""
    before: list[Step] = []
    after: list[Step] = []
    ended = False
    for step in steps:
        if ended and (step.kind == PUT or (step.kind == CHECK and step.at == 0)):
            yield before, after
            before, after, ended = [], [], False
        ended = ended or step.kind == WAIT
        (after if ended else before).append(step)
    yield before, after


class Driver:
    """The driver of the core in `folder`, on `machine`. `asleep`: how often its callback was called; `late`: it says that
    its time is up; `dead`: the status says that a memory port is."""

    def __init__(self, folder: Path, machine: Any) -> None:
        self.core, self.ip, self.machine = Recorded(folder), folder.name, machine
        library = folder / "driver.so"
        command = ["cc", *_FLAGS, "-o", str(library), str(folder / f"sw/{self.ip}.c")]
        subprocess.run(command, check=True)
        self.c = ctypes.CDLL(str(library))
        library.unlink()
        self.asleep, self.late, self.dead = 0, False, False
        session = machine.session
        self._io = (
            _READ(self._read),
            _WRITE(lambda _, at, value: session.write_word(at, value)),
            _MOVE(self._load),
            _MOVE(self._store),
        )

    def _read(self, _: int, at: int) -> int:
        dead = self.dead and at == self.core.registers["status"]
        return int(self.machine.session.read_word(at)) | (Status.DEAD if dead else 0)

    def _load(self, _: int, memory: int, at: int, data: int, size: int) -> int:
        content = np.frombuffer(ctypes.string_at(data, size), np.uint8)
        self.machine.write(at, content, space=memory)
        return 0

    def _store(self, _: int, memory: int, at: int, data: int, size: int) -> int:
        ctypes.memmove(data, self.machine.read(at, size, space=memory).tobytes(), size)
        return 0

    def _sleep(self, _: int) -> int:
        self.asleep += 1
        if self.late:
            return 1
        self.machine.session.step(1 << 40)  # until the interrupt
        return 0

    def io(self, *, sleeps: bool) -> Io:
        return Io(None, *self._io, _SLEEP(self._sleep) if sleeps else _SLEEP())

    def __call__(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.c, f"{self.ip}_{name}")(*arguments))

    def run_of(self, before: list[Step], after: list[Step]) -> tuple[Any, list[Any]]:
        """Return `struct run` of one start, and the buffers of its outputs."""
        at, every = self.core.registers, self.core.manifest["register_map"]["registers"]
        bits = {register["name"]: register["bits"] for register in every}
        header = (self.core.folder / f"sw/{self.ip}.h").read_text()
        body = header[header.index(f"struct {self.ip}_registers") :].partition("};")[0]
        members = re.findall(r"uint(\d+)_t (\w+);", body)
        fields = [(name, _U64 if size == "64" else _U32) for size, name in members]
        registers = type("Registers", (ctypes.Structure,), {"_fields_": fields})
        set_to = {step.at: step.value for step in before if step.kind == SET}
        values: list[int] = []
        for member, _ in fields:
            name = member if member in at else member.rstrip("_")  # a word of C
            if name not in at:  # an engine without registers
                continue
            high = set_to.get(at[name] + 4, 0) << 32 if bits[name] > 32 else 0
            values.append(set_to.get(at[name], 0) | high)
        loads = [step for step in before if step.kind == PUT]
        found = [step for step in after if step.kind == COMPARE]
        buffers = [ctypes.create_string_buffer(len(step.data)) for step in found]
        places = [
            (Place * len(steps))(
                *(
                    Place(step.space, step.at, ctypes.cast(data, _ADDRESS), len(step.data))
                    for step, data in zip(steps, held, strict=True)
                )
            )
            for steps, held in ((loads, [step.data for step in loads]), (found, buffers))
        ]
        run = type(
            "Run",
            (ctypes.Structure,),
            {
                "_fields_": [
                    ("inputs", _ADDRESS), ("input_count", _SIZE), ("registers", registers),
                    ("watchdog", _U32), ("patience", _U64), ("outputs", _ADDRESS), ("output_count", _SIZE),
                ]
            },
        )(
            ctypes.addressof(places[0]), len(loads), registers(*values), set_to[at["watchdog"]],
            10_000_000, ctypes.addressof(places[1]), len(found),
        )  # fmt: skip
        run.kept = places
        return run, buffers

    def check(self, code: int, after: list[Step], buffers: list[Any], ended: Ended) -> None:
        at = self.core.registers
        found = [step for step in after if step.kind == COMPARE]
        checks = {step.at: step.value for step in after if step.kind in (CHECK, CYCLES)}
        assert code == checks[at["error_code"]], (code, checks[at["error_code"]])
        for step, data in zip(found, buffers, strict=True):
            assert data.raw == step.data, f"bytes at {step.at:#x}"
        assert ended.cycles == checks[at["cycles"]], (ended.cycles, checks[at["cycles"]])


def play(driver: Driver, again: bool) -> None:
    """Carry out all starts, in each way if they may come `again`."""
    interrupt = driver.core.registers["interrupt"]
    polling, sleeping = driver.io(sleeps=False), driver.io(sleeps=True)

    def enabled() -> int:
        return int(driver.machine.session.read_word(interrupt))

    for number, (before, after) in enumerate(_starts(driver.core.steps)):
        # by polls, whether the interrupt is enabled or not; asleep; a map's starts once, for it keeps what they did
        ways = [(polling, 1), (polling, 0), (sleeping, 1)]
        for io, on in ways if again else [ways[number % 3]]:
            run, buffers = driver.run_of(before, after)
            ended = Ended()
            driver("enable", ctypes.byref(io), on)
            code = driver("run", ctypes.byref(io), ctypes.byref(run), ctypes.byref(ended))
            driver.check(code, after, buffers, ended)
            assert enabled() == on
    if not again:
        return
    run, buffers = driver.run_of(before, after)
    # out of time: by the callback, by polls; the run goes on, and is waited for again
    driver("enable", ctypes.byref(sleeping), 1)
    driver.late = True
    assert driver("run", ctypes.byref(sleeping), ctypes.byref(run), None) == TIMEOUT
    assert driver("finish", ctypes.byref(sleeping), ctypes.byref(run), None) in (0, TIMEOUT)
    driver.late = False
    assert driver("start", ctypes.byref(sleeping), ctypes.byref(run)) == 0
    assert driver("finish", ctypes.byref(sleeping), ctypes.byref(run), None) == TIMEOUT
    assert driver("wait", ctypes.byref(polling), _U64(1)) == TIMEOUT
    driver.asleep = 0
    assert driver("wait", ctypes.byref(sleeping), _U64(0)) == 0 and driver.asleep == 1
    ended = Ended()
    code = driver("finish", ctypes.byref(sleeping), ctypes.byref(run), ctypes.byref(ended))
    driver.check(code, after, buffers, ended)
    assert enabled() == 1
    driver.dead = True
    for name in ("start", "finish", "run"):
        last = [] if name == "start" else [None]
        code = driver(name, ctypes.byref(polling), ctypes.byref(run), *last)
        assert code == ErrorCode.DEAD_PORT, (name, code)
    assert driver("reset", ctypes.byref(polling)) == ErrorCode.DEAD_PORT
    text_of = driver.c[f"{driver.ip}_error_text"]
    text_of.restype = ctypes.c_char_p
    said = text_of(int(ErrorCode.DEAD_PORT)).decode()
    assert said.startswith(ErrorCode.DEAD_PORT.meaning), said


def main(kernel: str, core: str, *options: str) -> None:
    folder = Path(core)
    named = (option.partition("=") for option in options)
    design = compile(kernel, **{name: json.loads(value) for name, _, value in named})
    bench = (folder / f"tb/{folder.name}_tb.v").read_text()
    sizes = re.findall(r"reg \[7:0\] memory(\d+) \[0:(\d+)\];", bench)
    vault = {
        name: int(value, 16) for name, value in re.findall(r" vault_(\w+) = \d+'h(\w+);", bench)
    }
    memory, _ = _timings(design)
    needed = sum(int(last) + 1 for _, last in sizes)
    with design.machine("rtl", needed, memory, vault=vault or None) as machine:
        for space, last in sizes:
            machine.reserve(0, int(last) + 1, space=int(space))
        play(Driver(folder, machine), not vault)
    print(f"PASS {folder.name}: through its driver")


if __name__ == "__main__":
    main(*sys.argv[1:])
