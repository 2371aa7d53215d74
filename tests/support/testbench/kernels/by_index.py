"""Kernels with rows of models, as text, and tables for them: drawn, but for the first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.models.target import Target

__all__ = [
    "FIELDS",
    "LRMF",
    "arrays",
    "bags",
    "batched",
    "columns",
    "computed",
    "fields",
    "one_tuple",
    "ratings",
    "with_channels",
]

LRMF = """kernel lrmf(u: index[m], i: index[n], r: output, P: model[m, k], Q: model[n, k], rate: meta = 0.25)
  error = sum(P[u] * Q[i]) - r
  P[u] += -rate * error * Q[i]
  Q[i] += -rate * error * P[u]
  init P = uniform(-1, 1, seed=1)
  init Q = uniform(-1, 1, seed=2)
  epochs 2
"""


def one_tuple(rng: np.random.Generator) -> str:
    """A kernel that reads rows of one or two tables and changes some, one of them twice, beside a table of single numbers."""
    value = rng.choice(["x * E[a]", "E[a] - F[b]", "sum(E[a] * F[b]) * F[b]", "x * F[b] + s[a]"])
    return _changed(rng, f"  v = {value}", 1)


def _changed(rng: np.random.Generator, lines: str, batch: int) -> str:
    changes = [
        f"E[a] {rng.choice(['+=', '-=', 'max=', 'min=', '<-'])} v",
        f"F[b] {rng.choice(['+=', '-='])} 0.25 * v",
        f"s[a] {rng.choice(['+=', 'max=', 'min='])} x",
        f"E[b] {rng.choice(['+=', '-='])} x * E[b]",
    ]
    rng.shuffle(changes)
    lines = "\n".join([lines, *(f"  {line}" for line in changes)])
    return f"""kernel drawn(a: index[n], b: index[n], x: input, E: model[n, k], F: model[n, k], s: model[n])
{lines}
  init E = uniform(-1, 1, seed=1)
  init F = uniform(-1, 1, seed=2)
  batch {batch}
"""


def batched(rng: np.random.Generator) -> str:
    """The same, of several tuples a batch: some models are only changed, some only read, some values are inputs or fixed for a run."""
    value = rng.choice(["x * E[a]", "E[a] - F[b]", "sum(E[a] * F[b]) * F[b]", "x + F[a] * 0.5"])
    return _changed(rng, f"  v = {value}", int(rng.integers(2, 20)))


def computed(rng: np.random.Generator) -> str:
    """The same with integers made of the indices, and with the place of the least of a row."""
    text = batched(rng)
    made = [
        "(a + 2 * b) % len({})",
        "hash(b - a, 3) % len({})",
        "(a * b // 3) % len({})",
        "(a % 3 - b % 2) % 16 % len({})",
    ]
    for table in "EFs":
        for index in "ab":
            if rng.random() < 0.5:
                one = str(rng.choice([*made, "(a + argmin(F[b] - x)) % len({})"])).format(table)
                text = text.replace(f"{table}[{index}]", f"{table}[{one}]")
    return text


def fields(rng: np.random.Generator) -> str:
    """Bags of three columns, beside an index of one: rows and numbers of each are read and changed, of one table by both bags."""
    value = rng.choice(["x * E[c]", "E[d] - s[a]", "sum(E[c] * F[d]) * F[d]", "x + E[c] * 0.5"])
    changes = [
        f"E[c] {rng.choice(['+=', '-=', 'max=', 'min=', '<-'])} v",
        f"E[d] {rng.choice(['+=', '-='])} 0.25 * F[d]",
        f"E[a] {rng.choice(['+=', '<-'])} x",
        f"F[d] {rng.choice(['+=', 'max='])} sum(v, axis=0)",
        f"s[c] {rng.choice(['+=', '<-', 'min='])} sum(E[c] * v, axis=1)",
        f"s[d] {rng.choice(['+=', '-='])} {rng.choice(['x', 's[c]', '0.5'])}",
    ]
    rng.shuffle(changes)
    lines = "\n".join(f"  {line}" for line in changes[: rng.integers(2, 7)])
    kept = "".join(f"\n  {t} <- {t}" for t in "EFs" if f"  {t}[" not in lines)
    return f"""kernel fields(a: index[n], c: index[n, 3], d: index[n, 3], x: input, E: model[n, k], F: model[n, k], s: model[n])
  v = {value}
{lines}{kept}
  init E = uniform(-1, 1, seed=1)
  init F = uniform(-1, 1, seed=2)
  init s = 0.5
  batch {rng.integers(1, 9)}
"""


def bags(rng: np.random.Generator) -> str:
    """The same with integers made of the bags, and values made of these."""
    text = fields(rng)
    made = [
        "(c + 2 * a) % len({})",
        "hash(d - c, 3) % len({})",
        "(c * d // 3) % len({})",
        "(d % 2 - c % 3) % 16 % len({})",
    ]
    for table in "EFs":
        for bag in "cd":
            if rng.random() < 0.5:
                one = str(rng.choice(made)).format(table)
                text = text.replace(f"  {table}[{bag}]", f"  {table}[{one}]")
    for plain, made_of in (("x", "number(a - 3)"), ("0.5", "sum(where(c < d, number(c), 0.5))")):
        for sign in ("+", "-"):
            if rng.random() < 0.5:
                text = text.replace(f"{sign}= {plain}\n", f"{sign}= {made_of}\n")
    return text


FIELDS = {"c": ["c0", "c1", "c2"], "d": ["d0", "d1", "d2"]}


def columns(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """What `FIELDS` names, of different counts."""
    table = {f"c{k}": rng.integers(0, k + 2, rows) for k in range(3)}
    for k in range(3):
        table[f"c{k}"][0] = k + 1
        table[f"d{k}"] = rng.permutation(table[f"c{2 - k}"])
    table["a"] = rng.integers(0, 9, rows)
    table["x"] = rng.uniform(-2, 2, rows).astype(np.float32)
    return table


def ratings(rng: np.random.Generator, rows: int, users: int, items: int) -> dict[str, np.ndarray]:
    return {
        "u": rng.integers(0, users, rows).astype(np.int32),
        "i": rng.integers(0, items, rows).astype(np.int16),
        "r": rng.uniform(-1, 1, rows).astype(np.float32),
    }


def arrays(rng: np.random.Generator, rows: int, n: int) -> dict[str, np.ndarray]:
    """The same kernels' bags as arrays, whose places are often one row."""
    table = {name: rng.integers(0, n, (rows, 3)) for name in "cd"}
    table["d"] = table["d"].astype(np.int32)
    table["a"] = rng.integers(0, n, rows)
    return table | {"x": rng.uniform(-2, 2, rows).astype(np.float32)}


def with_channels(part: Target, ports: int) -> Target:
    """Return a target with so many memory ports, and as many channels of memory."""
    return replace(part, ports=ports, memory=replace(part.memory, channels=ports))
