"""Writes what is proven: python tests/proofs/table.py tests/proofs/table.md [PART...]

Decides all proofs, those that only --long runs as well; what was decided before is recalled. With PARTs,
such as hdl.omap, others keep their rows as they are, if they have one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness import decide
from parts import PROOFS

BEGIN, END = "<!-- proofs: begin -->", "<!-- proofs: end -->"


def method(proof, depth: int) -> tuple[str, str]:
    """How a proof was decided, and how deep that went."""
    if proof.method == "bounded":
        return "bounded", f"{proof.depth} cycles"
    return (
        ("reachability", f"{depth} frames")
        if proof.method == "pdr"
        else ("induction", f"k = {depth}")
    )


def row(proof) -> str:
    """Decide a proof."""
    verdict = decide(
        proof.bench(),
        method=proof.method,
        depth=proof.depth,
        covers=0 if proof.player else proof.covers,
        seconds=proof.seconds,
        merge=proof.merge,
    )
    how, depth = method(proof, verdict.depth) if verdict.holds else ("undecided", "")
    planted = "<br>".join(str(defect) for defect in proof.defects).replace("|", "\\|")
    run = " (`--long`)" if proof.long else ""
    return f"{head(proof)} {how}{run} | {depth} | {verdict.seconds} | {planted} |"


def head(proof) -> str:
    """The first cells of a proof's row."""
    states = proof.states + (f"<br>*cut:* {'; '.join(proof.cuts)}" if proof.cuts else "")
    return f"| `{proof.part}` | {states} |"


def rows(old: str, parts: list[str]) -> list[str]:
    """All rows; `old`: those that there were."""
    lines = [
        "| part | property | method | depth | seconds | planted defect |",
        "| --- | --- | --- | --- | ---: | --- |",
    ]
    for proof in PROOFS:
        known = [line for line in old.splitlines() if line.startswith(head(proof))]
        if not known or not parts or proof.part.startswith(tuple(parts)):
            known = [row(proof)]
            print(known[0], flush=True)
        lines += known
    return lines


if __name__ == "__main__":
    file, chosen = Path(sys.argv[1]), sys.argv[2:]
    text = file.read_text(encoding="utf-8")
    above, _, rest = text.partition(BEGIN)
    old, _, below = rest.partition(END)
    file.write_text("\n".join([above + BEGIN, *rows(old, chosen), END + below]), encoding="utf-8")
