"""How a qr engine is built: data that golden model, cycle model and hardware all read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .job import ENTRY_BYTES, Label, Method, row_stride


@dataclass(frozen=True)
class FitPlan:
    n_max: int = 33  #: most columns of a model, the bias included: 4 to 64
    #: `method` and `target` are fixed when the engine is built
    method: Method = Method.GRAM
    target: Label = Label.RANK
    bus_bytes: int = 64  #: width of the memory port, at least that of a sum
    #: integer multiply-accumulators of the entries of AᵀA that are kept (`layout.entries`); lane p
    #: owns the entries p, p + gram_lanes, …, so that a row takes ceil(n (n + 1) / 2 / gram_lanes)
    #: cycles. Method `givens` has a lane for each of its 2 n_max entries.
    gram_lanes: int = 561
    #: rows a cycle in passes over all rows for the error bounds; those for c take a row a cycle
    row_units: int = 1
    #: solver units, each with one divider and `n_max` lanes (a multiplier and a subtracter each);
    #: of `givens` there is one
    solvers: int = 1
    contexts: int = 4  #: groups interleaved in one solver (method `gram`)
    jobs: int = 16  #: jobs between fetch and write-back: input buffers

    def __post_init__(self) -> None:
        for name, low, high in (
            ("n_max", 4, 64),
            ("bus_bytes", 8, 128),
            ("gram_lanes", 1, 2080),
            ("row_units", 1, 16),
            ("solvers", 1, 64),
            ("contexts", 1, 64),
            ("jobs", 1, 4096),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(
                    f"{name} must be from {low} to {high}, not {getattr(self, name)!r}"
                )
        if self.method is Method.GIVENS and self.solvers != 1:
            raise ValueError("method givens has one solver, which takes one group after the other")
        for name in ("bus_bytes", "row_units"):
            if getattr(self, name) & (getattr(self, name) - 1):
                raise ValueError(f"{name} must be a power of two, not {getattr(self, name)}")

    @property
    def incremental(self) -> bool:
        """Whether a refit reads the memo and the changes alone: c goes on from the memo's, and bounds are widened by a proven amount
        (docs/explanation/qr.md). Else c and bounds come from passes over all rows: of ranks those behind a change all move.
        """
        return self.target is Label.SLOT

    @property
    def built(self) -> bool:
        """Whether there is hardware for it, `hdl.qr.engine`, whose cycles are then exact."""
        if self.bus_bytes < row_stride(self.n_max - 1):
            return False
        if self.method is Method.GIVENS:
            return self.gram_lanes >= 2 * self.n_max
        # a word of sums takes as many of the triangle's lanes as it has entries
        return (
            self.gram_lanes >= self.n_max * (self.n_max + 1) // 2
            or self.gram_lanes % (self.bus_bytes // ENTRY_BYTES) == 0
        )

    def structure(self) -> dict[str, Any]:
        """Return what decides the hardware: all of `to_json`."""
        return self.to_json()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FitPlan:
        """The plan of `to_json`. Raises TypeError for one of an older version."""
        return cls(**{**data, "method": Method(data["method"]), "target": Label(data["target"])})
