"""A recurrence compiled for a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.dsl.pim.recurrent import HostNode, Pass, Recurrent
from penstock.engines.base import Design, Given, Workload
from penstock.errors import Conflict
from penstock.models.numerics.floating import float16
from penstock.models.pim.config import PimConfig
from penstock.models.pim.layout import Layout
from penstock.models.pim.operands import Seating
from penstock.models.pim.program import register_map
from penstock.models.pim.resources import memories, resources_of
from penstock.report.words import plural
from penstock.sim.native import PortSpec

from .attention import Attending
from .workload import Stepping

if TYPE_CHECKING:
    from penstock.engines.base import Session
    from penstock.hdl.modules import Parts
    from penstock.models.mapping import Storage
    from penstock.models.resources import Resources
    from penstock.models.target import Target


def recurrent_from(data: Mapping[str, Any]) -> Recurrent:
    """Return a recurrence from plain data."""
    plain: Any = lambda x: tuple(map(plain, x)) if isinstance(x, list) else x
    nodes = tuple(HostNode(op, tuple(inputs), attrs) for op, inputs, attrs in data["nodes"])
    passes = tuple(Pass(**one) for one in data["passes"])
    values = {name: plain(value) for name, value in data.items()}
    return Recurrent(**{**values, "nodes": nodes, "passes": passes})


#: fields that manifests have as they are
PLAIN = ("batch", "heads", "on_overflow", "group")


@dataclass(frozen=True, repr=False)
class PimDesign(Design):
    """Recurrences with the device that steps them. A run is of the first; sessions step all."""

    recurrents: tuple[Recurrent, ...]
    device: PimConfig
    batch: int
    heads: int
    on_overflow: str = "error"  #: of the data, unless a run says otherwise
    layers: tuple[int, ...] = (0,)  #: which recurrence each layer is
    group: int = 1  #: heads that share a cache
    engine_name = "pim"
    #: two thirds of what placements reached (docs/explanation/pim.md), the board's own oscillator; grade 8 is a guess
    clocks: ClassVar[Mapping[tuple[str, str], float]] = {("ecp5", "6"): 25.0, ("ecp5", "8"): 30.0}
    arguments = frozenset({"tokens", "batch", "heads", "first", "on_nan", "on_overflow", "seed"})

    @property
    def name(self) -> str:
        return "+".join(one.name for one in self.recurrents)

    @property
    def recurrent(self) -> Recurrent:
        """The first."""
        return self.recurrents[0]

    def structure(self) -> Any:
        return [self.engine_name, self.target.name, self.device.to_json()]

    @property
    def format(self) -> Any:
        return float16

    @property
    def format_name(self) -> str:
        return self.device.format

    @property
    def registers(self) -> Any:
        return register_map(self.device, self.identity)

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        return (PortSpec("m0_axi", self.device.bus, True, True),)

    def component(self, parts: Parts) -> Any:
        from penstock.hdl.pim.engine import PimEngine

        return PimEngine(self.device, self.identity, parts)

    def resources_on(self, part: Target) -> Resources:
        return resources_of(self.device, part)

    def storages(self) -> Iterable[tuple[int, Storage]]:
        return memories(self.device)

    @property
    def device_memory(self) -> tuple[str, int]:
        return "block RAM", 0

    def config(self) -> dict[str, Any]:
        device = self.device
        return {
            "mode": self.recurrent.mode,
            "dim_head": self.recurrent.shape[0],
            "dim_state": self.recurrent.shape[1],
            "batch": self.batch,
            "heads": self.heads,
            "kv_heads": self.heads // self.group,
            "layers": len(self.layers),
            "banks": device.groups * device.banks,
            "bank_groups": device.groups,
            "rows": device.rows,
            "unit": device.design.label,
            "sets": device.sets,
            "rounding": "stochastic" if device.stochastic else "nearest",
            "refresh": device.refresh,
            "dram": device.timing.name,
        }

    def to_json(self) -> dict[str, Any]:
        recurrent, *more = (
            {
                **vars(one),
                "nodes": [n.to_json() for n in one.nodes],
                "passes": list(map(vars, one.passes)),
            }
            for one in self.recurrents
        )
        device = {"device": self.device.to_json(), "layers": list(self.layers)}
        return {
            "recurrent": recurrent,
            "more": more,
            **device,
            **{n: getattr(self, n) for n in PLAIN},
        }

    def text(self) -> str:
        device = self.device
        units = device.pairs * 2 // device.design.banks
        beside = plural(device.groups * device.banks, "bank")
        return f"{plural(units, 'unit')} ({device.design.label}) beside {beside}"

    def layout(self, tokens: int, seed: int = 1, first: int = 0) -> Layout:
        """Return where a run's state lies; `first`: the number of the first token."""
        items = self.batch * self.heads
        form = self.recurrent.form
        return Layout(self.device, *form, items, tokens, seed, self.heads, first)

    @property
    def stack(self) -> tuple[Recurrent, ...]:
        """The recurrence of each layer."""
        return tuple(self.recurrents[n] for n in self.layers)

    def seated(
        self,
        layer: int,
        requests: int,
        tokens: int = 1,
        seating: Seating | None = None,
        part: int = 0,
    ) -> Layout:
        """Return where tokens of some requests of a session lie in a layer, or in its caches of keys (`part` 0) and values (1)."""
        recurrent = self.stack[layer]
        heads = self.heads // (1 if recurrent.values is None else self.group)
        form = recurrent.parts[part].form
        return Layout(self.device, *form, requests * heads, tokens, heads=heads, seating=seating)

    def workload(self, args: Given) -> Workload:
        if len(self.layers) > 1:
            hint = "design.open() steps each of them"
            raise Conflict(f"{self.name} has {len(self.layers)} layers; a run has one", hint)
        return (Stepping if self.recurrent.values is None else Attending).of(self, args)

    def open(self, backend: str = "golden", **options: Any) -> Session:
        """Return a session: several requests, whose states stay in the banks.

        Parameters: `backend`: "golden", "model" (golden's results, with cycles), "rtl", "pysim", "netlist" or "board"; `seed`: of random bits;
        `on_overflow`: "error" or "saturate"; `memory`, `watchdog`, `stall_percent`, `waves`, `family`, `device`: as `run` takes them.

        Raises SessionError (E466) for a recurrence that reads a cache which does not grow, and banks that are refreshed; OptionError for an
        unknown backend or option.
        """
        from .session import opened

        return opened(self, backend, {"on_overflow": self.on_overflow, **options})
