"""Decides benches on AIGER: reachability, bounded checks, k-induction."""

from __future__ import annotations

import hashlib
import json
import re
import resource
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from penstock.sim.native.toolchain import cache_folder

from .bench import Bench, Problem
from .tools import abc, versions, yosys

__all__ = ["Verdict", "decide"]

#: bits and flip-flops alone; initial contents are Amaranth's
_AIGER = """
read_rtlil top.il
hierarchy -check -top top
proc -norom
flatten
opt -fast
memory_collect
memory_nordff
async2sync
setundef -undriven -anyseq
chformal -remove
memory_map -formal
setundef -anyseq
opt -full
formalff -clk2ff -ff2anyinit
techmap
opt -fast
dffunmap
setundef -anyseq
techmap
setundef -anyseq
aigmap
opt_clean
write_aiger -I -zinit -no-startoffset -symbols top.aig
"""


#: before reachability: registers that are always equal become one (`scorr`), which alone decides
#: much of what is said of two runs
_REACH = "read_aiger top.aig; cone -a -O 0; strash; scleanup; scorr; dc2"

#: the same, before a bounded search
_MERGE = "; scorr"

#: registers alone, then whatever is left of them
_ALIKE = "read_aiger top.aig; cone -a -O 0; strash; scleanup; lcorr; scorr"

#: what is said where the step of induction takes too long
_LATE = "out of time"

#: what ABC says when the states that it knows are all that there are
_EXHAUSTED = "Explored all reachable states"


@dataclass
class Verdict:
    """What was found out about a bench.

    `holds` is None where the time was not enough. `depth`: frames of the invariant, cycles of
    induction or of the bounded check. `reached`: the cycle in which each cover was reached first.
    `seconds`: of processor. `trace`: the inputs' values by name, one a cycle, if a check fails.
    """

    holds: bool | None
    depth: int = 0
    seconds: float = 0.0
    reached: dict[str, int] = field(default_factory=dict)
    trace: dict[str, list[int]] = field(default_factory=dict)
    detail: str = ""


