"""How far the results of a session are from float64's, layer by layer and token by token."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .accuracy import Compared, Exactly, collapsed, spread
from .attention import Brought, Remembered
from .host import Course
from .requests import Layer, State


class Comparison:
    """The compared heads of each layer in float64, from a request's first token or its snapshot on."""

    def __init__(self, design: Any, layers: Sequence[tuple[Layer, ...]]) -> None:
        self.design, self.layers = design, layers
        self._compared = Compared()
        #: by layer, request and head, the smallest rate of decays that collapse
        self._collapsed: dict[tuple[int, int, int], float] = {}

    def to_json(self) -> dict[str, Any]:
        return {
            "heads": [len(layer.heads) for layer, *_ in self.layers],
            "of": self.design.heads,
            **self._compared.to_json(),
            "collapsed": [
                {"layer": layer, "request": request, "head": head, "rate": rate}
                for (layer, request, head), rate in sorted(self._collapsed.items())
            ],
        }

    def restore(self, state: State, number: int, blocks: Sequence[NDArray[np.uint8]]) -> None:
        """Begin a request's layer with what a snapshot has of it."""
        layers, recurrent = self.layers[number], self.design.stack[number]
        held = [layer.one.numbers_of(parts) for layer, parts in zip(layers, blocks, strict=True)]
        if recurrent.values is None:
            state.exact[number] = layers[0].exact(recurrent, state.held[number], held[0])
        else:
            state.exact[number] = caches = self._caches(number)
            caches.start(state.tokens[number], held)

    def _caches(self, number: int) -> Remembered:
        keys, values = self.layers[number]
        return Remembered(keys.one, values.one, keys.heads)

    def add(self, number: int, latest: Sequence[tuple[State, Any]], begin: int, end: int) -> None:
        """Add results of the tokens from `begin` to `end` of what requests brought to a layer, which they have taken."""
        if self.design.stack[number].values is None:
            return self._add_recurrent(self.layers[number][0], latest, begin, end)
        for state, brought in latest:
            self._add_attention(number, state, brought, begin, end)

    def _add_attention(
        self, number: int, state: State, brought: Brought, begin: int, end: int
    ) -> None:
        caches: Remembered = state.exact.setdefault(number, self._caches(number))
        first, heads = state.tokens[number] - (end - begin), self.layers[number][0].heads

        def place(turn: int, item: int, column: int) -> list[int]:
            token, offset = divmod(turn, brought.turns)
            head = heads[item] * brought.turns + offset
            return [number, state.number, first + token, head, column]

        self._compared.add(*caches.step(brought, begin, end), place)

    def _add_recurrent(
        self, layer: Layer, latest: Sequence[tuple[State, Course]], begin: int, end: int
    ) -> None:
        heads, number = list(layer.heads), layer.number
        states, courses = zip(*latest, strict=True)
        for state, course in latest:
            if number not in state.exact:
                state.exact[number] = layer.exact(course.recurrent, state.held[number])
        exact = Exactly.joined([state.exact[number] for state in states])
        names = [name for name in courses[0].values if name not in courses[0].recurrent.results]
        join = lambda name: np.concatenate(
            [x.values[name][begin:end, heads] for x in courses], axis=1
        )
        inputs, steps = {name: join(name) for name in names}, range(end - begin)
        outputs = np.concatenate([x.output(begin, end)[:, heads] for x in courses], axis=1)
        with np.errstate(all="ignore"):
            reference = spread([exact.step({n: x[t] for n, x in inputs.items()})[1] for t in steps])
        for at, state in enumerate(states):
            state.exact[number] = exact.part(at * len(heads), (at + 1) * len(heads))

        def place(token: int, item: int, column: int) -> list[int]:
            which, head = divmod(item, len(heads))
            first = states[which].tokens[number] - (end - begin)
            return [number, states[which].number, first + token, heads[head], column]

        with np.errstate(all="ignore"):
            self._compared.add(outputs.reshape(reference[0].shape), *reference, place)

    def name_collapsed(self, layer: int, request: int, course: Course) -> None:
        """Note the heads whose decays collapse."""
        rates = course.first_update(course.inputs.tokens).c
        for head, least in collapsed(self.design.device.format, rates).items():
            self._collapsed.setdefault((layer, request, head), least)
