"""Requests that come, take steps and leave at random, in sessions; each beside a run of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import penstock as ps

__all__ = ["SEED", "Pool", "arrive", "data_of", "designed", "in_float64", "part"]

RETNET = str(Path(__file__).resolve().parents[3] / "examples" / "retnet.psk")
Data = dict[str, NDArray[np.float64]]
#: of sessions and runs, for the bits of stochastic rounding
SEED = 7


def data_of(number: int, tokens: int, heads: int, k: int = 20, v: int = 5) -> Data:
    """Return a request's arrays (tokens, heads, …) for RetNet, heads of many time constants."""
    rng, lead = np.random.default_rng(number), (tokens, heads)
    return {
        "decay": np.broadcast_to(1 - 2.0 ** -rng.integers(2, 11, heads), lead),
        "key": rng.normal(size=(*lead, k)),
        "value": rng.normal(size=(*lead, v)),
        "query": rng.normal(size=(*lead, k)),
    }


def part(data: Data, begin: int, end: int) -> Data:
    """Return some of the tokens."""
    return {name: x[begin:end] for name, x in data.items()}


def in_float64(data: Data) -> NDArray[np.float64]:
    """RetNet as its authors write it."""
    state: Any = 0
    out = []
    for d, k, v, q in zip(*(data[n] for n in ("decay", "key", "value", "query")), strict=True):
        state = d[:, None, None] * state + k[:, :, None] * v[:, None, :]
        out.append(np.einsum("hk,hkv->hv", q, state))
    return np.array(out)


@cache
def designed(heads: int, k: int, v: int, target: str = "small", **options: Any) -> Any:
    """Return a compiled RetNet."""
    return ps.compile(RETNET, target=target, heads=heads, dims={"k": k, "v": v}, **options)


@dataclass
class Pool:
    """Requests for a design, with what each gives alone: `alone`: golden's run of it; `exact`: float64's."""

    design: Any
    tokens: int = 5
    k: int = 20
    v: int = 5
    count: int = 6
    data: list[Data] = field(init=False)
    alone: list[NDArray[np.float64]] = field(init=False)
    exact: list[NDArray[np.float64]] = field(init=False)

    def __post_init__(self) -> None:
        heads = self.design.heads
        self.data = [data_of(n, self.tokens, heads, self.k, self.v) for n in range(self.count)]
        one = designed(heads, self.k, self.v, format=self.design.device.format, batch=1)
        runs = [one.run({n: x[:, None] for n, x in d.items()}, seed=SEED) for d in self.data]
        assert all(run.details["float64"]["within_bound"] for run in runs)
        self.alone = [run.result["y"][:, 0] for run in runs]
        self.exact = [in_float64(d) for d in self.data]


def arrive(pool: Pool, random: Random, backend: str, steps: int = 5, **options: Any) -> Any:
    """Play a plan: requests join, some from snapshots, take up to three tokens at once, and leave. Each output must be its run's, bit for
    bit, and within the bound of float64. Return what the session counted, and its last snapshots."""
    live: dict[Any, list[int]] = {}
    left: list[tuple[bytes, list[int]]] = []
    with pool.design.open(backend, seed=SEED, **options) as session:
        for _ in range(steps):
            for request in [r for r in live if random.random() < 0.2]:
                if random.random() < 0.7:
                    left.append((session.snapshot(request), live[request]))
                session.leave(request)
                del live[request]
            while session.free and random.random() < 0.7:
                if left and random.random() < 0.6:
                    state, place = left.pop()
                    live[session.join(state=state)] = place
                else:
                    live[session.join(seed=0)] = [random.randrange(pool.count), 0]
            given = {}
            for request, (which, at) in live.items():
                count = min(random.choice((1, 1, 2, 3)), pool.tokens - at)
                if count and random.random() < 0.6:
                    given[request] = part(pool.data[which], at, at + count)
            for request, y in session.step(given).items():
                which, at = live[request]
                assert (y == pool.alone[which][at : at + len(y)]).all(), (request, which, at)
                far = np.abs(y - pool.exact[which][at : at + len(y)]).max()
                assert far <= session.errors["bound"]
                live[request][1] = at + len(y)
        assert session.errors["within_bound"]
        last = [session.snapshot(request) for request in live]
        return session.cycles, dict(session.counters), last
