"""Layers of language models, as NumPy computes them: what feeds a recurrence, and what is made of its output.

Arrays are those of one request's tokens, (tokens, …), in the type of the weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: what a mixer keeps of a request between two steps
Held = dict[str, Any]
#: for each request the operands of a recurrence, by name; and what comes of them
Recur = Callable[[int, Mapping[Any, dict[str, Array]]], Mapping[Any, Array]]


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


@dataclass(frozen=True)
class Norm:
    """Root-mean-square normalisation of the last axis, or of each of its `groups`."""

    weight: Array
    eps: float
    groups: int = 1

    def __call__(self, x: Array) -> Array:
        y = x.reshape(*x.shape[:-1], self.groups, -1)
        squares = np.square(y, dtype=np.float64)  # beyond float32, a root of infinity would give 0
        y = y / np.sqrt(squares.mean(axis=-1, keepdims=True) + self.eps).astype(x.dtype)
        return y.reshape(x.shape) * self.weight


class Mixer(Protocol):
    """The part of a layer that has the recurrence."""

    def before(self, x: Array, held: Held) -> tuple[dict[str, Array], Any]:
        """Return the recurrence's operands (tokens, heads, …), and what `after` needs; bring `held` up to date."""

    def after(self, y: Array, rest: Any) -> Array:
        """Return what is added to the layer's input; `y`: (tokens, heads, dim_state)."""


