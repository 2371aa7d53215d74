"""What the proofs, by themselves, say of a mutant of the shared hardware: `tests/mutants.py --proofs`.

A mutant is planted in memory and decided by the proofs of its module's parts alone, as the tests decide
them. It is caught where one no longer holds, or no longer reaches a cover.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import time
import warnings
from functools import cache

from amaranth.hdl import Fragment
from harness import Bench, Proof, decide, two_runs
from harness.defects import replanted
from mutation.kinds import Mutant
from parts import PROOFS

from penstock.hdl.modules import directed_ports


@cache
def looking_at(module: str) -> list[Proof]:
    """The proofs of a module's parts, the quick first; then of those that use it."""
    own, using = [], []
    for proof in PROOFS:
        package, _, name = proof.part.rpartition(".")
        part = getattr(importlib.import_module(f"penstock.{package}"), name, None)
        home = getattr(part, "__module__", "penstock")
        if home == module:
            own.append(proof)
        elif any(
            getattr(value, "__module__", None) == module
            for value in vars(importlib.import_module(home)).values()
        ):
            using.append(proof)

    def quick_first(proofs: list[Proof]) -> list[Proof]:
        return sorted(proofs, key=lambda proof: (bool(proof.long), proof.method == "bounded"))

    return quick_first(own) + quick_first(using)


@cache
def text_of(number: int) -> str:
    return PROOFS[number].bench().rtlil()


def caught(proof: Proof, seconds: int) -> str:
    """What a proof says of what is planted: "caught", "holds", "late" or "unchanged"."""
    bench = proof.bench()
    if bench.rtlil() == text_of(PROOFS.index(proof)):
        return "unchanged"
    verdict = decide(
        bench, method=proof.method, depth=proof.depth, covers=proof.covers, seconds=seconds
    )
    if verdict.holds is None:
        if proof.method == "induction" and "out of time" not in verdict.detail:
            return "caught"  # what induction has to know is no longer so
        verdict = decide(proof.bench(), method="bounded", depth=proof.search, seconds=seconds)
        return "caught" if verdict.holds is False else "late"
    missing = [text for text in bench.covers if text not in verdict.reached]
    return "caught" if not verdict.holds or missing else "holds"


def _dut(proof: Proof):
    """A proof's component, elaborated now."""
    component = proof.bench().m._named_submodules["dut"]
    fragment = Fragment.get(component, None)
    component.elaborate = lambda platform: fragment
    return component


def same(proof: Proof, module: str, source: str, seconds: int) -> bool:
    """Whether a part, as the proof has it, gives the same with a mutant's source, for all inputs."""
    one, b = _dut(proof), Bench()
    with replanted(module, source):
        other = _dut(proof)
    ports = directed_ports(one).items()
    inputs = [name for name, (_, direction) in ports if direction.value == "input"]
    (_, mine), (_, theirs) = two_runs(b, iter((one, other)).__next__, inputs)
    for name, value in mine.items():
        b.check(name, value == theirs[name])
    b.cover("it runs", ~b.first)
    return decide(b, method="pdr", seconds=seconds).holds is True


def judged(mutant: Mutant, seconds: int = 12) -> dict[str, object]:
    """How a mutant ends, and the proof that caught it."""
    begun, name = time.process_time(), mutant.module.removesuffix(".py").replace("/", ".")
    module = f"penstock.{name}"
    source = mutant.planted(inspect.getsource(importlib.import_module(module)))
    proofs = looking_at(module)
    for proof in proofs:
        text_of(PROOFS.index(proof))
    warnings.simplefilter("ignore")

    def told(end: str, by: str) -> dict[str, object]:
        spent = round(time.process_time() - begun, 1)
        return {"key": mutant.key, "end": end, "by": by, "seconds": spent}

    late, touched = False, []
    with replanted(name, source):
        for proof in proofs:
            try:
                said = caught(proof, seconds)
            except Exception as error:
                return told("invalid", f"{type(error).__name__}: {error}"[:150])
            if said == "caught":
                return told("caught", proof.name)
            late |= said == "late"
            touched += [proof] * (said != "unchanged")
    with contextlib.suppress(Exception):
        if touched and all(same(proof, name, source, seconds // 2) for proof in touched):
            return told(
                "equivalent", "all outputs are the same for all inputs, as the proofs have it"
            )
    return told("late" if late else "MISSED", "no proof")
