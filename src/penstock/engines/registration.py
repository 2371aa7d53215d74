"""The registration of an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.models.errors import HardwareCode
from penstock.models.target import Target

from .workload import Given

if TYPE_CHECKING:
    import click

    from penstock.dsl.core.kernel import AnyKernel
    from penstock.engines.options import Option, Request
    from penstock.host.peers import Peer
    from penstock.report.parts import Part
    from penstock.runs.failures import Failure
    from penstock.runs.outcome import Outcome

    from .design import Design


class Engine(ABC):
    """The registration of an engine.

    `name`: as in reports and manifests; `kernels`: the classes of the kernels that it compiles;
    `default_target`: what is compiled for where nothing is said; `backends`: those that `simulate`
    takes, None for all; `options`: the engine's own options of each command; `commands`: its own commands;
    `papers`: names that `penstock reproduce` takes; `elsewhere`: those that another distribution brings
    (entry points `penstock.papers`), with what installs it.
    """

    name: str
    kernels: tuple[type[Any], ...]
    default_target: str = "small"
    #: in words, the number formats that it has instead of the shared ones, for the help on --format
    formats: str = ""
    backends: frozenset[str] | None = None
    #: whether its options alone say what a run does, so that no data need be given
    data_optional: bool = False
    #: whether it knows what each line of a kernel costs
    profiles: bool = False
    options: ClassVar[Mapping[str, tuple[Option, ...]]] = {}
    #: enumerations of the error codes that its hardware has beside `models.errors.ErrorCode`
    errors: tuple[type[HardwareCode], ...] = ()
    #: names of the Python API that are the engine's own: "module:attribute"
    names: ClassVar[Mapping[str, str]] = {}
    elsewhere: ClassVar[Mapping[str, str]] = {}
    #: names that `penstock.compile` takes beside those of the command
    arguments: frozenset[str] = frozenset()

    @property
    def commands(self) -> Sequence[click.Command]:
        return ()

    @property
    def papers(self) -> Mapping[str, Any]:
        """For each paper a function that returns parts of a report; where it has a parameter `cpu`,
        true asks for what this computer takes for the same work."""
        return {}

    def allow(self, kernel: AnyKernel, command: str, request: Request) -> None:
        """Raise Conflict for options that this kernel does not take, where the options of the
        engine alone do not say so."""
        return None

    def draws(self, kernel: AnyKernel, source: str | None) -> bool:
        """Return whether a run draws anything at random where its data are not random numbers, so
        that `--seed` means something; `source`: the data that are given."""
        return source is None and self.data_optional

    def needs(self, kernel: AnyKernel) -> str:
        """Return in words what data a run of the kernel needs."""
        return "a table"

    def open(self, source: Any, args: Given) -> Any:
        """Return what a data source holds, for `Given.data`; `args`: the rest of what was given.
        Raises SourceError."""
        from penstock.data.tables import open_source

        return open_source(source, pages=args.option("pages"))

    def reads(self, kernel: AnyKernel, args: Given) -> Given:
        """Return what was given with what this kernel asks of its source, for `open`."""
        return args

    def sizes(self, kernel: AnyKernel, args: Given) -> Mapping[str, int]:
        """Return the sizes of a kernel's dimensions with the table that is given. Raises KernelError."""
        from penstock.dsl.core.bind import bind

        table, names = args.data, args.option("bind")
        unusable = getattr(table, "unusable", None)
        return bind(kernel, table.schema, names, args.option("dims", {}), unusable).dims

    @property
    @abstractmethod
    def passes(self) -> Sequence[Callable[[Any], Any]]:
        """What compiling is, one function after the other: the first takes a `penstock.passes.forms.Request`, each further one what that before it gives,
        and the last gives a `Designed`. They raise KernelError, SourceError."""

    @abstractmethod
    def load(self, manifest: Mapping[str, Any]) -> Design:
        """Return the design that a manifest describes, which anybody may have written."""

    def plans(self, kernel: AnyKernel, request: Request) -> bool:
        """Return whether `check` makes a plan: where anything was said about one."""
        return request.plans(self.options.get("check", ()))

    def check(self, kernel: AnyKernel, args: Given, design: Design | None) -> Iterable[Part]:
        """Look for mistakes in a kernel and in how it goes with its data; return what to print.
        `design`: where a plan was made."""
        return ()

    def unreadable(self, kernel: AnyKernel, args: Given, design: Design | None) -> Failure | None:
        """Return the first thing wrong with the rows of a given table, such as a NULL that the
        policy does not allow; `design`: where a plan was made."""
        from penstock.host.sources import Table

        if design is None or not isinstance(args.data, Table):
            return None
        workload = design.workload(args)
        error = workload.unreadable()
        return None if error is None else workload.failure(error)

    @abstractmethod
    def sections(self, outcome: Outcome) -> Iterable[Part]:
        """Return the parts of the report on what a command has found."""

    def profile(self, outcome: Outcome) -> Iterable[Part]:
        """Return what each line of the kernel costs, where the engine `profiles`."""
        return ()

    def peers(
        self, kernel: AnyKernel, args: Given, outcome: Outcome, epochs: int
    ) -> tuple[Sequence[Peer], Sequence[str]]:
        """Return programs of this CPU that do the work of the run on record, and why one is left out."""
        return (), ()

    def largest(self, kernel: AnyKernel, part: Target, args: Given, smaller: int = 0) -> str:
        """Return a hint that says which size of the kernel fits on a part; `smaller`: by how much
        at least it must be smaller than what was asked for, 0 where the planner has said already
        that it does not fit. Empty where there is nothing to add."""
        return "choose a board with a larger device" if smaller else ""
