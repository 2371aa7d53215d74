"""Whole maps from their declarations, in both languages, on golden: each answer is that of a `dict`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from testbench.searched import searched

#: what an answer says, by name
STATUS = {"FOUND": 0, "MISSING": 1, "FULL": 2}


@dataclass(frozen=True)
class Declared:
    """A map's declaration in a file's text, what it says, options, and operations (kind, key, value)."""

    text: str
    suffix: str
    name: str
    value_bytes: int
    capacity: int
    options: dict[str, Any]
    operations: tuple[tuple[str, int, bytes], ...]
    keys: str

    @property
    def lines(self) -> str:
        """The operations as a file has them."""
        made = ["# a comment", ""]
        for turn, (kind, key, value) in enumerate(self.operations):
            word = hex(key) if turn % 3 == 0 else key
            if self.keys != "u64":
                word = f"é{key}@b" if self.keys == "text" else key.to_bytes(9, "big").hex()
            made.append(f"{kind} {word} {value.hex()}".rstrip())
        return "\n".join(made)


def capacity_of(random: Random, python: bool) -> tuple[str, int]:
    """A capacity as it may be written, and what it is."""
    small, power = random.choice((1, 2, 3, 7, 12, 25)), random.randrange(7)
    forms = [(str(small), small), (f"2**{power}", 2**power), (f"3 * {small} + 1", 3 * small + 1)]
    if python:
        forms += [(f"1 << {power}", 1 << power), (f"max({small}, 5)", max(small, 5))]
    else:
        forms += [(f"{small}.0", small), (f"2 * {small}\n  # and no more", 2 * small)]
    return random.choice(forms)


def declared(random: Random) -> Declared:
    name, key, value = (
        random.choice(("m", "sessions")),
        *random.choice((("key", "value"), ("k", "x"))),
    )
    size, python = 8 * random.choice((1, 1, 1, 2, 3, 8, 9, 33, 128)), random.random() < 0.5
    written, capacity = capacity_of(random, python)
    keys = random.choice(("u64", "u64", "text", "bytes"))
    if python:
        given_ = [f"value=ps.bytes({size})", f"capacity={written}"]
        given_ += [] if keys == "u64" and random.random() < 0.5 else [f"key=ps.{keys}"]
        given_ += random.choice(([], [f"name={name + 'x'!r}"]))
        random.shuffle(given_)
        text = f"import penstock as ps\n\n{name} = ps.ObliviousMap(\n    {', '.join(given_)},\n)\n"
        name += "x" * ("name=" in text)
    else:
        text = f"map {name}({key}: {keys}, {value}: bytes[{size}])\n  capacity = {written}\n"
    options: dict[str, Any] = {}
    for option, values in (
        ("share", (0.0, 0.5, 0.9)), ("load", (1.0, 2.5)),
        ("window", (2, 8)), ("rounds", (1, 2)), ("channels", (1, 2)),
    ):  # fmt: skip
        if random.random() < 0.2:
            options[option] = random.choice(values)
    # half as many keys again as there is room for, the last key of 64 bits among them
    named = [random.choice((0, (1 << 64) - 1, 1 << 32))]
    named += [
        random.getrandbits(random.choice((4, 64))) for _ in range(capacity + capacity // 2 + 1)
    ]
    kinds = random.choice(("put", "put put get", "put get delete", "put put get delete")).split()
    operations = []
    for _ in range(random.choice((3, 20, 60, 2 * len(named)))):
        kind = random.choice(kinds)
        data = random.randbytes(size) if kind == "put" else b""
        operations.append((kind, random.choice(named), data))
    suffix = ".py" if python else ".psk"
    return Declared(text, suffix, name, size, capacity, options, tuple(operations), keys)


def held(made: Declared, folder: Path) -> None:
    """Every status and every value that comes back, in order."""
    path, data = folder / f"maps{abs(hash(made.text))}{made.suffix}", folder / "operations.txt"
    path.write_text(made.text)
    data.write_text(made.lines, encoding="utf-8")
    try:
        design = ps.compile(str(path), target="u55c", **made.options)
    except ps.KernelError as problem:  # bins that a load of one's own fills too often
        assert problem.diagnostic.code == "E471" and {"load", "share"} & made.options.keys(), made
        return
    plan = design.plan
    assert (design.name, plan.value_bytes, plan.key) == (made.name, made.value_bytes, made.keys)
    # what lies in HBM begins at 4 KiB
    assert not any(at % 4096 for at in (plan.records_at, plan.tables_bytes, plan.hbm_bytes))
    run = design.run(str(data), backend="golden")
    items: dict[int, bytes] = {}
    for number, (kind, key, value) in enumerate(made.operations):
        old = items.get(key)
        status = "MISSING" if old is None else "FOUND"
        if kind == "put" and old is None and len(items) == made.capacity:
            status = "FULL"
        elif kind == "put":
            items[key] = value
        elif kind == "delete":
            items.pop(key, None)
        answer = run.codes["status"][number], bytes(run.codes["values"][number].tolist())
        assert answer == (STATUS[status], old or bytes(made.value_bytes)), (made, number)


def test_maps_answer_as_a_dict(tmp_path):
    searched(40, lambda random: held(declared(random), tmp_path))


@pytest.mark.long
def test_many_maps_answer_as_a_dict(tmp_path):
    searched(3000, lambda random: held(declared(random), tmp_path))
