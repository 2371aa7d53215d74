"""The data of a recurrence: arrays as a user gives them, held against its parameters, and the operands that the host
makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.policies import input_policy
from penstock.dsl.pim.recurrent import Recurrent
from penstock.engines.base import Given
from penstock.errors import Conflict, RunWarning
from penstock.host.sources.errors import SourceError, table_error
from penstock.host.sources.files import read_npz

Floats = NDArray[np.float64]
TOKENS = 4
MOST_TOKENS = 1 << 20


def opened(source: Any) -> Any:
    """Return the arrays of a file .npz or of a dictionary by name, and a text for data that are made when their
    sizes are known as it is. Raises SourceError."""
    if source is None:
        return None
    if not isinstance(source, str):
        return _mapped(source)
    if source.startswith("random:"):
        _random(source)
        return source
    if not source.endswith(".npz"):
        hint = "write random:seed=1, or a file .npz"
        raise SourceError(f"recurrences read arrays, not {source}", hint, code="E701")
    return read_npz(Path(source))


def _mapped(source: Any) -> dict[str, NDArray[Any]]:
    """Return given arrays by name. Raises SourceError."""
    hint = "give a dictionary of arrays, random:seed=1, or a file .npz"
    if not isinstance(source, Mapping):
        raise SourceError(
            f"recurrences read arrays by name, not {type(source).__name__}", hint, code="E701"
        )
    arrays = {}
    for name, value in source.items():
        try:
            arrays[str(name)] = np.asarray(value)
        except ValueError:
            raise table_error(
                f"{name} is no array: its rows have different lengths", hint
            ) from None
    return arrays


def policy_of(args: Given, format: str, default: str = "error") -> bool:
    """Return whether values beyond the format's range are saturated; `default`: of --on-overflow. Raises Conflict, KernelError."""
    if args.option("on_nan") not in (None, "error"):
        what = f"--on-nan {args.option('on_nan')} is not for recurrences: a block cannot hold NaN, and a token cannot be left out"
        raise Conflict(what, "leave --on-nan out: a NaN is an error")
    chosen = args.option("on_overflow", default)
    return input_policy(chosen, has_nan=False, format=format, rows=False).saturates


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a run takes in. `arrays`: by parameter, (tokens, requests, heads, …), the state without tokens; `bare`:
    those that were given without requests and heads; `alone`: those of a session's request, given without requests; `group`: heads that share a
    cache; `turns`: of each token, where the heads of a group take turns."""

    recurrent: Recurrent
    batch: int
    heads: int
    tokens: int
    arrays: Mapping[str, Floats]
    bare: frozenset[str] = field(default_factory=frozenset)
    alone: bool = False
    group: int = 1
    turns: int = 1

    @classmethod
    def random(
        cls, recurrent: Recurrent, batch: int, heads: int, tokens: int, seed: int, group: int = 1
    ) -> Inputs:
        """Return random inputs: normal, decays uniform between 0.8 and 1; a state of a recurrence begins at 0."""
        rng, decay, rates = np.random.default_rng(seed), recurrent.decays(), recurrent.rates()
        arrays: dict[str, Floats] = {}
        for name, shape in shapes_of(recurrent).items():
            lead = (batch, heads // group if name in recurrent.of_cache else heads)
            if name in recurrent.states:
                if recurrent.mode != "update" and not recurrent.grows:
                    arrays[name] = rng.normal(size=(*lead, *shape))
            elif name in decay:
                arrays[name] = rng.uniform(0.8, 1.0, size=(tokens, *lead, *shape))
            elif name in rates:
                arrays[name] = rng.uniform(0.0, 0.2, size=(tokens, *lead, *shape))
            else:
                arrays[name] = rng.normal(size=(tokens, *lead, *shape))
        return cls(recurrent, batch, heads, tokens, arrays, group=group)

    @classmethod
    def of(
        cls,
        recurrent: Recurrent,
        batch: int | None,
        heads: int,
        source: Any,
        tokens: int | None,
        group: int = 1,
    ) -> Inputs:
        """Return the arrays that a user gave; `tokens`: how many of them, all without; `batch`: None for those of a session's
        request, which have no axis of requests and no state. Raises SourceError."""
        arrays, shapes = _mapped(source), shapes_of(recurrent)
        if batch is None:
            shapes = {n: shape for n, shape in shapes.items() if n not in recurrent.states}
        if unknown := sorted(arrays.keys() - shapes.keys()):
            kept = batch is None and unknown[0] in recurrent.states
            raise table_error(
                f"the data have an array {unknown[0]!r}, which "
                + ("the session keeps" if kept else f"is no parameter of {recurrent.name}"),
                "join(state=snapshot) brings a state"
                if kept
                else f"its parameters are {', '.join(shapes)}",
            )
        inputs: dict[str, Floats] = {}
        bare = set()
        for name, shape in shapes.items():
            count = heads // group if name in recurrent.of_cache else heads
            lead = (count,) if batch is None else (batch, count)
            if name not in arrays:
                if name in recurrent.states and (recurrent.mode == "update" or recurrent.grows):
                    continue
                text = _said(lead, shape, name in recurrent.states)
                raise table_error(f"the data have no array {name!r}", f"it has the shape {text}")
            value, is_bare = _shaped(name, arrays[name], lead, shape, name in recurrent.states)
            if is_bare:
                bare.add(name)
            inputs[name] = value[:, None] if batch is None else value
        many = _counted(recurrent, inputs, tokens)
        cut = {n: v if n in recurrent.states else v[:many] for n, v in inputs.items()}
        return cls(recurrent, batch or 1, heads, many, cut, frozenset(bare), batch is None, group)

    def warn_of_first(self) -> None:
        """Warn of a state that goes on without the number of its token: random bits would begin anew."""
        if self.recurrent.mode == "update" and self.recurrent.state in self.arrays:
            warnings.warn(
                f"the run goes on from a state {self.recurrent.state} without the number of its first token: "
                "with first=N (--first N) its random bits are those of one run over all tokens",
                RunWarning,
                stacklevel=2,
            )

    def part(self, number: int, more: Mapping[str, Floats] | None = None) -> Inputs:
        """Return what one of the recurrence's parts takes; `more`: arrays that the data do not have."""
        recurrent, arrays = self.recurrent.parts[number], {**self.arrays, **(more or {})}
        kept = {name: arrays[name] for name, _ in recurrent.dims if name in arrays}
        return replace(self, recurrent=recurrent, arrays=kept)

    def in_turns(self) -> Inputs:
        """Return it with the heads of caches, whose groups take turns: each token is as many of them."""
        if self.group == 1:
            return self
        many, few, shared = self.group, self.heads // self.group, self.recurrent.of_cache
        arrays = {}
        for name, x in self.arrays.items():
            if name not in self.recurrent.states and name in shared:
                x = np.repeat(x, many, axis=0)
            elif name not in shared:
                x = np.moveaxis(x.reshape(*x.shape[:2], few, many, *x.shape[3:]), 3, 1)
                x = x.reshape(self.tokens * many, *x.shape[2:])
            arrays[name] = x
        tokens = self.tokens * many
        return replace(self, heads=few, tokens=tokens, arrays=arrays, group=1, turns=many)

    def in_heads(self, y: Floats) -> Floats:
        """Return outputs (turns, requests · caches, …) as (tokens, requests · heads, …)."""
        few = self.items // self.group
        y = np.moveaxis(y.reshape(self.tokens, self.group, few, *y.shape[2:]), 1, 2)
        return y.reshape(self.tokens, self.items, *y.shape[3:])

    def place(self, token: int, item: int) -> tuple[int, int, int]:
        """Return token, request and head of a turn."""
        request, head = divmod(item, self.heads)
        token, turn = divmod(token, self.turns)
        return token, request, head * self.turns + turn

    @property
    def items(self) -> int:
        return self.batch * self.heads

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter for one head."""
        return shapes_of(self.recurrent)


def _random(source: str) -> dict[str, int]:
    """Return `seed` and `rows` of a text `random:rows=…,seed=…`, those that it has. Raises SourceError."""
    numbers = {}
    for part in filter(None, source.removeprefix("random:").split(",")):
        name, _, value = part.partition("=")
        known = name in ("seed", "rows") and value.isdecimal() and value.isascii()
        if not known or (name == "rows" and not 1 <= int(value) <= MOST_TOKENS):
            hint = f"write random:seed=1, or random:rows={TOKENS},seed=1 for {TOKENS} tokens"
            raise SourceError(f"random data of recurrences have no {part}", hint, code="E701")
        numbers[name] = int(value)
    return numbers


def seed_of(source: Any, seed: int | None) -> int:
    """Return the seed of random data, 1 where nothing is said. Raises SourceError."""
    default = 1 if seed is None else int(seed)
    return _random(source).get("seed", default) if isinstance(source, str) else default


def bits_of(source: Any, seed: int | None) -> int:
    """Return the seed of the bits of stochastic rounding: the run's, or that of random data."""
    return seed_of(source, None) if seed is None else int(seed)


