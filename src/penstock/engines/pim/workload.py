"""A run of a recurrence: tokens of all heads and requests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.engines.base import Cycles, Given, Result, Workload
from penstock.errors import Conflict
from penstock.host.sources import SourceError
from penstock.models.memory import Memory
from penstock.models.numerics.floating import float32
from penstock.models.pim.layout import Layout, Operands
from penstock.models.pim.program import BUS, cycles_of
from penstock.sim.machine import PAGE, Metered, round_up

from .design import PimDesign

__all__ = ["Stepping"]

Floats = NDArray[np.float64]
TOKENS = 4


@dataclass(frozen=True)
class _Bound:
    """The least cycles: iterations of the units, or words of program and results at the memory port."""

    iterations: int
    memory: int

    @property
    def cycles(self) -> int:
        return max(self.iterations, self.memory)

    @property
    def by(self) -> str:
        terms = vars(self)
        return max(terms, key=lambda name: terms[name])


class Stepping(Workload):
    """Tokens of a recurrence, or queries of a cache."""

    results_with_model = False

    def __init__(
        self,
        design: PimDesign,
        data: Mapping[str, Floats],
        tokens: int,
        name: str,
        assumed: bool,
        seed: int,
    ) -> None:
        self.design, self.data, self.tokens = design, data, tokens
        self.name, self.assumed, self.rows = name, assumed, tokens
        self.layout: Layout = design.layout(tokens, seed)

    @classmethod
    def of(cls, design: PimDesign, given: Given) -> Stepping:
        """Return the run on what was given. Raises SourceError, Conflict."""
        if given.option("on_nan") not in (None, "error"):
            raise Conflict(
                f"--on-nan {given.option('on_nan')} is not for recurrences: a block cannot hold NaN, and a token "
                "cannot be left out",
                "leave --on-nan out: a NaN is an error",
            )
        for option, own in (("batch", design.batch), ("heads", design.heads)):
            if given.option(option) not in (None, own):
                raise Conflict(
                    f"the design is made for --{option} {own}",
                    f"compile it with --{option} {given.option(option)}",
                )
        seed = 1 if given.seed is None else int(given.seed)
        source = given.data
        recurrent = design.recurrent
        tokens = given.option("tokens")
        if source is None or isinstance(source, str):
            if given.rows is not None and tokens is None:
                tokens = given.rows
            tokens = TOKENS if tokens is None else int(tokens)
            seed = _seed(source, seed)
            data = _random(design, tokens, seed)
            name = "random" if source is not None else "assumed"
            return cls(design, data, tokens, name, source is None, seed)
        data, found = _arrays(design, source, tokens)
        del recurrent
        return cls(design, data, found, given.place or "arrays", False, seed)

    # -- what the host computes before and after

    @cached_property
    def _leaves(self) -> dict[str, Floats]:
        """Inputs with tokens and items in one axis."""
        return {
            name: value.reshape(-1, *value.shape[3:])
            for name, value in self.data.items()
            if name != self.design.recurrent.state
        }

    def _host(self, node: int | None, size: int, one: bool = False) -> Floats | None:
        """Return an operand (tokens, items, size); None where there is none."""
        if node is None and not one:
            return None
        shape = (self.tokens, self.layout.items, size)
        if node is None:
            return np.ones(shape)
        leaves = self._leaves or {"": np.zeros((self.tokens * self.layout.items, 1))}
        value = self.design.recurrent.host(leaves, node)
        value = value.reshape(len(value), -1)
        full = np.broadcast_to(value, (len(value), size)).reshape(shape)
        if not np.isfinite(full).all():
            raise SourceError(
                "an operand of the unit is NaN or infinite, which a block cannot hold",
                "look at the inputs, and at divisions and exp in the kernel",
                code="E703",
            )
        return full

    @cached_property
    def _run(self) -> tuple[Any, Any]:
        recurrent, layout = self.design.recurrent, self.layout
        update = recurrent.mode == "update"
        state = self.data.get(recurrent.state)
        if state is not None:
            state = state.reshape(-1, *state.shape[2:])
            if recurrent.turned or not update:
                state = state.swapaxes(1, 2)
        operands = Operands(
            state,
            self._host(recurrent.q, layout.head),
            self._host(recurrent.d, layout.head, one=True) if update else None,
            self._host(recurrent.k, layout.head),
            self._host(recurrent.v, layout.columns),
        )
        return layout.program(operands)

    # -- the run

    def _codes(self, out: NDArray[np.uint8]) -> Result:
        made, _ = self._run
        y, state = self.layout.results(made, out)
        codes = {"y": float32.encode(y)}
        if state is not None:
            codes[self.design.recurrent.state] = float32.encode(state)
        facts = {"results": hashlib.sha256(out.tobytes()).hexdigest()[:16]}
        return Result(codes, None, facts)

    def golden(self) -> Result:
        made, steps = self._run
        out, saturated = self.layout.play(made, steps)
        result = self._codes(out)
        return Result(result.codes, None, result.facts, {"saturated": saturated})

    @property
    def _results_at(self) -> int:
        return round_up(self._run[0].words.nbytes)

    def model(self, memory: Memory) -> Cycles:
        made, _ = self._run
        cycles = cycles_of(made, {"m0": memory}, 0, self._results_at)
        compute = sum(
            c.count * made.schedule.interval for c in made.schedule.commands if c.name == "COMP"
        )
        count = int(made.reads.sum())
        words = memory.least(len(made.words), 4 * count, BUS)
        bound = _Bound(compute // self.design.device.sets, words)
        starts = made.schedule.starts
        facts = {"dram_cycles": made.schedule.length, "rounds": max(map(len, starts))}
        counters = {"commands": len(made.waits), "stalled": cycles.stalled}
        read, written = made.words.nbytes, 32 * count
        return Cycles(cycles.total, bound, counters, facts, read, written)

    def memory_bytes(self) -> int:
        made, _ = self._run
        return self._results_at + round_up(32 * int(made.reads.sum()) + 1, PAGE)

    def drive(self, machine: Metered) -> Result:
        made, _ = self._run
        count = int(made.reads.sum())
        machine.write(0, made.words.view(np.uint8))
        machine.reserve(self._results_at, round_up(32 * count + 1, PAGE))
        ended = machine.run(
            {
                "program": 0,
                "words": len(made.words),
                "results": self._results_at,
                "result_words": 4 * count,
            }
        )
        if ended.error is not None:
            return Result(None, ended.error)
        out = machine.read(self._results_at, 32 * count).reshape(-1, 32)
        return self._codes(np.array(out))

    def values(self, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        recurrent, design = self.design.recurrent, self.design
        y = float32.decode(codes["y"])
        leaves = {**self._leaves, "": y.reshape(-1, y.shape[-1])}
        value = recurrent.host(leaves, recurrent.output)
        shape = (self.tokens, design.batch, design.heads)
        found = {"y": value.reshape(*shape, *value.shape[1:])}
        if recurrent.state in codes:
            state = float32.decode(codes[recurrent.state])
            if recurrent.turned:
                state = state.swapaxes(1, 2)
            found[recurrent.state] = state.reshape(design.batch, design.heads, *state.shape[1:])
        return found


def _seed(source: Any, seed: int) -> int:
    """Return the seed of a text `random:seed=…`. Raises SourceError."""
    if source is None:
        return seed
    kind, _, rest = source.partition(":")
    if kind != "random":
        raise SourceError(
            f"cannot read {source}", "write random:seed=1, or a file .npz", code="E701"
        )
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        if name == "rows":
            continue
        if name != "seed" or not value.isdigit():
            raise SourceError(f"random data have no {part}", "write random:seed=1", code="E701")
        seed = int(value)
    return seed


def _shapes(design: PimDesign) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter for one head."""
    recurrent = design.recurrent
    declared = dict(recurrent.dims)
    sizes: dict[str, int] = {}
    for name, size in zip(declared[recurrent.state], recurrent.sizes, strict=True):
        assert size is not None
        sizes[str(name)] = size
    sizes |= design_sizes(design)
    return {
        name: tuple(int(d) if isinstance(d, int) else sizes[d] for d in dims)
        for name, dims in declared.items()
    }


