# amaranth: UnusedElaboratable=no
"""The proofs, by part; `PROOFS` is all of them, in the order of the table in docs/proofs.md."""

from harness import Proof

from . import arbiter, commands, copiers, guard, link, memories, sdram, shell, stream, strider

PROOFS: list[Proof] = [
    proof
    for module in (stream, commands, arbiter, copiers, guard, memories, sdram, shell, link, strider)
    for proof in module.PROOFS
]