def tokens_of(source: str | None, tokens: int | None, rows: int | None) -> int:
    """Return how many tokens random data have: as `tokens` says, or the data's rows, or `rows`. Raises SourceError,
    Conflict."""
    source_rows = None if source is None else _random(source).get("rows")
    if source_rows is not None and tokens not in (None, source_rows):
        what = f"--tokens {tokens} and {source_rows} rows of random data are two numbers of tokens"
        raise Conflict(what, "leave one of them out")
    choices = [n for n in (tokens, source_rows, rows) if n is not None]
    return int(choices[0]) if choices else TOKENS


def shapes_of(recurrent: Recurrent) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter for one head."""
    declared = dict(recurrent.dims)
    sizes: dict[str, int] = {}
    for name, size in zip(declared[recurrent.state], recurrent.sizes, strict=True):
        assert size is not None
        sizes[str(name)] = size
    sizes |= dict(recurrent.extra_sizes)
    return {
        name: tuple(int(d) if isinstance(d, int) else sizes[d] for d in dims)
        for name, dims in declared.items()
    }


def _numbers(name: str, value: NDArray[Any]) -> Floats:
    """Return an array in float64. Raises SourceError where it holds no real numbers."""
    if value.dtype.kind not in "biuf":
        kinds = {"U": "text", "S": "bytes", "c": "complex numbers", "O": "Python objects"}
        what = kinds.get(value.dtype.kind, f"values of the type {value.dtype}")
        raise table_error(f"the array {name!r} holds {what}, not real numbers", "make it float64")
    return value.astype(np.float64)


def _counted(recurrent: Recurrent, arrays: Mapping[str, Floats], tokens: int | None) -> int:
    """Return how many tokens the arrays have, or those of them that are wanted. Raises SourceError."""
    counts = {name: len(value) for name, value in arrays.items() if name not in recurrent.states}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise table_error(
            f"the arrays have different numbers of tokens: {listed}", "tokens come first"
        )
    have = next(iter(counts.values()))
    if not have:
        raise table_error("the arrays have no tokens", "tokens come first")
    if tokens is not None and tokens > have:
        raise table_error(f"the data have {have} tokens, not {tokens}", f"write --tokens {have}")
    return have if tokens is None else tokens


def _shaped(
    name: str, array: NDArray[Any], lead: tuple[int, ...], shape: tuple[int, ...], is_state: bool
) -> tuple[Floats, bool]:
    """Return an array in float64 with the axes `lead`, and whether it was given without them. Raises SourceError."""
    value = _numbers(name, array)
    full = (*lead, *shape) if is_state else (-1, *lead, *shape)
    bare = value.ndim == len(full) - len(lead) and set(lead) == {1}
    if bare:
        at = 0 if is_state else 1
        value = value.reshape(*value.shape[:at], *lead, *value.shape[at:])
    if value.ndim != len(full) or any(
        n != w for n, w in zip(value.shape, full, strict=True) if w >= 0
    ):
        text = _said(lead, shape, is_state)
        raise table_error(f"the array {name!r} has the shape {array.shape}", f"it must be {text}")
    if not np.isfinite(value).all():
        where = np.argwhere(~np.isfinite(array))[0].tolist()
        what = f"{name}{where} is {array[tuple(where)]}, which a block cannot hold"
        raise SourceError(what, "recurrences take finite numbers alone", code="E842")
    return value, bare


def _said(lead: tuple[int, ...], shape: tuple[int, ...], is_state: bool) -> str:
    words = [*map(str, (*lead, *shape))]
    axes = "heads" if len(lead) == 1 else "requests, heads"
    if is_state:
        return f"({', '.join(words)}): {axes}"
    return f"({', '.join(['tokens', *words])}): {axes} behind tokens"
