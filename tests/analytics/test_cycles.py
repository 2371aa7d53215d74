"""The cycle model's short cuts change nothing: it is compared with a model that goes tuple by tuple, and with itself without leaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.api import assume, compile
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.load import load_kernel
from penstock.host.sources import Table
from penstock.models.analytics import cycles, loader
from penstock.models.analytics.config import Schedule
from penstock.models.heap.schema import Column, Schema
from penstock.models.memory import FixedLatency
from penstock.models.numerics.formats import parse_format
from penstock.models.strider.config import PortConfig
from penstock.models.strider.costs import END, NULL, TUPLE, Costs
from penstock.models.strider.cycles import PortModel
from penstock.targets import target_named

EXAMPLES = Path(__file__).parents[2] / "examples"


class Port:
    """One port's Striders and its loader as the hardware has them: one tuple or end token after the other."""

    def __init__(self, plan: Any, source: PortModel | None, origin: int):
        self.plan, self.source, self.origin, self.batch = (
            plan,
            source,
            origin,
            plan.merge_count // plan.ports,
        )
        self.ready = self.thread = self.position = self.groups = 0
        self.ended: int | None = None
        self.waiting: list[tuple[int, int]] = []
        self.release: list[int] = []

    def item(self) -> None:
        ready = max(
            self.ready,
            self.release[self.groups - self.plan.striders.input_slots]
            if self.groups >= self.plan.striders.input_slots
            else 0,
        )
        first, kind = (
            self.source.pull(lambda cycle: max(cycle, ready))
            if self.source
            else (max(ready, self.origin), "end")
        )
        if kind == "end":
            self.ended = first + 1
            if self.thread:
                self.complete(first)
            self.position = 0
            return
        assert self.source is not None
        last = first + self.source.config.beats - 1
        self.ready, self.thread, self.position = last + 1, self.thread + 1, self.position + 1
        if self.position == self.batch:
            self.position = 0
            self.complete(last)
        elif self.thread == self.plan.threads_per_port:
            self.complete(last)

    def complete(self, cycle: int) -> None:
        self.waiting.append((cycle + 1, self.thread))
        self.groups, self.thread = self.groups + 1, 0


