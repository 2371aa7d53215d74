"""Joules and carbon of a run, all estimates.

    E  = idle_w·T + Σ N_cmd·e_cmd + link bytes·e_link + used share·activity·(max_w − idle_w)·T
    CF = CI·E + (T ÷ lifetime)·E_CF                       E_CF = area·(CI_fab·EPA + GPA + MPA) ÷ yield + g/GB·GB ÷ yield

The second is that of ACT, with the figures that CATransformers uses (both Meta's, 2022 and 2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .memory.dram.energy import Picojoules
from .target import Power

#: watts where plans are compared and the target says none: a card's, assumed
CARD = Power(idle_w=35, max_w=160)

#: pJ of a byte over a link, where nobody says: that of the GPU link in Pimba's simulator; of others assumed
LINK_PJ = 10.4
#: g of CO2 of a kWh
GRIDS: Mapping[str, float] = {
    "world": 481, "taiwan": 642, "usa": 369, "europe": 300, "india": 713, "singapore": 471,
    "iceland": 7.3, "california": 224, "british-columbia": 68,
}  # fmt: skip
#: by nm: kWh of a cm², and g of gases of a cm² with 95 % of them caught
NODES: Mapping[float, tuple[float, float]] = {
    28: (0.90, 175), 22: (1.077, 188.28), 14: (1.20, 200), 10: (1.475, 240), 7: (2.15, 350),
    5: (2.75, 430), 3: (3.25, 470),
}  # fmt: skip
#: g of material of a cm², at every node
_MATERIAL = 500.0
#: g of a GB of DRAM
DRAM_GRAMS: Mapping[str, float] = {"ddr3": 230, "lpddr3": 184, "lpddr4": 48, "ddr4": 65}
_YIELD = 0.875
_YEAR = 365.25 * 86400


@dataclass(frozen=True)
class Energy:
    """Joules by what takes them; None where the target does not say its power, or nothing is known of its DRAM's commands."""

    dram: float | None
    link: float
    idle: float | None = None
    activity: float | None = None
    ceiling: float | None = None  #: max_w·T, which the sum never passes
    sources: tuple[str, ...] = ()  #: where figures come from, and why one is missing

    @property
    def joules(self) -> float | None:
        """All of it, None where a part is not known."""
        known = [p for p in (self.idle, self.dram, self.link, self.activity) if p is not None]
        if len(known) < 4:
            return None
        return sum(known) if self.ceiling is None else min(sum(known), self.ceiling)

    def to_json(self, carbon: Carbon | None = None) -> dict[str, object]:
        """Return it as `energy` of `--json` has it."""
        record = {"joules": self.joules, "ceiling": self.ceiling}
        if carbon is not None:
            record["kg_co2"] = carbon.kg
        source = "; ".join(("estimate", *self.sources, *(carbon.sources if carbon else ())))
        return {**{k: v for k, v in record.items() if v is not None}, "source": source}


def energy(
    seconds: float,
    *,
    idle_w: float | None = None,
    max_w: float | None = None,
    share: float = 1.0,
    activity: float = 1.0,
    commands: Mapping[str, int] | None = None,
    of_commands: Picojoules | None = None,
    link_bytes: int = 0,
    link_pj: float = LINK_PJ,
    source: str = "",
) -> Energy:
    """Return the joules of a run.

    * `seconds`: from the start to the result.
    * `idle_w`, `max_w`: the board's watts.
    * `share`: the largest share of the part's resources that the design takes; `activity`: the part of the
      time in which it works.
    * `commands`: of the DRAM, by name; None where the memory is none.
    * `of_commands`: what one takes; None where that is not known.
    * `source`: of the watts.
    """
    sources = [f"power: {source}"] if source else []
    dram: float | None = 0.0
    if commands:
        dram = None if of_commands is None else of_commands.total(commands) * 1e-12
        sources.append(f"DRAM: {of_commands.source if of_commands else 'currents not known'}")
    link = link_bytes * link_pj * 1e-12
    if idle_w is None or max_w is None:
        return Energy(dram, link, sources=(*sources, "the target's watts are not known"))
    if not (0 <= idle_w <= max_w and 0 <= share and 0 <= activity <= 1 and seconds >= 0):
        raise ValueError(f"idle watts are not above the most watts: {idle_w} and {max_w}")
    worked = min(share, 1) * activity * (max_w - idle_w) * seconds
    return Energy(dram, link, idle_w * seconds, worked, max_w * seconds, tuple(sources))


@dataclass(frozen=True)
class Embodied:
    """Grams of CO2 that making a device took; `grams` None with the reason where nobody can say."""

    grams: float | None
    source: str


def embodied(
    area_mm2: float | None,
    node_nm: float | None,
    *,
    dram: str = "",
    dram_gb: float = 0.0,
    grid: str = "taiwan",
) -> Embodied:
    """Return what making a part and its memory took; between two rows of `NODES` linear.

    `dram`: a kind of `DRAM_GRAMS`; a kind without a row counts as DDR4, said in the source.
    """
    if area_mm2 is None or node_nm is None:
        return Embodied(None, "embodied carbon: the die's area is not published")
    if node_nm > max(NODES) or node_nm < min(NODES):
        return Embodied(None, f"embodied carbon: no figures for {node_nm:g} nm")
    above = min(nm for nm in NODES if nm >= node_nm)
    below = max(nm for nm in NODES if nm <= node_nm)
    part = (node_nm - below) / (above - below) if above > below else 0.0
    kwh, gases = (b + part * (a - b) for a, b in zip(NODES[above], NODES[below], strict=True))
    die = area_mm2 / 100 * (GRIDS[grid] * kwh + gases + _MATERIAL) / _YIELD
    memory = DRAM_GRAMS.get(dram, DRAM_GRAMS["ddr4"]) * dram_gb / _YIELD
    known = "" if dram in DRAM_GRAMS or not dram_gb else f", {dram or 'memory'} taken as DDR4"
    return Embodied(die + memory, f"embodied carbon: ACT at {node_nm:g} nm, made in {grid}{known}")


@dataclass(frozen=True)
class Carbon:
    """Kilograms of CO2 of a run: of its joules, and its part of the device's life."""

    joules: float
    seconds: float
    made: Embodied
    grid: str = "world"
    years: float = 3.0
    sources: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        used = f"{GRIDS[self.grid]:g} g a kWh ({self.grid})"
        life = () if self.made.grams is None else (f"a life of {self.years:g} years",)
        object.__setattr__(self, "sources", (used, self.made.source, *life))

    @property
    def kg(self) -> float:
        """All that is known of it."""
        used = self.joules / 3.6e6 * GRIDS[self.grid] / 1000
        return used + self.seconds / (self.years * _YEAR) * (self.made.grams or 0.0) / 1000
