"""YCSB's core workloads A to F, with any share of each operation, request distribution, insert order and scan length.

Source: brianfrankcooper/YCSB, `workloads/workload[a-f]` and `CoreWorkload`. What one client thread does, one operation after another: an insert is
acknowledged before the next operation. Number generators and where their random numbers come from: `distributions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .distributions import Hotspot, KeyChooser, Latest, ScrambledZipfian, Uniform, Zipfian, fnv64
from .operations import Block, Kind, Operation, one_by_one

__all__ = ["CORE", "Mix", "Ycsb", "key_names"]

_BLOCK = 1 << 13  # operations made at a time


@dataclass(frozen=True)
class Mix:
    """Shares of operations, and how keys are chosen. Shares are taken relative to their sum, as YCSB does.

    Args:
        read, update, insert, scan, modify: shares; `modify` is read-modify-write.
        request: `zipfian` (scrambled), `latest`, `uniform` or `hotspot`.
        scan_length: `uniform` or `zipfian` over 1 … max_scan.
        hashed: inserts and keys in hashed order (YCSB's `insertorder=hashed`), else ordered.
        padding: digits to which key numbers are filled with zeros (`zeropadding`).
        hot_keys, hot_operations: the hotspot's shares.
    """

    read: float = 0.0
    update: float = 0.0
    insert: float = 0.0
    scan: float = 0.0
    modify: float = 0.0
    request: str = "zipfian"
    scan_length: str = "uniform"
    min_scan: int = 1
    max_scan: int = 100
    hashed: bool = True
    padding: int = 1
    hot_keys: float = 0.2
    hot_operations: float = 0.8

    def __post_init__(self) -> None:
        if min(self.shares) < 0 or sum(self.shares) <= 0:
            raise ValueError(
                f"shares of operations must not be negative, nor all zero: {self.shares}"
            )
        if self.request not in ("zipfian", "latest", "uniform", "hotspot"):
            raise ValueError(
                f"unknown request distribution {self.request!r}: zipfian, latest, uniform or hotspot"
            )
        if self.scan_length not in ("uniform", "zipfian") or not 0 < self.min_scan <= self.max_scan:
            raise ValueError(
                f"scan lengths are uniform or zipfian over 1 or more keys, not {self.scan_length!r} over {self.min_scan} to {self.max_scan}"
            )

    @property
    def shares(self) -> tuple[float, float, float, float, float]:
        """Shares in YCSB's order: read, update, insert, scan, read-modify-write."""
        return self.read, self.update, self.insert, self.scan, self.modify


CORE: dict[str, Mix] = {
    "A": Mix(read=0.5, update=0.5),
    "B": Mix(read=0.95, update=0.05),
    "C": Mix(read=1.0),
    "D": Mix(read=0.95, insert=0.05, request="latest"),
    "E": Mix(scan=0.95, insert=0.05),
    "F": Mix(read=0.5, modify=0.5),
}
_KINDS = np.array([Kind.READ, Kind.UPDATE, Kind.INSERT, Kind.SCAN, Kind.MODIFY], dtype=np.uint8)


def key_names(numbers: np.ndarray, hashed: bool = True, padding: int = 1) -> list[bytes]:
    """Return the keys of key numbers: "user" and the decimal of the number's hash (or of the number), filled with zeros to `padding` digits."""
    return [
        b"user%s" % str(number).zfill(padding).encode()
        for number in (fnv64(numbers) if hashed else numbers).tolist()
    ]


class Ycsb:
    """One run: `records` keys to load, then `operations` operations. Iterating again gives the same again.

    Args:
        mix: a letter of `CORE`, or shares of one's own.
        records: keys loaded before, at least 2.
        operations: operations of the run; with inserts it also sets how many future keys the Zipfian chooser expects, as YCSB does.
        seed: of all random numbers.
        size: bytes of a value (YCSB: ten fields of 100).
    """

    def __init__(
        self, mix: str | Mix, records: int, operations: int, seed: int = 1, size: int = 1000
    ) -> None:
        if isinstance(mix, str):
            if mix.upper() not in CORE:
                raise ValueError(f"unknown YCSB workload {mix!r}: A to F, or a Mix")
            mix = CORE[mix.upper()]
        if records < 2 or operations < 0:
            raise ValueError(
                f"YCSB needs at least two records and no negative number of operations, not {records} and {operations}"
            )
        self.mix, self.records, self.count, self.seed, self.size = (
            mix,
            records,
            operations,
            seed,
            size,
        )

    def load(self) -> Iterator[bytes]:
        """Yield the keys to load, in YCSB's order."""
        for first in range(0, self.records, _BLOCK):
            yield from key_names(
                np.arange(first, min(first + _BLOCK, self.records)),
                self.mix.hashed,
                self.mix.padding,
            )

    def blocks(self) -> Iterator[Block]:
        """Yield the operations in blocks."""
        mix, rng = self.mix, np.random.default_rng(self.seed)
        shares = np.cumsum(mix.shares) / sum(mix.shares)
        shares[-1] = 1.0
        chooser = self._chooser(rng)
        lengths_of = (
            Zipfian(mix.max_scan - mix.min_scan + 1, rng) if mix.scan_length == "zipfian" else None
        )
        inserted = self.records
        for first in range(0, self.count, _BLOCK):
            n = min(_BLOCK, self.count - first)
            kinds = _KINDS[np.searchsorted(shares, rng.random(n), side="right")]
            inserts = kinds == Kind.INSERT
            before = inserted + np.cumsum(inserts) - inserts  # keys inserted before each operation
            numbers = before.copy()  # what an insert adds is the next number
            others = np.flatnonzero(~inserts)
            numbers[others] = chooser.draw(before[others] - 1)
            lengths = np.zeros(n, dtype=np.int64)
            scans = np.flatnonzero(kinds == Kind.SCAN)
            if lengths_of is not None:
                lengths[scans] = mix.min_scan + lengths_of.draw(
                    np.full(len(scans), lengths_of.items)
                )
            else:
                lengths[scans] = rng.integers(mix.min_scan, mix.max_scan + 1, len(scans))
            inserted += int(inserts.sum())
            yield Block(kinds, key_names(numbers, mix.hashed, mix.padding), lengths, self.size)

    def __iter__(self) -> Iterator[Operation]:
        return one_by_one(self.blocks())

    def _chooser(self, rng: np.random.Generator) -> KeyChooser:
        mix = self.mix
        if mix.request == "latest":
            return Latest(self.records - 1, rng)
        if mix.request == "uniform":
            return Uniform(0, self.records, rng)
        if mix.request == "hotspot":
            return Hotspot(0, self.records, rng, mix.hot_keys, mix.hot_operations)
        # YCSB takes the given share, not the share of the sum, doubles it, and counts both ends of the range
        return ScrambledZipfian(self.records + int(self.count * mix.insert * 2.0) + 1, rng)
