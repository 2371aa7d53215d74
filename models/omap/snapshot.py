"""Snapshots: what a map was, to be rebuilt in another one with fresh keys and fresh pairs.

A snapshot is the image of HBM, sealed, and all pages of the host as they are: these move on after it.
Its epoch is kept where the host cannot change it, and an older snapshot is refused. Restoring loads
every item anew, one operation a place that the map has, whether it is taken or not, so that what the
host sees depends on the capacity alone; no pair and no (key, nonce) is used again.

Hardware seals the image with the key of pages, under nonces of a kind of its own, and refuses an
epoch that is not above the last one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..crypto import ascon
from .config import OmapConfig
from .device import Device, Stopped
from .errors import MapError
from .golden import Item
from .image import entries, frame, image, records
from .messages import COUNT_BITS, Keys
from .traffic import open_page

__all__ = ["PIECE", "Snapshot", "items_of", "piece_bytes", "restore", "seal_image", "take"]

#: bytes of the image that are sealed as one piece
PIECE = 4096
_TAG = 16


def piece_bytes(config: OmapConfig) -> int:
    """Return the bytes from one sealed piece to the next one: whole bus words."""
    return -(-(PIECE + _TAG) // config.host_bus_bytes) * config.host_bus_bytes


@dataclass(frozen=True)
class Snapshot:
    """What the host keeps. `image`: of HBM, sealed in pieces of one size."""

    epoch: int
    image: tuple[bytes, ...]
    pages: bytes


def _nonce(epoch: int, piece: int) -> int:
    if not 0 < epoch < 1 << COUNT_BITS:
        raise ValueError(f"an epoch is 1 or more and has {COUNT_BITS} bits, not {epoch}")
    return epoch | piece << 64 | 1 << 126


def seal_image(key: int, epoch: int, text: bytes) -> tuple[bytes, ...]:
    """Return the sealed pieces of an image of HBM. Raises ValueError for an epoch that a nonce has no
    room for."""
    return tuple(
        ascon.seal(key, _nonce(epoch, number), text[at : at + PIECE])
        for number, at in enumerate(range(0, len(text), PIECE))
    )


def take(device: Device, key: int, epoch: int) -> Snapshot:
    """Return a snapshot of a device. `key`: for snapshots; `epoch`: never used before with it,
    below 2^56 (else ValueError)."""
    sealed = seal_image(key, epoch, image(device.map))
    return Snapshot(epoch, sealed, bytes(device.pages))


def items_of(
    snapshot: Snapshot, config: OmapConfig, key: int, epoch: int, pages: int
) -> list[Item]:
    """Return the items of a snapshot.

    Parameters: `key`: for snapshots; `epoch`: of the latest snapshot, from outside the host; `pages`:
    the key that its pages are sealed with.

    Raises Stopped: EPOCH for another epoch's snapshot, SNAPSHOT and PAGE_TAG for one that was
    changed.
    """
    if snapshot.epoch != epoch:
        raise Stopped(MapError.EPOCH)
    pieces = [
        ascon.open_(key, _nonce(epoch, number), piece)
        for number, piece in enumerate(snapshot.image)
    ]
    if any(piece is None for piece in pieces):
        raise Stopped(MapError.SNAPSHOT)
    text = b"".join(piece for piece in pieces if piece is not None)
    if len(text) != config.hbm_bytes:
        raise Stopped(MapError.SNAPSHOT)
    return _items(config, text, snapshot.pages, pages)


def restore(
    snapshot: Snapshot, config: OmapConfig, key: int, epoch: int, old: Keys, fresh: Keys
) -> Device:
    """Return a device with the items of a snapshot (`items_of`), loaded as many records as the map has
    places. `old`: the keys of the device that it was taken of; `fresh`: those of the new one.

    Raises Stopped as `items_of` does, ValueError where a fresh key is an old one.
    """
    if {fresh.page, fresh.pairs, fresh.session} & {old.page, old.pairs, old.session}:
        raise ValueError("the new device needs keys that were never used")
    items = items_of(snapshot, config, key, epoch, old.page)
    device = Device(config, fresh)
    device.load(items, config.capacity)
    return device


def _items(config: OmapConfig, text: bytes, pages: bytes, key: int) -> list[Item]:
    size = config.page_bytes
    items: list[Item] = []
    for number, record in enumerate(records(config, text)):
        page = number - config.hbm_bins
        if page < 0:
            continue
        items += [frame(config, text, one) for one in record.frames]
        sealed, held = pages[page * size : (page + 1) * size], record.load - len(record.frames)
        found = open_page(config, key, page, record.counter, sealed, held)
        if found is None:
            raise Stopped(MapError.PAGE_TAG)
        items += found
    for entry in entries(config, text):
        if entry.bin < config.hbm_bins:
            items.append(frame(config, text, entry.frame))
    return items
