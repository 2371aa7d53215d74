"""The registration of the engine of oblivious maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.boards.records import from_json
from penstock.dsl.omap.kernel import MapKernel
from penstock.engines.base import Design, Engine, Given
from penstock.errors import Conflict
from penstock.models.memory import parse_memory
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.errors import MapError

from .commands import COMMANDS
from .design import MapDesign
from .operations import check_options
from .options import OPTIONS

if TYPE_CHECKING:
    import click

    from penstock.dsl.core.kernel import AnyKernel
    from penstock.engines.options import Request
    from penstock.report.parts import Part
    from penstock.runs.outcome import Outcome


def _open(kernel: MapKernel, backend: str) -> Any:
    from penstock.host.omap import ObliviousMap

    return ObliviousMap(
        kernel.capacity, key=kernel.key, value_bytes=kernel.value_bytes, backend=backend
    )


MapKernel.opens = staticmethod(_open)


class MappingEngine(Engine):
    """Maps whose accesses show nothing."""

    name = "omap"
    kernels = (MapKernel,)
    default_target = "u55c"
    backends = frozenset({"golden", "rtl", "netlist"})
    data_optional = True
    options = OPTIONS
    errors = (MapError,)
    names: ClassVar[Mapping[str, str]] = {
        "ObliviousMap": "penstock.dsl.omap.kernel:ObliviousMap",
        "bytes": "penstock.dsl.omap.kernel:bytes",
        "text": "penstock.dsl.omap.kernel:text",
        "u64": "penstock.dsl.omap.kernel:u64",
    }
    arguments = frozenset({"hbm", "load", "share", "window", "rounds", "cores", "channels", "link"})

    @property
    def commands(self) -> Sequence[click.Command]:
        return COMMANDS

    @property
    def papers(self) -> Mapping[str, Any]:
        from .bolt import parts

        return {"bolt": parts}

    def allow(self, kernel: AnyKernel, command: str, request: Request) -> None:
        check_options(set(request.own), request.data is not None)
        if request.format is not None:
            raise Conflict(
                f"--format {request.format} is not for oblivious maps",
                "leave --format out: values are bytes",
            )

    def needs(self, kernel: AnyKernel) -> str:
        return "operations"

    def open(self, source: Any, args: Given) -> Any:
        return source

    @property
    def passes(self) -> Sequence[Callable[[Any], Any]]:
        from .passes import PASSES

        return PASSES

    def load(self, manifest: Mapping[str, Any]) -> Design:
        return MapDesign(
            from_json(manifest["target"]),
            parse_memory(manifest["memory"]),
            manifest["kernel"],
            OmapConfig.from_json(manifest["config"]),
            parse_memory(manifest["link"]),
        )

    def sections(self, outcome: Outcome) -> Iterable[Part]:
        from .sections import summary

        return summary(outcome)
