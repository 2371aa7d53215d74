"""Every call of the learned index against SortedDict, by state machines."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sortedcontainers import SortedDict

from testbench.learned_index import found, same, small

#: few letters, zero bytes, prefixes of one another, the empty key
KEYS = st.one_of(
    st.binary(max_size=3),
    st.lists(st.sampled_from([b"\0", b"a", b"ab", b"b", b"\xff", b"prefix/"]), max_size=5).map(
        b"".join
    ),
    st.integers(0, 400).map(lambda n: b"user%d" % n),
)
VALUES = st.integers(0, 9)
POSITIONS = st.integers(-70, 70)


class Machine(RuleBasedStateMachine):
    """Every call of the index beside the same call of SortedDict: same result, or an exception of the same kind."""

    kind = "gram"

    def __init__(self) -> None:
        super().__init__()
        self.index, self.model = small(self.kind), SortedDict()

    def both(self, call: Any) -> None:
        results = []
        for which in (self.index, self.model):
            try:
                results.append(call(which))
            except (KeyError, IndexError, ValueError) as problem:
                results.append(type(problem))
        assert results[0] == results[1]

    @rule(items=st.dictionaries(KEYS, VALUES, max_size=60))
    def load(self, items: dict[bytes, int]) -> None:
        self.index, self.model = small(self.kind, items), SortedDict(items)

    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: int) -> None:
        self.both(lambda which: which.__setitem__(key, value))

    @rule(keys=st.lists(KEYS, max_size=20), value=VALUES)
    def put_some(self, keys: list[bytes], value: int) -> None:
        self.both(lambda which: which.update(dict.fromkeys(keys, value)))

    @rule(first=st.integers(0, 300), count=st.integers(1, 30))
    def put_run(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.both(lambda which, number=number: which.setdefault(b"user%d" % number, number))

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        self.both(lambda which: which.__delitem__(key))

    @precondition(lambda self: len(self.model) > 3)
    @rule(first=POSITIONS, count=st.integers(1, 25))
    def delete_run(self, first: int, count: int) -> None:
        first %= len(self.model)
        for key in list(self.model.islice(first, first + count)):
            self.both(lambda which, key=key: which.pop(key))

    @rule(key=KEYS, value=VALUES)
    def take(self, key: bytes, value: int) -> None:
        self.both(lambda which: which.pop(key, value))
        self.both(lambda which: which.pop(key))
        self.both(lambda which: which.setdefault(key, value))

    @rule(key=KEYS)
    def look(self, key: bytes) -> None:
        for call in (
            lambda w: w.get(key),
            lambda w: w.get(key, 99),
            lambda w: w[key],
            lambda w: key in w,
            lambda w: w.bisect_left(key),
            lambda w: w.bisect_right(key),
            lambda w: w.bisect(key),
            lambda w: w.index(key),
            lambda w: w.keys().index(key),
            lambda w: w.keys().count(key),
        ):
            self.both(call)

    @rule(keys=st.lists(KEYS, max_size=40))
    def look_many(self, keys: list[bytes]) -> None:
        assert self.index.get_many(keys, -1) == [self.model.get(key, -1) for key in keys]

    @rule(
        low=st.none() | KEYS,
        high=st.none() | KEYS,
        inclusive=st.tuples(st.booleans(), st.booleans()),
        reverse=st.booleans(),
    )
    def ranges(
        self, low: bytes | None, high: bytes | None, inclusive: tuple[bool, bool], reverse: bool
    ) -> None:
        self.both(lambda which: list(which.irange(low, high, inclusive, reverse)))
        assert list(self.index.range(low, high)) == [
            (key, self.model[key]) for key in self.model.irange(low, high, (True, False))
        ]

    @rule(key=KEYS, count=st.integers(0, 40))
    def scan(self, key: bytes, count: int) -> None:
        assert self.index.scan(key, count) == [
            (key, self.model[key]) for key in islice(self.model.irange(key), count)
        ]

    @rule(
        at=POSITIONS,
        end=POSITIONS,
        step=st.sampled_from([None, 1, 2, -1, -3]),
        reverse=st.booleans(),
    )
    def positions(self, at: int, end: int, step: int | None, reverse: bool) -> None:
        for call in (
            lambda w: w.peekitem(at),
            lambda w: w.peekitem(),
            lambda w: w.keys()[at],
            lambda w: w.values()[at],
            lambda w: w.items()[at],
            lambda w: list(w.keys()[at:end:step]),
            lambda w: list(w.values()[at:end:step]),
            lambda w: list(w.items()[at:end:step]),
            lambda w: list(w.islice(at, end, reverse)),
        ):
            self.both(call)

    @rule(at=POSITIONS)
    def popitem(self, at: int) -> None:
        self.both(lambda which: which.popitem(at))
        self.both(lambda which: which.popitem())

    @rule(key=KEYS, other=KEYS)
    def sets(self, key: bytes, other: bytes) -> None:
        pair = {key, other}
        for call in (
            lambda w: w.keys() & pair,
            lambda w: w.keys() | pair,
            lambda w: w.keys() - pair,
            lambda w: w.keys() ^ pair,
            lambda w: pair - w.keys(),
            lambda w: w.items() & {(key, 5)},
            lambda w: w.items() - {(key, 5)},
            lambda w: (w.keys() | pair)[:2],
            lambda w: w.keys() & pair == pair,
        ):
            self.both(
                lambda which, call=call: (
                    list(made) if isinstance(made := call(which), Set) else made
                )
            )
        self.both(lambda which: which | {key: 5})
        self.both(lambda which: which == dict(self.model))

    @rule(at=POSITIONS, end=POSITIONS, step=st.sampled_from([None, 2, -1]))
    def delete_at(self, at: int, end: int, step: int | None) -> None:
        self.both(lambda which: which.keys().__delitem__(at))
        self.both(lambda which: which.items().__delitem__(slice(at, min(end, at + 6), step)))
        self.both(lambda which: which.values().__delitem__(end))

    @rule(every=st.booleans(), deferred=st.booleans())
    def retrain(self, every: bool, deferred: bool) -> None:
        self.index.deferred = deferred
        self.index.retrain(every)

    @rule()
    def clear(self) -> None:
        self.both(lambda which: which.clear())

    @invariant()
    def equal(self) -> None:
        same(self.index, self.model)
        found(self.index)


class Givens(Machine):
    kind = "givens"


class InSlots(Machine):
    kind = "slots"


_SETTINGS = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
_FEWER = settings(_SETTINGS, max_examples=30)
TestGram, TestGivens, TestInSlots = (each.TestCase for each in (Machine, Givens, InSlots))
TestGram.settings = _SETTINGS
TestGivens.settings = TestInSlots.settings = _FEWER