def decide(
    bench: Bench,
    *,
    method: str,
    depth: int = 0,
    covers: int = 0,
    seconds: float = 120,
    merge: bool = False,
) -> Verdict:
    """Decide a bench, or recall what was decided of the same one by the same tools.

    `covers`: cycles within which covers are looked for; 0: they are not. `merge`: registers that are
    always equal become one before a bounded search as well.
    """
    text = bench.rtlil()
    key = "\n".join([text, method, str(depth), str(covers), versions(), _AIGER, _REACH])
    key += _MERGE * merge + _ALIKE * (method == "registers")
    file = cache_folder() / "proofs" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    if file.exists():
        return Verdict(**json.loads(file.read_text()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "top.il").write_text(text)
        begun = _spent()
        yosys(_AIGER, folder)
        if method == "pdr":
            verdict = _reachability(bench, folder, seconds)
        elif method == "bounded":
            verdict = _bounded(bench, folder, depth, seconds, merge)
        elif method == "induction":
            verdict = _induction(bench, folder, depth, seconds)
        elif method == "registers":
            verdict = _merged(folder, seconds)
        else:
            raise Problem(f"there is no method {method}")
        if covers:
            verdict.reached = _covered(bench, folder, covers, seconds)
        verdict.seconds = round(_spent() - begun, 1)
    if verdict.holds is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{time.monotonic_ns()}")
        part.write_text(json.dumps(asdict(verdict)))
        part.replace(file)
    return verdict


def _spent() -> float:
    """Seconds of processor that the tools have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _checked(out: str | None) -> str:
    if out is None:
        return ""
    # a network without registers is what it is: bmc3 and pdr decide it all the same
    if "Error" in out.replace("Error: The network is combinational", "") or "cannot" in out.lower():
        raise Problem(f"ABC failed:\n{out[-2000:]}")
    return out


def _failed(out: str) -> int | None:
    found = re.search(r"[Oo]utput \d+ of miter \".*?\" was asserted in frame (\d+)", out)
    return int(found[1]) if found else None


def _trace(bench: Bench, folder: Path, frames: int) -> dict[str, list[int]]:
    """The inputs of a counterexample that ABC wrote."""
    names = {signal.name: name for name, signal in bench.inputs.items()}
    values = {name: [0] * (frames + 1) for name in bench.inputs}
    for name, bit, cycle, value in re.findall(
        r"(\w+)(?:\[(\d+)\])?@(\d+)=([01])", (folder / "cex").read_text()
    ):
        if name in names and value == "1":
            values[names[name]][int(cycle)] |= 1 << int(bit or 0)
    for name in bench.constants:
        values[name] = values[name][:1] * (frames + 1)
    return values


def _decided(aiger: Path) -> bool:
    """Whether registers that are always equal, merged, are enough: no check can fail any more.

    The header of a binary AIGER file is `aig M I L O A`; with neither latches (L) nor gates (A) the
    output that follows is a constant, `0` where it is never high.
    """
    header, output = aiger.read_bytes().split(b"\n", 2)[:2]
    return header.split()[3] == header.split()[5] == b"0" and output == b"0"


def _reachability(bench: Bench, folder: Path, seconds: float) -> Verdict:
    out = _checked(
        abc(
            f"{_REACH}; write_aiger merged.aig; pdr; write_cex -n cex",
            folder,
            seconds,
        )
    )
    if (frames := _failed(out)) is not None:
        return Verdict(False, frames, trace=_trace(bench, folder, frames))
    if (folder / "merged.aig").exists() and _decided(folder / "merged.aig"):
        return Verdict(True, 0)
    if "Property proved" in out:
        depth = re.findall(r"Invariant F\[(\d+)\]", out)
        return Verdict(True, int(depth[-1]) if depth else 0)
    return Verdict(None, detail=out[-500:])


def _merged(folder: Path, seconds: float) -> Verdict:
    """Whether nothing is left to check where registers are one that are equal at reset and, if all of these are equal in a
    cycle, in the next one: induction over registers alone, where there are too many other signals. Those of what is left
    are looked at behind it."""
    out = _checked(abc(f"{_ALIKE}; write_aiger merged.aig", folder, seconds))
    file = folder / "merged.aig"
    proven = file.exists() and _decided(file)
    return Verdict(proven or None, 1, detail=out[-500:] or _LATE)


def _bounded(
    bench: Bench, folder: Path, depth: int, seconds: float, merge: bool = False
) -> Verdict:
    ready = f"strash{'; scleanup' * merge}{_MERGE * merge}"
    out = _checked(
        abc(
            f"read_aiger top.aig; cone -a -O 0; {ready}; bmc3 -F {depth}; write_cex -n cex",
            folder,
            seconds,
        )
    )
    if (frames := _failed(out)) is not None:
        return Verdict(False, frames, trace=_trace(bench, folder, frames))
    if _EXHAUSTED in out:
        return Verdict(True, depth)
    reached = re.search(r"No output (?:was )?asserted in (\d+) frames", out)
    return Verdict(True if reached and int(reached[1]) >= depth else None, depth, detail=out[-500:])


def _induction(bench: Bench, folder: Path, depth: int, seconds: float) -> Verdict:
    base = _bounded(bench, folder, depth + 1, seconds)
    if not base.holds:
        return base
    out = _checked(
        abc(
            f"read_aiger top.aig; cone -a -O 0; strash; scleanup; ind -F {depth + 1}",
            folder,
            seconds,
        )
    )
    proven = "Networks are equivalent" in out
    return Verdict(proven or None, depth, detail=out[-500:] or _LATE)


def _covered(bench: Bench, folder: Path, within: int, seconds: float) -> dict[str, int]:
    """The cycle in which each cover is reached first."""
    commands = [
        f"read_aiger top.aig; cone -a -O {number}; strash; bmc3 -F {within}"
        for number in range(1, len(bench.covers) + 1)
    ]
    out = _checked(abc("; ".join(commands), folder, seconds))
    found = re.findall(rf"asserted in (?:frame +)?(\d+)( frames)?|({_EXHAUSTED})", out)
    if not out:
        return {}
    if len(found) != len(bench.covers):
        raise Problem(f"ABC did not look for all covers:\n{out[-2000:]}")
    return {
        text: int(cycle)
        for text, (cycle, none, exhausted) in zip(bench.covers, found, strict=True)
        if not none and not exhausted
    }
