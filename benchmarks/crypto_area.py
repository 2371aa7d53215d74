"""Cells of an ECP5 that Yosys makes of each core of `hdl.crypto`, and the cores' cycles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import Options, Section, main, markdown, versions
from synthesis import cells, luts

from penstock.hdl.crypto.ascon import Sponge
from penstock.hdl.crypto.gcm import Gcm
from penstock.hdl.crypto.handshake import Handshake
from penstock.hdl.crypto.sha256 import Hkdf, Hmac, Sha256
from penstock.hdl.crypto.x25519 import X25519
from penstock.models.crypto import ascon, gcm, handshake, x25519
from penstock.models.crypto.sha256 import hash_cycles, hkdf_cycles, hmac_cycles

_PAYLOAD = 33
_SPONGE = sum(ascon.pace(1)) + 2 * ascon.pace(1).block

#: name, component, what it does, and in how many cycles
CORES: list[tuple[str, Callable[[], Any], str, int]] = [
    ("Ascon-AEAD128", lambda: Sponge(blocks=3, rounds=1, opening=True), "48 bytes", _SPONGE),
    ("AES-256-GCM", Gcm, "48 bytes", gcm.cycles(0, 48)),
    ("SHA-256", Sha256, "64 bytes", hash_cycles(64)),
    ("HMAC-SHA-256", Hmac, "32 bytes", hmac_cycles(32)),
    ("HKDF-SHA-256", Hkdf, "two blocks from 32 bytes", hkdf_cycles(32, 0, 2)),
    ("X25519", X25519, "a multiplication", x25519.CYCLES),
    (
        "Noise NK and NKpsk2",
        lambda: Handshake(payload=_PAYLOAD),
        "NKpsk2, all of the above but Ascon in it",
        handshake.cycles(True, _PAYLOAD),
    ),
]


def area(options: Options) -> str:
    rows = []
    for name, make, what, cycles in CORES[2:3] if options.quick else CORES:
        found = cells(make(), "ecp5")
        row = [name, f"{luts(found):,}", f"{found['TRELLIS_FF']:,}", found["MULT18X18D"]]
        rows.append([*row, what, f"{cycles:,}"])
    header = ["core", "LUT4", "FF", "MULT18X18D", "work", "cycles"]
    return f"{markdown(header, rows)}\n\nWith {versions('pyosys', 'amaranth')}."


SECTIONS = [Section("crypto-area", False, area)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