@dataclass(frozen=True)
class Mamba2:
    """Mamba-2: projections and a convolution of some taps before the recurrence, a skip, a gate and a norm behind it.

    `sizes`: heads, dim of a head, groups of B and C, dim_state; `limit`: of the time step.
    """

    projection: Array
    taps: Array  #: (channels, taps)
    bias: Array
    step_bias: Array
    decay: Array  #: −A
    skip: Array
    norm: Norm
    output: Array
    sizes: tuple[int, int, int, int]
    limit: tuple[float, float]

    def before(self, x: Array, held: Held) -> tuple[dict[str, Array], Any]:
        heads, dim = self.sizes[:2]
        groups, state = self.sizes[2:]
        inner, tokens, before = heads * dim, len(x), self.taps.shape[1] - 1
        gate, mixed, step = np.split(x @ self.projection.T, [inner, -heads], axis=1)
        rows = held.get("window", np.zeros((before, mixed.shape[1]), dtype=x.dtype))
        rows = np.concatenate([rows, mixed])
        held["window"] = rows[len(rows) - before :]
        mixed = sum(rows[n : n + tokens] * self.taps[:, n] for n in range(before + 1)) + self.bias
        value, b, c = np.split(_silu(mixed), [inner, inner + groups * state], axis=1)
        value = value.reshape(tokens, heads, dim)
        b, c = (
            np.repeat(a.reshape(tokens, groups, state), heads // groups, axis=1) for a in (b, c)
        )
        step = np.clip(np.logaddexp(0, step + self.step_bias), *self.limit).astype(x.dtype)
        operands = {"rate": -np.expm1(-step * self.decay), "key": b, "query": c}
        return {**operands, "value": value * step[..., None]}, (gate, value)

    def after(self, y: Array, rest: Any) -> Array:
        gate, value = rest
        y = (y + self.skip[:, None] * value).reshape(len(y), -1)
        return np.asarray(self.norm(y * _silu(gate)) @ self.output.T)


@dataclass(frozen=True)
class Retention:
    """Retention and gated linear attention: q, k, v from projections, decays that are constants or come of a gate, a norm of each head and
    a gate behind the recurrence.

    `rates`: of each head, where they are constants: queries and keys are turned by their place then; `gates`: two projections and a bias
    of a decay for each element of the keys, whose logarithm is `scale` times the logarithm of a sigmoid, `least` at least.
    """

    query: Array
    key: Array
    value: Array
    gate: Array
    output: Array
    norm: Norm
    heads: int
    rates: Array | None
    gates: tuple[Array, Array, Array] | None
    scale: float = 1.0
    least: float | None = None

    def before(self, x: Array, held: Held) -> tuple[dict[str, Array], Any]:
        first = held.get("tokens", 0)
        held["tokens"] = first + len(x)
        split = lambda a: a.reshape(len(x), -1, len(self.query) // self.heads)
        q, k = split(x @ self.query.T), split(x @ self.key.T)
        v = (x @ self.value.T).reshape(len(x), k.shape[1], -1)
        if self.gates is not None:
            narrow, wide, bias = self.gates
            logs = -np.logaddexp(0, -(x @ narrow.T @ wide.T + bias)) * self.scale
            logs = logs if self.least is None else np.maximum(logs, self.least)
            rate = split(-np.expm1(logs)).astype(x.dtype)
        else:
            assert self.rates is not None
            rate = np.broadcast_to(self.rates, (len(x), self.heads))
            q, k = (_turned(a, first) for a in (q, k))
        shared = self.heads // k.shape[1]  # heads that have the same keys
        k, v = (np.repeat(a, shared, axis=1) for a in (k, v))
        rate = np.repeat(rate, self.heads // rate.shape[1], axis=1)
        return {
            "rate": rate,
            "key": k,
            "value": v,
            "query": q / q.dtype.type(q.shape[-1] ** 0.5),
        }, x

    def after(self, y: Array, rest: Any) -> Array:
        gate = _silu(rest @ self.gate.T)
        return np.asarray((self.norm(y).reshape(gate.shape) * gate) @ self.output.T)


def _turned(x: Array, first: int) -> Array:
    """Rotary embedding of base 10,000, the first half of an element's pairs before the second; `first`: the number of the first token."""
    half = x.shape[-1] // 2
    angle = (first + np.arange(len(x)))[:, None, None] * 10_000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


@dataclass(frozen=True)
class GatedMlp:
    """down(silu(gate x) ⊙ up x) behind a norm."""

    norm: Norm
    gate: Array
    up: Array
    down: Array

    def __call__(self, x: Array) -> Array:
        x = self.norm(x)
        return np.asarray((_silu(x @ self.gate.T) * (x @ self.up.T)) @ self.down.T)


@dataclass(frozen=True)
class Block:
    """A layer, whose input is added to what it makes."""

    norm: Norm
    mixer: Mixer
    mlp: GatedMlp | None = None


@dataclass(frozen=True)
class Network:
    """A model's layers. `sizes`: heads, dim_head and dim_state of the recurrences; `wide`: each element of a key has a decay of its own."""

    embedding: Array
    blocks: Sequence[Block]
    norm: Norm
    head: Array
    sizes: tuple[int, int, int]
    wide: bool

    def logits(
        self, ids: Mapping[Any, Sequence[int]], held: Mapping[Any, list[Held]], recur: Recur
    ) -> dict[Any, Array]:
        """Return logits (tokens, vocabulary) of each request's ids. Each is computed alone, so that its bits do not depend on its neighbours;
        but for the recurrences, which `recur` takes layer by layer."""
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # what is not finite is an error of `recur`, or of the caller's
            return self._logits(ids, held, recur)

    def _logits(
        self, ids: Mapping[Any, Sequence[int]], held: Mapping[Any, list[Held]], recur: Recur
    ) -> dict[Any, Array]:
        x = {who: self.embedding[np.asarray(tokens, dtype=np.int64)] for who, tokens in ids.items()}
        for number, block in enumerate(self.blocks):
            mixes = {who: block.mixer.before(block.norm(x[who]), held[who][number]) for who in x}
            ys = recur(number, {who: operands for who, (operands, _) in mixes.items()})
            for who, (_, rest) in mixes.items():
                y = np.asarray(ys[who]).astype(self.head.dtype)
                x[who] = x[who] + block.mixer.after(y, rest)
                if block.mlp is not None:
                    x[who] = x[who] + block.mlp(x[who])
        return {who: self.norm(vectors) @ self.head.T for who, vectors in x.items()}


def exact(held: Mapping[Any, list[Held]]) -> Recur:
    """Return recurrences in the numbers of their operands; states are kept beside what mixers keep."""

    def one(memory: Held, operands: Mapping[str, Array]) -> Array:
        key, value, query = (operands[n] for n in ("key", "value", "query"))
        state = memory.get("state", np.zeros(key.shape[1:] + value.shape[2:], dtype=key.dtype))
        rate = operands["rate"].reshape(*operands["rate"].shape[:2], -1, 1)
        out = np.empty_like(value)
        for token in range(len(key)):
            state = state - rate[token] * state + key[token][..., None] * value[token][:, None, :]
            out[token] = (query[token][:, None, :] @ state)[:, 0]
        memory["state"] = state
        return out

    return lambda number, operands: {who: one(held[who][number], x) for who, x in operands.items()}
