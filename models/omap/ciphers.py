"""The ciphers that pages and messages are sealed with, and how long their cores take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import aes, ascon

__all__ = ["CIPHERS", "COUNT_BITS", "Cipher", "Pace"]

#: bits that a nonce has for a count: of a page's writes, of a session's requests, of snapshots
COUNT_BITS = 56


class Pace(NamedTuple):
    """Cycles of a core: from a message's start to its first block at the earliest (`first`), from a
    block to the next one (`block`), from the last one to the tag (`tag`)."""

    first: int
    block: int
    tag: int


@dataclass(frozen=True)
class Cipher:
    """An authenticated cipher: keys of 128 bits, tags of 16 bytes, no associated data.

    Nonces have 128 bits: a count in bits 0 to 55, a page in 64 to 95, a chunk in 96 to 101, a kind in
    126 and 127, all others 0. A cipher with shorter nonces leaves out zeros.

    Parameters
    ----------
    seal, open_
        (key, nonce, text) to the ciphertext with its tag, and back; None where the tag does not fit.
    seal_many
        The same of many messages of whole blocks: see `ascon.seal_many`.
    rounds
        Rounds that a core can do a cycle.
    pace
        By rounds a cycle.
    """

    seal: Callable[[int, int, bytes], bytes]
    open_: Callable[[int, int, bytes], bytes | None]
    seal_many: Callable[[int, NDArray[np.uint64], NDArray[np.uint64]], NDArray[np.uint64]]
    rounds: tuple[int, ...]
    pace: Callable[[int], Pace]


def _ascon(rounds: int) -> Pace:
    return Pace(12 // rounds + 1, 8 // rounds, 20 // rounds)


def _aes(rounds: int) -> Pace:
    """A block takes its rounds and a cycle. The product of GHASH takes 8 cycles (at one round a
    cycle) and one; behind the last block come its own and the length's, beside the tag's mask."""
    block, product = 10 // rounds + 1, 8 // rounds + 1
    return Pace(2 * block, block, max(block, 2 * product))


CIPHERS = {
    "ascon-aead128": Cipher(ascon.seal, ascon.open_, ascon.seal_many, (1, 2, 4), _ascon),
    "aes128-gcm": Cipher(
        lambda key, nonce, text: aes.seal(key, aes.short(nonce), text),
        lambda key, nonce, text: aes.open_(key, aes.short(nonce), text),
        aes.seal_many,
        (1, 2),
        _aes,
    ),
}
