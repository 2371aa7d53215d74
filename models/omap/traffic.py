"""What crosses the host's ports: pages as ciphertext."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..crypto import ascon
from ..memory import split
from .config import BLOCK, OmapConfig
from .golden import Item, Step

_MASK = (1 << 64) - 1


class Sent(NamedTuple):
    """A page that is read or written: the number of its operation, its own, and its bytes."""

    operation: int
    page: int
    data: bytes


def page_nonce(page: int, counter: int, chunk: int = 0) -> int:
    """Return the nonce of a page that is written for the time `counter`, 1 for the first one."""
    return counter | page << 64 | chunk << 96


def pack_page(config: OmapConfig, items: Sequence[Item]) -> bytes:
    """Return a page's plaintext: its items one behind another, each filled up to whole blocks, then
    zeros."""
    fill = bytes(config.slot_blocks * BLOCK - config.key_bytes - config.value_bytes)
    text = b"".join(k.to_bytes(config.key_bytes, "little") + v + fill for k, v in items)
    return text + bytes(config.page_blocks * BLOCK - len(text))


def _words(texts: Sequence[bytes]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(texts), dtype="<u8").reshape(len(texts), -1)


def _sealed(
    config: OmapConfig, key: int, nonces: Sequence[int], texts: NDArray[np.uint64], size: int
) -> list[bytes]:
    halves = [(nonce & _MASK, nonce >> 64) for nonce in nonces]
    sealed = ascon.seal_many(key, np.array(halves, dtype=np.uint64), texts)
    rows = sealed.astype("<u8").view(np.uint8).reshape(len(nonces), -1)
    return [row.tobytes() + bytes(size - len(row)) for row in rows]


def seal_pages(
    config: OmapConfig, key: int, pages: Sequence[tuple[int, int, Sequence[Item]]]
) -> list[bytes]:
    """Return pages as they lie in the host's memory. `pages`: number, counter, items."""
    if not pages:
        return []
    texts = _words([pack_page(config, items) for _, _, items in pages])
    width, pieces = 2 * config.chunk_blocks, []
    for chunk in range(config.chunks):
        nonces = [page_nonce(page, counter, chunk) for page, counter, _ in pages]
        part = np.ascontiguousarray(texts[:, chunk * width : (chunk + 1) * width])
        pieces.append(_sealed(config, key, nonces, part, (config.chunk_blocks + 1) * BLOCK))
    return [b"".join(parts).ljust(config.page_bytes, b"\0") for parts in zip(*pieces, strict=True)]


def open_page(
    config: OmapConfig, key: int, page: int, counter: int, sealed: bytes, count: int
) -> tuple[Item, ...] | None:
    """Return the first `count` items of a page; None where it is not the one that was written for
    the time `counter`: each byte counts, the zeros behind the last tag too. A page that was never
    written (0) has none, whatever lies there."""
    if not counter:
        return ()
    size = (config.chunk_blocks + 1) * BLOCK
    text = b""
    if any(sealed[config.chunks * size :]):
        return None
    for chunk in range(config.chunks):
        piece = ascon.open_(
            key, page_nonce(page, counter, chunk), sealed[chunk * size : (chunk + 1) * size]
        )
        if piece is None:
            return None
        text += piece
    width, head = config.slot_blocks * BLOCK, config.key_bytes
    slots = [text[k * width :][: head + config.value_bytes] for k in range(count)]
    return tuple(Item(int.from_bytes(s[:head], "little"), s[head:]) for s in slots)


def page_traffic(
    config: OmapConfig, key: int, steps: Sequence[Step]
) -> tuple[list[Sent], list[Sent]]:
    """Return the pages that operations read and that they write, in order. Pages that were never
    written are read as zeros."""
    opened = [(n, o) for n, step in enumerate(steps) for o in step.opened]
    old = [(o.page, o.counter, o.before) for _, o in opened]
    new = [(o.page, o.counter + 1, o.after) for _, o in opened]
    blank = bytes(config.page_bytes)
    reads = [
        Sent(n, o.page, text if o.counter else blank)
        for (n, o), text in zip(opened, seal_pages(config, key, old), strict=True)
    ]
    writes = [
        Sent(n, o.page, text)
        for (n, o), text in zip(opened, seal_pages(config, key, new), strict=True)
    ]
    return reads, writes


def _digests(texts: Sequence[bytes]) -> list[int]:
    """Return FNV-1a (64 bits) of texts, those of one length at once."""
    digests = [0] * len(texts)
    for size in {len(text) for text in texts}:
        places = [k for k, text in enumerate(texts) if len(text) == size]
        rows = np.frombuffer(b"".join(texts[k] for k in places), dtype=np.uint8)
        rows = rows.reshape(len(places), size).astype(np.uint64)
        state = np.full(len(places), 0xCBF29CE484222325, dtype=np.uint64)
        for column in range(size):
            state = (state ^ rows[:, column]) * np.uint64(0x100000001B3)
        for k, value in zip(places, state.tolist(), strict=True):
            digests[k] = value
    return digests


def bursts(config: OmapConfig, sent: Sequence[Sent], at: int = 0) -> list[tuple[int, int, int]]:
    """Return address, beats and digest of the bursts of pages on the host's port, in order, as
    a machine's trace has them. `at`: where pages begin."""
    places, texts, bus = [], [], config.host_bus_bytes
    for page in sent:
        done = 0
        for address, beats in split(at + page.page * config.page_bytes, config.page_beats, bus):
            places.append((address, beats))
            texts.append(page.data[done : done + beats * bus])
            done += beats * bus
    return [(*place, digest) for place, digest in zip(places, _digests(texts), strict=True)]
