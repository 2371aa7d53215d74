"""What a failing proof prints."""

from __future__ import annotations

import re

from penstock.sim.native.toolchain import cache_folder

from .proofs import Proof
from .solve import Verdict
from .trace import replay

__all__ = ["failure"]


def failure(proof: Proof, verdict: Verdict) -> str:
    """Say what fails, in which cycle, with the inputs that lead there; write them as a VCD."""
    if verdict.holds is None:
        return f"{proof.name}\nwas not decided within {proof.seconds} s: {verdict.detail}"
    folder = cache_folder() / "proofs"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / (re.sub(r"\W+", "_", proof.name)[:80] + ".vcd")
    failed, table = replay(proof.bench(), verdict.trace, file)
    cycle = len(next(iter(verdict.trace.values()))) - 1
    if not failed:
        return f"{proof.name}\ndoes not hold for the tools, but Amaranth's simulator shows no failure:\n\n{table}\n\n{file}"
    lines = [
        proof.name,
        *(f"fails in cycle {cycle}: {text}" for text in failed),
        "",
        table,
        "",
        f"as waves: {file}",
    ]
    return "\n".join(lines)
