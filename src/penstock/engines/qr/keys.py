"""Designs of fits over keys, and the refits that they run: each round is one start of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.data.tables import open_source
from penstock.dsl.core.diagnostics import Span
from penstock.dsl.qr.kernel import FitGraph
from penstock.engines.base import Cycles, Given, Result, Workload
from penstock.engines.score import Scoring, no_score
from penstock.host.workloads import Changes, Refits, Round
from penstock.models.errors import HardwareCode, HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Codes, float32
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import bound, machine_bound, run
from penstock.models.qr.image import pack_memo, place_jobs, unpack_result
from penstock.models.qr.job import Fit
from penstock.models.qr.shell import register_map
from penstock.models.shell import RegisterMap
from penstock.sim.machine import Metered, round_up

from .designs import AnyFit, in_all
from .refit_requests import refits_of

if TYPE_CHECKING:
    from penstock.hdl.modules import Parts
    from penstock.host.device.device import Device


@dataclass(frozen=True, repr=False)
class FitDesign(AnyFit):
    """A compiled fit over keys: what is fitted, and the engine; `key`: where the kernel names it."""

    graph: FitGraph
    plan: FitPlan
    key: Span | None = field(default=None, compare=False)

    kind = "keys"
    arguments = frozenset({"bind", "changes", "on_null"})

    @property
    def registers(self) -> RegisterMap:
        return register_map(self.plan, self.identity)

    def scoring(
        self, result: Mapping[str, np.ndarray], details: Mapping[str, Any] | None = None
    ) -> Scoring:
        why = "a fit over keys says where a key lies, not what a row is worth"
        raise no_score(self.name, why, "penstock.host.learned_index.LearnedIndex looks keys up")

    def component(self, parts: Parts) -> Any:
        from penstock.hdl.qr.engine import FitEngine

        return FitEngine(self.plan, parts, design=self.identity)

    def config(self) -> dict[str, Any]:
        kernel = {"window": self.graph.columns - 1, "incremental": self.graph.incremental}
        return self.plan.to_json() | kernel

    def text(self) -> str:
        from penstock.report.words import plural

        plan = self.plan
        solvers = f"{plural(plan.solvers, 'solver')} × {plural(plan.n_max, 'lane')}"
        sums = f"{plural(plan.gram_lanes, 'sum')} a cycle"
        held = f"{plural(plan.contexts, 'group')} interleaved, {plural(plan.jobs, 'job')} in flight"
        return f"{plural(plan.n_max, 'column')}, {solvers}, {sums}, {held}"

    def trainer(
        self, backend: str = "golden", *, device: Device | None = None, **options: Any
    ) -> Any:
        """Return a `host.learned_index.Trainer` whose fits this engine makes; `options` are the
        trainer's.

        With "model" the trainer's `backend` is a `host.learned_index.backends.Timed`, which counts
        cycles, with "rtl" an `EngineBackend`, to be closed by the caller, with "board" one on
        `device`, which `penstock.open` gives.

        Raises ValueError for another backend, and for a `device` that does not go with it. Raises DeviceError where the device runs another design.
        """
        from penstock.host.learned_index import Trainer

        options.setdefault("longest", self.graph.columns - 1)  # the engine may take longer windows
        backends = ("golden", "model", "rtl", "board")
        if backend not in backends:
            raise ValueError(f"backend must be one of {', '.join(backends)}, not {backend!r}")
        if (backend == "board") != (device is not None):
            raise ValueError("backend board takes the device that it runs on, no other one does")
        if backend == "golden":
            return Trainer(self.plan, **options)
        from penstock.host.learned_index.backends import EngineBackend, Timed

        if backend == "model":
            return Trainer(self.plan, Timed(self.plan, self.memory), **options)
        keywords: dict[str, Any] = {} if device is None else {"device": device}
        machine = self.machine(backend, 0, **keywords)
        return Trainer(self.plan, EngineBackend(self.plan, machine), **options)

    def refits(
        self,
        rows: int | None = None,
        keys: Iterable[bytes] | None = None,
        *,
        changes: Changes | None = None,
        seed: int = 1,
    ) -> Refits:
        """Return refits to run: of random keys, `rows` at first (1,000 a group unless given), or of
        given keys in the order of their arrival.

        Raises ValueError where they are too few, and where rows and keys are given.
        """
        changes = changes or Changes()
        if keys is not None:
            if rows is not None:
                raise ValueError("rows is for random keys: leave it or keys out")
            return Refits.of_keys(list(keys), self.graph.columns, changes, seed)
        if rows is not None and rows < 1:
            raise ValueError(f"rows must be at least 1, not {rows}")
        first = 1000 * changes.groups if rows is None else rows
        return Refits.random(first, self.graph.columns, changes, seed)

    def workload(self, args: Given) -> Refitting:
        """Return refits. `args.data`: `Refits`, or a source of keys, None for random ones.

        Raises SourceError, KernelError and Conflict for the keys.
        """
        if isinstance(args.data, Refits):
            return Refitting(self, args.data, "keys", args)
        if args.data is not None:
            args = replace(args, data=open_source(args.data))
        return Refitting(
            self, *refits_of(self.graph, self.plan, self.key or self.graph.span, args), args
        )


class Refitting(Workload):
    """Fits of groups of keys, then refits round by round.

    Parameters: `name`: of the keys, for reports; `args`: what the user gave.
    """

    def __init__(self, design: FitDesign, refits: Refits, name: str, args: Given) -> None:
        self.plan, self.part = design.plan, design.target
        self.name, self.rows = name, refits.rows
        self.assumed = args.rows is not None and args.source is None
        self._refits = refits

    @cached_property
    def rounds(self) -> list[Round]:
        """The rounds, with what the golden model makes of them."""
        return self._refits.play(self.plan)

    def golden(self) -> Result:
        fits = [fit for step in self.rounds for fit in step.fits]
        return Result(self._codes(fits), counters=self._counters())

    def model(self, memory: Memory) -> Cycles:
        plan, part, runs = self.plan, self.part, []
        for step in self.rounds:
            taken = run(plan, step.works, memory, ring=0)
            moved = taken.words_read * plan.bus_bytes, taken.words_written * plan.bus_bytes
            least = bound(plan, step.works, memory)
            machine = machine_bound(plan, part, step.works, memory)
            runs.append(Cycles(taken.total, least, {}, {}, *moved, bound_machine=machine))
        return in_all(runs, self._counters() | {"training_cycles": runs[0].total or 0})

    def memory_bytes(self) -> int:
        return max(
            round_up(len(place_jobs(step.jobs, self.plan, 0).memory)) for step in self.rounds
        )

    def moved(self) -> tuple[int, int]:
        images = [place_jobs(step.jobs, self.plan, 0) for step in self.rounds]
        return sum(len(image.memory) for image in images), sum(sum(i.sizes) for i in images)

    def drive(self, machine: Metered) -> Result:
        machine.reserve(0, self.memory_bytes())
        fits: list[Fit] = []
        for step in self.rounds:
            image = place_jobs(step.jobs, self.plan, 0)
            machine.write(0, np.frombuffer(image.memory.tobytes(), dtype=np.uint8))
            ended = machine.run({"ring": 0, "jobs": len(step.jobs)})
            if ended.error is not None:
                return Result(None, ended.error)
            placed = zip(step.jobs, image.places, image.sizes, strict=True)
            for number, (job, place, size) in enumerate(placed):
                data = machine.read(place.result, size).tobytes()
                fit = unpack_result(data, job.window.columns, self.plan)
                if isinstance(fit, HardwareCode):
                    return Result(None, HardwareError(fit, number))
                fits.append(fit)
        return Result(self._codes(fits), counters=self._counters())

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        last = len(self.rounds[-1].jobs)
        weights = np.asarray(float32.decode(codes["weights"][-last:]), dtype=np.float64)
        low, high = codes["bounds"][-last:, 0], codes["bounds"][-last:, 1]
        return {"weights": weights, "low": low.astype(np.float64), "high": high.astype(np.float64)}

    def _codes(self, fits: Sequence[Fit]) -> dict[str, Codes]:
        width = self.plan.n_max
        memos = b"".join(pack_memo(fit.memo, self.plan) for fit in fits)
        bounds = [[fit.err_min, fit.err_max, fit.rescanned] for fit in fits]
        return {
            "weights": _padded([fit.weights for fit in fits], width),
            "mask": _padded([fit.mask.astype(np.int64) for fit in fits], width),
            "bounds": np.array(bounds, dtype=np.int64),
            "memos": np.frombuffer(memos, dtype=np.uint8).astype(np.int64),
        }

    def _counters(self) -> dict[str, int]:
        works = [work for step in self.rounds for work in step.works]
        again = [work for step in self.rounds[1:] for work in step.works]
        return {
            "groups": len(self.rounds[0].jobs),
            "jobs": len(works),
            "refits": len(again),
            "from_memo": sum(not work.size.full for work in again),
            "passes": sum(work.rescanned for work in again),
            "rows": sum(len(job.rows) for job in self.rounds[-1].jobs),
            "changes": sum(work.size.records for work in again),
        }


def _padded(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Return rows of codes as one array, filled up with zeros."""
    codes = np.zeros((len(rows), width), dtype=np.int64)
    for number, row in enumerate(rows):
        codes[number, : len(row)] = row
    return codes