def design_sizes(design: PimDesign) -> dict[str, int]:
    """Return sizes of dimensions that are not the state's."""
    return dict(design.recurrent.extra_sizes)


def _random(design: PimDesign, tokens: int, seed: int) -> dict[str, Floats]:
    """Return random inputs: normal, decays uniform between 0.8 and 1; a state of a recurrence begins at 0."""
    rng, recurrent = np.random.default_rng(seed), design.recurrent
    found: dict[str, Floats] = {}
    decay = recurrent.decays()
    for name, shape in _shapes(design).items():
        lead = (design.batch, design.heads)
        if name == recurrent.state:
            if recurrent.mode != "update":
                found[name] = rng.normal(size=(*lead, *shape))
        elif name in decay:
            found[name] = rng.uniform(0.8, 1.0, size=(tokens, *lead, *shape))
        else:
            found[name] = rng.normal(size=(tokens, *lead, *shape))
    return found


def _arrays(design: PimDesign, source: Any, tokens: int | None) -> tuple[dict[str, Floats], int]:
    """Return the arrays that a user gave, by parameter, and the tokens. Raises SourceError."""
    recurrent = design.recurrent
    shapes = _shapes(design)
    given = {str(name): np.asarray(value, dtype=np.float64) for name, value in dict(source).items()}
    if unknown := sorted(given.keys() - shapes.keys()):
        raise SourceError(
            f"the data have an array {unknown[0]!r}, which is no parameter of {recurrent.name}",
            f"its parameters are {', '.join(shapes)}",
            code="E704",
        )
    lead = (design.batch, design.heads)
    found: dict[str, Floats] = {}
    for name, shape in shapes.items():
        is_state = name == recurrent.state
        if name not in given:
            if is_state and recurrent.mode == "update":
                continue
            raise SourceError(
                f"the data have no array {name!r}",
                f"it has the shape {_said(design, name, shape)}",
                code="E704",
            )
        value = given[name]
        full = (*lead, *shape) if is_state else (-1, *lead, *shape)
        rank = len(full)
        if value.ndim == rank - 2 and lead == (1, 1):
            value = value.reshape(
                *(() if is_state else value.shape[:1]), 1, 1, *value.shape[0 if is_state else 1 :]
            )
        own = tuple(n for n, w in zip(value.shape, full, strict=False) if w >= 0)
        if value.ndim != rank or own != tuple(w for w in full if w >= 0):
            raise SourceError(
                f"the array {name!r} has the shape {given[name].shape}",
                f"it must be {_said(design, name, shape)}",
                code="E704",
            )
        if not np.isfinite(value).all():
            where = tuple(int(n) for n in np.argwhere(~np.isfinite(value))[0])
            raise SourceError(
                f"{name}{list(where)} is {value[where]}, which a block cannot hold",
                "recurrences take finite numbers alone",
                code="E703",
            )
        found[name] = value
    counts = {name: len(value) for name, value in found.items() if name != recurrent.state}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise SourceError(
            f"the arrays have different numbers of tokens: {listed}",
            "tokens come first",
            code="E704",
        )
    have = next(iter(counts.values()))
    if tokens is not None and tokens > have:
        raise SourceError(
            f"the data have {have} tokens, not {tokens}", f"write --tokens {have}", code="E704"
        )
    many = have if tokens is None else tokens
    return {n: v if n == recurrent.state else v[:many] for n, v in found.items()}, many


def _said(design: PimDesign, name: str, shape: tuple[int, ...]) -> str:
    words = [str(design.batch), str(design.heads), *map(str, shape)]
    if name != design.recurrent.state:
        words.insert(0, "tokens")
    return f"({', '.join(words)}): requests, heads" + (
        " behind tokens" if words[0] == "tokens" else ""
    )
