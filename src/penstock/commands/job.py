"""What commands on a kernel have in common: the kernel, its engine, what was given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.designs.feasible import check_bus
from penstock.dsl.core.diagnostics import render
from penstock.dsl.core.load import load_kernel
from penstock.engines.base import Design, Engine, Given
from penstock.engines.discovery import engine_of, engines
from penstock.errors import Conflict
from penstock.passes.compiling import compiled
from penstock.targets import target_named, with_bus

if TYPE_CHECKING:
    from penstock.cli.state import State
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.engines.options import Request
    from penstock.models.target import Target


@dataclass(frozen=True)
class Job:
    """One command on a kernel. `args`: what was given, without its data until `opened`."""

    state: State
    command: str
    kernel: AnyKernel
    engine: Engine
    args: Given

    @classmethod
    def begin(cls, state: State, command: str) -> Job:
        """Load the kernel and check that the options are its engine's. Raises KernelError,
        Conflict."""
        request = state.asked
        kernel = load_kernel(request.kernel)
        engine = engine_of(kernel)
        _check_own(engine, command, request)
        _check_seed(engine, kernel, request)
        engine.allow(kernel, command, request)
        state.record.source = kernel.source or ""
        options = dict(request.own)
        if "dims" in options:
            options["dims"] = kernel.sized(options["dims"])
        args = Given(
            source=request.source,
            rows=request.rows,
            seed=request.seed,
            format=request.format,
            memory=request.memory,
            link=request.link,
            options=options,
        )
        return cls(state, command, kernel, engine, args)

    def check_profile(self, asked: bool) -> None:
        """Raise Conflict where --profile is asked for and the engine has none."""
        if asked and not self.engine.profiles:
            raise Conflict(
                f"--profile is not for the engine {self.engine.name}",
                "leave --profile out: the row `bound` says what limits the run",
            )

    def opened(self) -> Job:
        """Return the job with its data at hand, where there are any."""
        if self.args.source is None:
            return self
        with self.state.steps.step("reading the table"):
            args = self.engine.reads(self.kernel, self.args)
            data = self.engine.open(self.args.source, args)
        return replace(self, args=replace(self.args, data=data))

    def compile(
        self,
        part: str | Target | None = None,
        watch: Callable[[str, Any], None] = lambda name, form: None,
    ) -> Design:
        """Return the design and put it on record; `part`: in place of the one that is asked for; `watch`: as of `compiled`."""
        if part is None:
            asked = self.state.asked.target
            part = self.engine.default_target if asked is None else asked
        bus = self.state.asked.bus
        target = with_bus(target_named(part), bus)
        with self.state.steps.step("planning"):
            design = compiled(self.engine, self.kernel, target, self.args, watch=watch)
        check_bus(design, bus)
        self.state.record.design = design
        return design

    def warn(self) -> None:
        """Print what was found doubtful."""
        if self.state.asked.quiet:
            return
        for warning in dict.fromkeys(self.kernel.warnings):
            self.state.say(render(warning, self.kernel.source))


def _check_seed(engine: Engine, kernel: AnyKernel, request: Request) -> None:
    """Raise Conflict for --seed where nothing is drawn at random."""
    random = (request.data or "").startswith("random:")
    if request.seed is None or random or engine.draws(kernel, request.data):
        return
    beside = f"--data {request.data}" if request.data else "no random data"
    raise Conflict(
        f"--seed {request.seed} and {beside}: nothing is drawn at random",
        "leave --seed out, or give --data random:rows=1000",
    )


def _check_own(engine: Engine, command: str, request: Request) -> None:
    """Raise Conflict for an option of other engines."""
    mine = {option.name for option in engine.options.get(command, ())}
    for name in request.own:
        if name in mine:
            continue
        owners = {
            other.name: option.flag
            for other in engines().values()
            for option in other.options.get(command, ())
            if option.name == name
        }
        flag = next(iter(owners.values()))
        raise Conflict(
            f"{flag} is not for the engine {engine.name}",
            f"leave {flag} out: it is for {' and '.join(owners)}",
        )
