"""Operations for maps: drawn at random, or read from a file."""

import random
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ...models.inputs import Input
from ...models.omap.messages import Operation, Request
from .names import checked, number_of

_FILE = Input("a file of operations", "", lambda what, _: ValueError(what))
#: how keys are chosen
KEYS = ("uniform", "zipf:THETA", "hot:N", "sweep", "sawtooth:N")


#: the largest share
_MOST = 1e9
#: the largest theta: all keys but the first are never drawn long before
_STEEPEST = 100


def _number(text: str) -> float | None:
    """Return the finite number that a text is, None for another one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _keys(spec: str, count: int, universe: int, draw: np.random.Generator) -> list[int]:
    kind, _, text = spec.partition(":")
    turn = np.arange(count)
    if kind == "uniform" and not text:
        return [int(k) for k in draw.integers(0, universe, count)]
    if kind == "sweep" and not text:
        return [int(k) for k in turn % universe]
    # NumPy draws numbers below 2^63
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if kind == "sawtooth" and number:
        return [int(k) for k in turn % number]
    if kind == "hot" and number:
        return [int(k) for k in draw.integers(0, number, count)]
    if kind == "zipf":
        theta = _number(text)
        if theta is None or not 0 <= theta <= _STEEPEST:
            raise ValueError(f"keys {spec!r}; expected zipf:THETA from 0 to {_STEEPEST}")
        weights = np.arange(1, universe + 1, dtype=np.float64) ** -theta
        total = np.cumsum(weights)
        return [int(k) for k in np.searchsorted(total, draw.random(count) * total[-1])]
    raise ValueError(f"keys {spec!r}; expected one of {', '.join(KEYS)}")


def draw_operations(
    count: int,
    value_bytes: int,
    universe: int,
    *,
    mix: Mapping[str, float] | None = None,
    keys: str = "uniform",
    key: str = "u64",
    seed: int = 1,
) -> list[Request]:
    """Return random operations on keys below `universe`.

    Parameters: `mix`: shares of get, put and delete, which need not sum to 1 (half get, half put);
    `keys`: one of `KEYS`; `key`: as `OmapConfig` has it: others than numbers are hashed under a salt of
    zeros. Raises ValueError for another one, and for an unknown operation.
    """
    mix = {"get": 0.5, "put": 0.5} if mix is None else mix
    for name, share in mix.items():
        if name.upper() not in Operation.__members__ or not 0 <= share <= _MOST:
            raise ValueError(
                f"mix {name}={share:g}; expected shares of get, put and delete, as in get=0.9,put=0.1"
            )
    if not sum(mix.values()):
        raise ValueError("the mix has no operations")
    source, draw = random.Random(seed), np.random.default_rng(seed)
    names = source.choices(list(mix), list(mix.values()), k=count)
    requests = []
    for name, drawn in zip(names, _keys(keys, count, universe, draw), strict=True):
        kind = Operation[name.upper()]
        value = source.randbytes(value_bytes) if kind == Operation.PUT else bytes(value_bytes)
        requests.append(Request(kind, number_of(drawn if key == "u64" else str(drawn)), value))
    return requests


#: a key of a file of operations, by `OmapConfig.key`
_READ: dict[str, Callable[[str], Any]] = {
    "u64": lambda word: int(word, 0),
    "bytes": bytes.fromhex,
    "text": str,
}


def read_operations(path: str | Path, value_bytes: int, *, key: str = "u64") -> list[Request]:
    """Return the operations of a file: `get KEY`, `put KEY HEX` or `delete KEY`, one a line. `key`: as in
    `draw_operations`; bytes are written in hexadecimal, text as it is, without blanks.

    Raises ValueError with the line's number for a line that is none, and for a file without any or
    that cannot be read.
    """
    requests = []
    text = _FILE.text(path)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        name, *rest = words
        kind = Operation.__members__.get(name.upper())
        if kind is None or len(rest) != (2 if kind == Operation.PUT else 1):
            raise ValueError(f"line {number}: not an operation: {line.strip()}")
        try:
            asked = _READ[key](rest[0])
            value = bytes.fromhex(rest[1]) if kind == Operation.PUT else bytes(value_bytes)
        except ValueError:
            raise ValueError(f"line {number}: not a number: {line.strip()}") from None
        try:
            named = number_of(checked(key, asked))
        except ValueError as problem:
            raise ValueError(f"line {number}: {problem}") from None
        if len(value) != value_bytes:
            raise ValueError(f"line {number}: a value has {value_bytes} bytes, not {len(value)}")
        requests.append(Request(kind, named, value))
    if not requests:
        raise ValueError("the file has no operations")
    return requests
