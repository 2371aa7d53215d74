"""Reports on oblivious maps."""

from collections.abc import Iterable

from penstock.models.omap.config import OmapConfig
from penstock.models.omap.hbm import LATE
from penstock.models.omap.planner import published
from penstock.models.omap.tails import ASSUMPTIONS, LIFETIME, collision, failures, total
from penstock.report.common import agreement, cycle_rows, resources, speed_rows, written
from penstock.report.parts import Facts, Part, Row
from penstock.report.words import amount, plural, target_text
from penstock.runs.outcome import Outcome
from penstock.targets import link_of as own_link

from .design import MapDesign, Mapped
from .plans import front, ideal, link_of


def summary(outcome: Outcome) -> Iterable[Part]:
    """Return the report on a compiled, predicted or simulated map."""
    design = outcome.design
    assert isinstance(design, MapDesign)
    yield _map(design)
    yield _budget(design)
    if outcome.rows is not None:
        yield Facts((*agreement(outcome), *cycle_rows(outcome, clock=True), *_speed(outcome)))
        yield Facts(tuple(speed_rows(outcome)))
    yield Facts((resources(outcome),))
    yield written(outcome)
    if isinstance(outcome.workload, Mapped) and outcome.workload.args.option("plans"):
        yield front(outcome)


def _map(design: MapDesign) -> Facts:
    plan = design.plan
    theirs = published(plan)
    return Facts.of(
        ("map", _items(plan)),
        (
            "bins",
            f"{plan.bins:,} of mean load {amount(plan.load)}, {plan.hbm_bins:,} in HBM "
            f"({plan.alpha:.1%}), {plural(plan.host_bins, 'page')} of {plural(plan.slots, 'item')}",
        ),
        (
            "host bytes",
            f"{_bytes(plan.bytes_per_operation)} an operation each way; "
            f"{_bytes(theirs['bytes'])} with {amount(theirs['load'])} items a bin and "
            f"{theirs['share']:.0%} in HBM, as published",
        ),
        (
            "memory",
            f"{plan.hbm_bytes:,} bytes of HBM, {plan.host_bytes:,} bytes of pages "
            f"of {plan.page_bytes} bytes",
        ),
        ("all in HBM", _whole(plan)),
        (
            "engine",
            f"{design.text()}, {plural(plan.chunks, 'piece')} a page; "
            f"HBM's deadline {plan.access.deadline} cycles"
            + f", of frames {plan.access.frame_deadline}"
            * (plan.access.frame_deadline > 0),
        ),
        ("target", target_text(design.target) + _beyond(design)),
    )


def _beyond(design: MapDesign) -> str:
    """Say where the map has more ports than its part, whose rates are then of no hardware."""
    ports = design.own_ports
    return f"; the map has {ports + 1}, in simulation alone" * (ports >= design.target.ports)


def _whole(plan: OmapConfig) -> str:
    """Say what a map without pages would take: the position map, and a frame for each item."""
    size = plan.records_at + -(-plan.capacity * plan.frame_bytes // 4096) * 4096
    less = "less" if size < plan.hbm_bytes else "no less"
    return f"{size:,} bytes would hold every item there, without a page: {less} trusted memory (no engine is that)"


def _items(plan: OmapConfig) -> str:
    hashed = f", the hashes of {plan.key}" if plan.key != "u64" else ""
    items = plural(plan.capacity, "item")
    return f"{items} of {plan.key_bytes} and {plan.value_bytes} bytes{hashed}"


def _bytes(mean: float) -> str:
    return f"{mean:,.0f}" if mean >= 100 else amount(mean)


def _chance(log: float) -> str:
    return f"2^{log:.0f}" if log > -1000 else "never"


def _budget(design: MapDesign) -> Facts:
    """What may fail, and what the tails assume."""
    rows = [
        Row(failure.name, f"{_chance(failure.lifetime)} in 2^{LIFETIME} operations")
        for failure in failures(design.plan)
    ]
    rows.append(Row("any of the first three", _chance(total(design.plan))))
    if design.plan.access.pace:
        rows.append(Row("HBM is late", f"once in 2^{-LATE} operations, an estimate; the map stops"))
    if design.plan.key != "u64":
        rows.append(
            Row("two keys have one hash", f"{_chance(collision(design.plan))} in a full map")
        )
    rows += [Row("assumed" if not k else "", text) for k, text in enumerate(ASSUMPTIONS)]
    return Facts(tuple(rows), title="failure budget")


def _carried(outcome: Outcome, rate: float, pages: float) -> list[Row]:
    """Say where pages move more than the target's own link carries; one that was given is in the cycles."""
    design, workload = outcome.design, outcome.workload
    assert isinstance(design, MapDesign) and isinstance(workload, Mapped)
    link = None if link_of(workload.args, design.target) else own_link(design.target)
    moved = rate * pages * design.plan.page_bytes
    if link is None or moved <= link.bytes_per_s:
        return []
    held = float(link.bytes_per_s) / moved * rate
    text = f"pages move {moved / 1e9:.3g} GB/s each way: {held / 1e6:.3g} million are what {link.kind} carries"
    return [Row("", text)]


def _beside(outcome: Outcome) -> list[Row]:
    """What memory that is always ready would allow."""
    rate, design = ideal(outcome), outcome.design
    assert isinstance(design, MapDesign)
    if rate is None:
        return []
    ready = design.target.timing
    return [Row("", f"{rate:.3f} million with a plan for ideal memory ({ready})")]


def _speed(outcome: Outcome) -> list[Row]:
    if outcome.cycles is None or outcome.model is None or outcome.design is None:
        return []
    mhz = outcome.design.target.clock_mhz
    counters = outcome.model.counters
    count = counters["operations"]
    rows = [
        Row(
            "operations",
            f"{count:,}, {count / outcome.cycles * mhz:.3f} million a second; "
            f"{counters['pages'] / count:.3f} pages each",
        ),
        *_carried(outcome, count / outcome.cycles * mhz * 1e6, counters["pages"] / count),
        *_beside(outcome),
        Row("latency", f"{counters['latency'] / mhz:.2f} µs from arrival to response, mean"),
    ]
    for name, cycles in outcome.model.facts["latency"].items():
        rows.append(Row("", f"{cycles / count / mhz:.2f} µs {name}"))
    if counters["conflicts"]:
        rows.append(
            Row("conflicts", f"{counters['conflicts']:,} cycles in which a page was in flight")
        )
    return rows
