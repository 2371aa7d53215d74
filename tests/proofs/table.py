"""Writes what is proven: python tests/proofs/table.py tests/proofs/table.md

Decides all proofs, those that only --long runs as well, and plants all defects; what was decided
before is recalled.
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


def rows() -> list[str]:
    lines = [
        "| part | property | method | depth | seconds | planted defect |",
        "| --- | --- | --- | --- | ---: | --- |",
    ]
    for proof in PROOFS:
        verdict = decide(
            proof.bench(),
            method=proof.method,
            depth=proof.depth,
            covers=0 if proof.player else proof.covers,
            seconds=proof.seconds,
            merge=proof.merge,
        )
        how, depth = method(proof, verdict.depth) if verdict.holds else ("undecided", "")
        states = proof.states + (f"<br>*cut:* {'; '.join(proof.cuts)}" if proof.cuts else "")
        planted = "<br>".join(str(defect) for defect in proof.defects).replace("|", "\\|")
        lines.append(
            f"| `{proof.part}` | {states} | {how}{' (`--long`)' if proof.long else ''} | {depth} | {verdict.seconds} | {planted} |"
        )
        print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    file = Path(sys.argv[1])
    text = file.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    file.write_text(
        "\n".join([head + BEGIN, *rows(), END + rest.partition(END)[2]]), encoding="utf-8"
    )
