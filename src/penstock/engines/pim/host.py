"""What the host computes of a recurrence, from token to token: the units' operands, its own states, the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.pim.recurrent import Recurrent
from penstock.host.sources.errors import SourceError
from penstock.models.pim import rate
from penstock.models.pim.operands import Operands, Work, beyond, largest

if TYPE_CHECKING:
    from .data import Inputs

Floats = NDArray[np.float64]
_NAMES = {"d": "decays", "k": "keys", "v": "values", "q": "queries"}
#: passes of tokens, each its number and the token's
Batch = Sequence[tuple[int, int]]


def batches(recurrent: Recurrent, tokens: int) -> Iterator[Batch]:
    """Return the passes of a run in their order, parted where the host must have results before it knows operands: a program each."""
    batch: list[tuple[int, int]] = []
    for token in range(tokens):
        for number, one in enumerate(recurrent.passes):
            if one.waits and any(recurrent.passes[n].result is not None for n, _ in batch):
                yield batch
                batch = []
            batch.append((number, token))
    yield batch


def worked(
    batch: Batch, operands: Callable[[int, int, int], Operands]
) -> tuple[list[Work], list[tuple[int, int]]]:
    """Return what `Layout.steps` takes of a batch; `operands`: of a pass, for tokens from one to another."""
    tokens: dict[int, list[int]] = {}
    for number, token in batch:
        tokens.setdefault(number, []).append(token)
    works = [Work(n, at[0], operands(n, at[0], at[-1] + 1)) for n, at in tokens.items()]
    place = {number: which for which, number in enumerate(tokens)}
    return works, [(place[n], token - tokens[n][0]) for n, token in batch]


class Course:
    """A run of a recurrence as the host has it. `values`: inputs and results, (tokens, items, …) each, by name; `held`: its states before each
    token and behind the last; `beyond`: how many numbers lay beyond the format and are its end now.

    Parameters: `saturates`: whether there may be such, else they raise SourceError; `defers`: whether those among operands that are made of
    results do not, but are in `lost`; `held`: states of the host where the data have none; `like`: a course with the same of all these, whose
    operands that are made of no results need not be computed again.
    """

    def __init__(
        self,
        inputs: Inputs,
        format: str,
        saturates: bool,
        held: Mapping[str, Floats] | None = None,
        defers: bool = False,
        like: Course | None = None,
    ) -> None:
        self.inputs, self.recurrent, self.format = inputs, inputs.recurrent, format
        self.saturates, self.defers = saturates, defers
        self.beyond = 0
        self.lost: SourceError | None = None
        self._known: dict[int, Operands]
        self._end = largest(format)
        tokens, items = inputs.tokens, inputs.items
        self.values = {
            name: value.reshape(tokens, items, *value.shape[3:])
            for name, value in inputs.arrays.items()
            if name not in self.recurrent.states
        }
        rows, columns = self.recurrent.shape
        wide = rows if self.recurrent.mode == "score" else columns
        assert wide is not None
        for name in self.recurrent.results:
            self.values[name] = np.zeros((tokens, items, wide))
        self.start = self._start()
        self.held = self._begun(held or {})
        for token in range(tokens if self.held else 0):
            self._advance(token, [n for n in self.held if n not in self.recurrent.late])
        if like is not None:
            self._known, self.beyond = like._known, like.beyond
            return
        known = [n for n, one in enumerate(self.recurrent.passes) if not one.waits]
        self._known = {number: self._operands(number, 0, tokens) for number in known}

    def _start(self) -> Floats | None:
        """The state that is given, (items, dim_head, dim_state)."""
        recurrent, start = self.recurrent, self.inputs.arrays.get(self.recurrent.state)
        if start is None:
            return None
        self._check(recurrent.state, start, None, 0)
        state = start.reshape(-1, *start.shape[2:])
        if recurrent.turned or recurrent.mode != "update":
            state = state.swapaxes(1, 2)
        return np.clip(state, -self._end, self._end)

    def _begun(self, held: Mapping[str, Floats]) -> dict[str, Floats]:
        histories, shapes = {}, self.inputs.shapes
        for name, _ in self.recurrent.held:
            states = np.zeros((self.inputs.tokens + 1, self.inputs.items, *shapes[name]))
            start = self.inputs.arrays.get(name, held.get(name))
            if start is not None:
                states[0] = start.reshape(states.shape[1:])
            histories[name] = states
        return histories

    def _node(self, node: int, begin: int, end: int) -> Floats:
        """Return a node of some tokens, (tokens · items, …)."""
        values = {**self.values, **{name: x[:-1] for name, x in self.held.items()}}
        return self.recurrent.host(
            {name: x[begin:end].reshape(-1, *x.shape[2:]) for name, x in values.items()}, node
        )

    def _advance(self, token: int, names: Sequence[str]) -> None:
        """Compute states of the host behind a token."""
        nodes = dict(self.recurrent.held)
        for name in names:
            value = self._node(nodes[name], token, token + 1)
            self.held[name][token + 1] = value
            if not np.isfinite(value).all():
                where = self._place(np.argwhere(~np.isfinite(value))[0], token)
                self._refuse(
                    SourceError(
                        f"the state {name}, which the host computes, is NaN or infinite behind {where}",
                        "look at the inputs, and at divisions and exp in the kernel",
                        code="E842",
                    ),
                    name in self.recurrent.late,
                )

    def took(
        self, works: Sequence[Work], order: Sequence[tuple[int, int]], y: Floats, begin: int = 0
    ) -> None:
        """Take the results (passes of tokens, items, columns) of a batch, whose tokens count from `begin` on."""
        passes = self.recurrent.passes
        for (which, at), output in zip(order, y, strict=True):
            number, token = works[which].number, begin + works[which].first + at
            name = passes[number].result
            if name is not None:
                self.values[name][token] = output
            if number == len(passes) - 1:
                self._advance(token, self.recurrent.late)

    def complete(self, results: Mapping[str, Floats]) -> None:
        """Take all results of a run."""
        for name in self.recurrent.results:
            self.values[name][:] = results[name]
        for token in range(self.inputs.tokens if self.recurrent.late else 0):
            self._advance(token, self.recurrent.late)

    def output(self, begin: int = 0, end: int | None = None) -> Floats:
        """Return the result of all tokens, or of some, (tokens, items, …)."""
        end = self.inputs.tokens if end is None else end
        value = self._node(self.recurrent.output, begin, end)
        return value.reshape(end - begin, self.inputs.items, *value.shape[1:])

    # -- operands

    def operands(self, number: int, begin: int, end: int) -> Operands:
        """Return the operands of a pass for some tokens, in float64 (of decays, the rates). Raises SourceError for numbers that the format does
        not hold."""
        if (known := self._known.get(number)) is None:
            return self._operands(number, begin, end)
        return Operands(*(None if x is None else x[begin:end] for x in known))

    def _operands(self, number: int, begin: int, end: int) -> Operands:
        one, (rows, columns) = self.recurrent.passes[number], self.recurrent.shape
        assert rows is not None and columns is not None
        update = self.recurrent.mode == "update"
        head, many = (rows, columns) if update else (columns, rows)
        operands: dict[str, Floats] = {}
        for name, size in (("q", head), ("k", head), ("v", many)):
            node = getattr(one, name)
            if node is not None:
                value = self._finite(name, node, begin, end, one.waits)
                self._check(name, value, node, begin, one.waits)
                value = np.broadcast_to(np.clip(value, -self._end, self._end), (len(value), size))
                operands[name] = value.reshape(end - begin, -1, size)
        if one.d is not None:
            operands["c"] = self._rates(one.d, begin, end, one.waits)
        return Operands(**operands)

    def first_update(self, tokens: int) -> Operands:
        """Return the operands of the first update, or of the only pass, of the first tokens."""
        first = next((n for n, one in enumerate(self.recurrent.passes) if one.k is not None), 0)
        return self.operands(first, 0, tokens)

    def _rates(self, node: int, begin: int, end: int, waits: bool) -> Floats:
        """Return the rates 1 − d (tokens, items, dim_head or 1)."""
        rate_node = self.recurrent.rate(node)
        value = self._finite("d", node, begin, end, waits)
        rates = 1 - value if rate_node is None else self._finite("d", rate_node, begin, end, waits)
        wrong = rate.beyond(rates)
        if wrong.any() and not self.saturates:
            limits = "that decays may have", rate.LARGEST, ""
            self._refuse(self._outside("d", node, value, wrong, limits, begin), waits)
        self.beyond += int(wrong.sum())
        rates = np.clip(rates, -rate.LARGEST, rate.LARGEST) if wrong.any() else rates
        return rates.reshape(end - begin, self.inputs.items, -1)

    def _refuse(self, problem: SourceError, waits: bool) -> None:
        if not (waits and self.defers):
            raise problem
        self.lost = self.lost or problem

    def _finite(self, name: str, node: int, begin: int, end: int, waits: bool) -> Floats:
        """Return an operand (tokens · items, its size). Raises SourceError where it is no number."""
        value = self._node(node, begin, end)
        value = np.asarray(value.reshape(len(value), -1), dtype=np.float64)
        if not np.isfinite(value).all():
            place = self._place(np.argwhere(~np.isfinite(value))[0], begin)
            problem = SourceError(
                f"{_NAMES[name]} of the unit, which the host computes, are NaN or infinite at {place}, which a block "
                "cannot hold",
                "look at the inputs, and at divisions and exp in the kernel",
                code="E842",
            )
            self._refuse(problem, waits)
            value = np.nan_to_num(value)
        return value

    def _place(self, index: NDArray[np.int64], begin: int) -> str:
        token, item = divmod(int(index[0]), self.inputs.items)
        token, request, head = self.inputs.place(begin + token, item)
        whose = "" if self.inputs.alone else f" request {request},"
        element = f", element {index[1]}" if len(index) > 1 else ""
        return f"token {token},{whose} head {head}{element}"

    def _check(
        self, name: str, value: Floats, node: int | None, begin: int, waits: bool = False
    ) -> None:
        """Count numbers beyond the format's range. Raises SourceError unless they saturate."""
        wrong = beyond(self.format, value)
        count = int(wrong.sum())
        if count and not self.saturates:
            wider = "; --format mx8 has a wider range" if self.format != "mx8" else ""
            limits = f"of {self.format}", self._end, wider
            self._refuse(self._outside(name, node, value, wrong, limits, begin), waits)
        self.beyond += count

    def _outside(
        self,
        name: str,
        node: int | None,
        value: Floats,
        wrong: NDArray[np.bool_],
        limits: tuple[str, float, str],
        begin: int,
    ) -> SourceError:
        """The error of numbers that lie beyond a range. `limits`: which range, its end, and which format has a wider range."""
        (of, end, wider), first = limits, np.argwhere(wrong)[0]
        leaf = name if node is None else self.recurrent.leaf(node)
        number = f"{value[tuple(first)]:.6g}"
        if leaf is None:
            what = f"{_NAMES[name]} of the unit, which the host computes, reach {number} at {self._place(first, begin)}"
        else:
            array, index = self.inputs.arrays[leaf], first
            if node is not None:
                flat = (
                    int(np.ravel_multi_index(first, value.shape))
                    + begin * value.size // len(value) * self.inputs.items
                )
                index = np.array(np.unravel_index(flat, array.shape))
            at, lead = index.tolist(), int(node is not None)
            if lead and self.inputs.turns > 1:
                token, request, head = self.inputs.place(at[0], at[1] * self.inputs.heads + at[2])
                shared = leaf in self.recurrent.of_cache
                at[:3] = token, request, at[2] if shared else head
            gone = 2 if leaf in self.inputs.bare else int(self.inputs.alone)
            what = f"{leaf}{[*at[:lead], *at[lead + gone :]]} is {number}"
        return SourceError(
            f"{what}, which lies beyond the range {of}, ± {end:.6g}",
            f"--on-overflow saturate takes the end of the range in its place and counts it{wider}",
            code="E841",
        )
