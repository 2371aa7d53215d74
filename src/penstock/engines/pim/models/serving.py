"""Requests of a language model: ids in, ids out, the states in the banks."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.engines.session import SessionError
from penstock.errors import not_one_of
from penstock.models.errors import Error
from penstock.sim.machine import Closing

from ..requests import Request
from ..session import PimSession
from .layers import Held, Network
from .weights import untaken

Array = NDArray[Any]


def checked(ids: Iterable[int], vocabulary: int) -> list[int]:
    """Return ids. Raises ModelError (E469) for those that the vocabulary does not have."""
    if not isinstance(ids, Iterable):
        raise untaken(f"{ids!r} are no ids", "give a list of whole numbers, or a text")
    numbers = list(ids)
    for id in numbers:
        if (
            isinstance(id, bool)
            or not isinstance(id, (int, np.integer))
            or not 0 <= id < vocabulary
        ):
            hint = f"ids are whole numbers, 0 to {vocabulary - 1}"
            raise untaken(f"{id!r} is no id of the vocabulary", hint)
    if not numbers:
        raise untaken("a request has no ids", "give one or more")
    return [int(id) for id in numbers]


class Sampler:
    """Draws ids from logits: the most likely one at a temperature of 0."""

    def __init__(self, seed: int, temperature: float) -> None:
        if not isinstance(temperature, (int, float)) or not 0 <= temperature < np.inf:
            what = f"temperature is {temperature!r}"
            raise untaken(what, "it is 0 or more; at 0 the likeliest id is taken")
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise not_one_of("seed", seed, ["a whole number"])
        self.temperature = temperature
        self._rng = np.random.default_rng([int(seed) & (1 << 64) - 1, 1])

    def draw(self, *logits: Array) -> list[int]:
        """Return an id of each, all with the same random number."""
        point, draws = self._rng.random(), []
        for row in logits:
            if not self.temperature:
                draws.append(int(row.argmax()))
                continue
            with np.errstate(over="ignore"):  # of differences, none of which is above 0
                wide = (row - row.max()).astype(np.float64) / self.temperature
            weights = np.exp(wide).cumsum()
            draws.append(int(np.searchsorted(weights, point * weights[-1], side="right")))
        return draws


@dataclass
class _State:
    """What is known of a request: what mixers keep, the ids that it has not taken, what draws the next, and the logits behind the last one
    that it took."""

    held: list[Held]
    ids: list[int]
    sampler: Sampler
    logits: Array | None = None


class Serving(Closing):
    """A language model with a session of its design; see `LanguageModel.open`. Requests join with a prompt, get ids, and leave.

    Host layers take one request at a time, and units' bits do not depend on neighbours: a request's ids are those it gets alone.
    """

    def __init__(self, network: Network, session: PimSession) -> None:
        self.network, self.session = network, session
        self._states: dict[Request, _State] = {}

    @property
    def cycles(self) -> int | None:
        """As the session's."""
        return self.session.cycles

    @property
    def errors(self) -> Mapping[str, Any]:
        """As the session's: the recurrences' outputs beside float64, with the bound."""
        return self.session.errors

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(self._states)

    @property
    def free(self) -> int:
        """How many more requests can join."""
        return self.session.free

    def join(
        self, ids: Iterable[int], *, seed: int | None = None, temperature: float = 1.0
    ) -> Request:
        """Seat a request with a prompt; return what names it.

        Parameters: `seed`: of the ids that are drawn, and of the units' random bits: the request's number unless given; `temperature`: logits
        are divided by it; at 0 the likeliest id is taken.

        Raises SessionError (E466) where no seat is free, ModelError (E469).
        """
        taken = checked(ids, len(self.network.embedding))
        Sampler(0, temperature)
        request = self.session.join(seed=seed)
        sampler = Sampler(request.number if seed is None else seed, temperature)
        self._states[request] = _State([{} for _ in self.network.blocks], taken, sampler)
        return request

    def step(self, requests: Iterable[Request] | None = None) -> dict[Request, int]:
        """Return the next id of some requests, of all unless they are named. Raises SessionError (E466)."""
        wanted = self.requests if requests is None else requests
        if not isinstance(wanted, Iterable):
            raise untaken(
                f"step takes requests, not {wanted!r}", "give a list of what join returned"
            )
        named = {who: self._state(who) for who in wanted}
        self.take({who: state.ids for who, state in named.items() if state.ids})
        ids = {}
        for who, state in named.items():
            assert state.logits is not None
            state.ids = state.sampler.draw(state.logits)
            [ids[who]] = state.ids
        return ids

    def take(self, given: Mapping[Request, Sequence[int]]) -> dict[Request, Array]:
        """Let requests take ids of the caller's, instead of the prompt or what was drawn; return the logits (ids, vocabulary) behind each.

        Raises SessionError (E466), ModelError (E469). Where a layer fails (SourceError: a number beyond the format), the requests leave: their
        layers are no longer at one token.
        """
        if not isinstance(given, Mapping):
            hint = "give {request: ids}"
            raise untaken(f"take takes ids by request, not {given!r}", hint)
        held = {who: self._state(who).held for who in given}
        ids = {who: checked(tokens, len(self.network.embedding)) for who, tokens in given.items()}
        if not ids:
            return {}
        step = lambda number, arrays: self.session.step(arrays, layer=number)
        try:
            outputs = self.network.logits(ids, held, step)
            for who, logits in outputs.items():
                if not np.isfinite(logits).all():
                    raise untaken(f"logits of {who!r} left float32", "look at the weights")
        except Error:
            for who in ids:
                del self._states[who]
                with suppress(SessionError):  # a session that has ended
                    self.session.leave(who)
            raise
        for who, logits in outputs.items():
            self._states[who].ids, self._states[who].logits = [], logits[-1]
        return outputs

    def leave(self, request: Request) -> None:
        """Free a request's seats. Raises SessionError (E466)."""
        self.session.leave(request)
        del self._states[request]

    def _state(self, request: Request) -> _State:
        if not isinstance(request, Request) or request not in self._states:
            self.session.snapshot(request)  # says what is wrong
        return self._states[request]

    def close(self) -> None:
        self.session.close()