def step_by_step(
    plan: Any, sources: list[PortModel | None], origin: int, free: int, epochs: int
) -> tuple[int, ...]:
    """`cycles._Conductor.run` without any short cut: the cycle in which the next event could be, and the counts."""
    ports, s = [Port(plan, source, origin) for source in sources], plan.schedule
    start = batch = -(1 << 60)
    groups = batches = tuples = in_batch = 0
    first = True
    for _ in range(epochs):
        before, over = groups, False
        while not over:
            for port in ports:
                while not port.waiting and port.ended is None:
                    port.item()
            seen = max(
                free, *(port.waiting[0][0] if port.waiting else port.ended for port in ports)
            )
            if not any(port.waiting for port in ports):
                if not first:
                    batch = seen + (in_batch - 1) * s.change
                    batches, in_batch, first = batches + 1, 0, True
                free = seen + 1
                break
            seen = max(seen, batch + s.batch) if first else seen
            start = (
                seen
                if first or seen >= start + s.drain
                else min(start + -(-(seen - start) // s.interval) * s.interval, start + s.drain)
            )
            over = True
            for port in ports:
                if port.ended is None:
                    port.item()
                over = (
                    over
                    and len(port.waiting) <= 1
                    and not port.thread
                    and port.ended is not None
                    and port.ended <= start
                )
                port.release.append(start + s.release + 1)
                port.groups += not port.waiting
                tuples += port.waiting.pop(0)[1] if port.waiting else 0
            groups, in_batch = groups + 1, in_batch + 1
            first = over or in_batch * plan.threads >= plan.merge_count > 0
            if first:
                batch = start + (in_batch - 1) * s.change
                batches, in_batch = batches + 1, 0
            free = start + 1
        for port in ports:
            port.ended, port.ready = None, free
        if plan.roles.until is not None and groups > before:
            free = max(free, batch + s.settle) + s.decide + 2
    return free, max(start, 0), max(batch, 0), groups, batches, tuples  # 0: never


def random_page(rng: np.random.Generator, beats: int, slow: int) -> list[tuple[int, int, int]]:
    """A page's events: tuples in a steady pace or not, no closer than `slow` cycles, NULLs in between or not, any number of them."""
    pace, jitter, nulls = (
        slow + int(rng.integers(1, 3 * beats + 4)),
        int(rng.integers(1, 4)),
        rng.choice([0, 0, 0.2]) if not slow else 0,
    )
    kinds = np.where(rng.random(rng.integers(0, 40)) < nulls, NULL, TUPLE).tolist()
    return [
        *(
            (kind, pace + int(rng.integers(jitter)), 3 + beats + int(rng.integers(jitter)))
            for kind in kinds
        ),
        (END, int(rng.integers(1, 9)), 0),
    ]


def random_run(seed: int) -> tuple[Any, PortConfig, Costs, FixedLatency, int]:
    """A plan (what the cycle model reads of it), a port, pages, a memory, epochs."""
    rng = np.random.default_rng(seed)
    draw = lambda low, high: int(rng.integers(low, high + 1))
    ports, threads, interval, beats = (
        int(rng.choice([1, 1, 2, 3])),
        int(rng.choice([1, 1, 2, 4, 7])),
        draw(1, 30),
        draw(1, 12),
    )
    drain = interval + draw(0, 60)
    slow = rng.random() < 0.3  # Striders set the pace
    if slow:
        ports = threads = 1
    merge = ports * int(rng.choice([0, 1, threads, 4 * threads, draw(1, 50)]))
    schedule = Schedule(
        interval,
        drain,
        draw(1, 60 if slow else 150),
        draw(1, drain),
        draw(1, 150),
        draw(1, 20),
        draw(0, 9) if merge and rng.random() < 0.3 else 0,
    )
    plan = SimpleNamespace(
        ports=ports,
        threads=ports * threads,
        threads_per_port=threads,
        merge_count=merge,
        striders=SimpleNamespace(input_slots=draw(2, 8)),
        schedule=schedule,
        roles=SimpleNamespace(until=rng.choice([None, 1])),
    )
    config = PortConfig(
        1024 << draw(0, 3),
        int(rng.choice([4, 8, 64])),
        4,
        beats,
        parse_format("float32"),
        ("float4",),
        striders=int(rng.choice([1, 1, 2, 3])),
        buffers=draw(2, 5),
        slots=draw(2, 9),
        latency=draw(4, 5),
    )
    costs, kinds = (
        Costs(),
        [random_page(rng, beats, slow * (interval + beats)) for _ in range(draw(1, 3))],
    )
    for _ in range(draw(1, 4)):
        costs.add(int(rng.choice([1, 2, 9, 120])), kinds[draw(0, len(kinds) - 1)])
    return plan, config, costs, FixedLatency(draw(1, 100), int(rng.choice([1, 4, 64]))), draw(1, 7)


def compare(seed: int) -> tuple[int, int]:
    """Compare both models on a random run; return the tuples that there are, and those that the model went through."""
    plan, config, costs, memory, epochs = random_run(seed)
    origin = seed % 50
    shares = [costs.every(plan.ports, q) for q in range(plan.ports)]
    made = lambda: [
        PortModel(config, share, memory.port(config.bus_bytes), origin) if share.runs else None
        for share in shares
    ]
    expected = step_by_step(plan, made(), origin, origin + 1, epochs)
    handed = 0

    class Loader(loader.Loader):
        def hand(self, start: int, releases: Sequence[int]) -> bool:
            nonlocal handed
            handed += sum(self.counts[: len(releases)])
            return super().hand(start, releases)

    conductor = cycles._Conductor(
        plan, [Loader(plan, source or loader.EmptySource(origin)) for source in made()], origin + 1
    )
    conductor.run(epochs)
    assert (
        conductor.free,
        max(conductor.start, 0),
        max(conductor.batch, 0),
        *conductor.counts.values(),
    ) == expected
    return expected[-1], handed


def test_random() -> None:
    """Ports, threads, batches, slots, walkers, paces, page populations, memories and epochs at random; both kinds of leaps are taken."""
    found = [compare(seed) for seed in range(150)]
    assert sum(handed < tuples for tuples, handed in found) > 45


@pytest.mark.long
def test_random_long() -> None:
    for seed in range(1000, 4000):
        compare(seed)


def test_shares() -> None:
    """Ports' shares of runs of pages are those of the pages one by one."""
    rng = np.random.default_rng(3)
    for ports in (1, 2, 3, 5, 8):
        costs, pages = Costs(), []
        for _ in range(12):
            count, kind = int(rng.integers(1, 9)), [(END, int(rng.integers(3)), 0)]
            costs.add(count, kind)
            pages += [kind] * count
        assert costs.pages == len(pages)
        for q in range(ports):
            assert [
                events for count, events in costs.every(ports, q).runs for _ in range(count)
            ] == pages[q::ports]


@pytest.mark.parametrize(
    ("rows", "features", "target", "memory", "choices", "epochs"),
    [
        (4000, 54, "small", FixedLatency(20, 8), Choices(), 1),
        (4000, 54, "vu9p", FixedLatency(40, 64), Choices(), 2),
        (2000, 10, "vu9p", FixedLatency(30, 16), Choices(threads=4, lanes=4), 3),
        (3000, 30, "u55c", FixedLatency(60, 32), Choices(threads=8, ports=4), 5),
        (1500, 20, "u55c", FixedLatency(5, 32), Choices(threads=8, ports=8, walkers=3), 1),
    ],
)
def test_leap(
    rows: int,
    features: int,
    target: str,
    memory: FixedLatency,
    choices: Choices,
    epochs: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, features)).astype(np.float32)
    data = Table.from_columns(
        {"id": np.arange(rows, dtype=np.int32), "y": x[:, 0], "x": x}, page_size=8192
    )
    design = compile(
        EXAMPLES / "linear.py", target, data, "fixed:8,16", epochs=epochs, choices=choices
    )
    leapt = design.run(data, "model", memory=memory)
    monkeypatch.setattr(cycles._Conductor, "_mark", lambda self: None)
    monkeypatch.setattr(cycles._Conductor, "_between", lambda self: (self.free,))
    monkeypatch.setattr(cycles._Conductor, "_glide", lambda self: [])
    stepped = design.run(data, "model", memory=memory)
    assert (leapt.cycles, leapt.counters) == (stepped.cycles, stepped.counters)


@pytest.mark.parametrize("target", ["small", "u55c"])
def test_large(target: str) -> None:
    """A hundred million rows and many epochs take no longer than the stretch before the run repeats itself."""
    schema = Schema(
        "t",
        (
            Column("id", "int4", not_null=True),
            Column("y", "float4", not_null=True),
            Column("x", "float4[]", not_null=True, length=54),
        ),
    )
    part = target_named(target)
    part = replace(part, memory=replace(part.memory, bytes=1 << 40))
    design = compile(load_kernel(EXAMPLES / "logistic.py"), part, schema)
    run = design.run(assume(schema, 100_000_000), "model", epochs=1000)
    assert run.counters["tuples"] == 100_000_000 * 1000
    assert run.seconds < 5
