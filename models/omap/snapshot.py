"""Snapshots: what a map was, to be rebuilt in another one with fresh keys and fresh pairs.

A snapshot is the image of HBM, sealed, and all pages of the host as they are: these move on after it.
Its epoch is kept where the host cannot change it, and an older snapshot is refused. Restoring puts
every item anew, one operation a place that the map has, whether it is taken or not, so that what the
host sees depends on the capacity alone; no pair and no (key, nonce) is used again.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import KEY_BYTES, OmapConfig
from .device import Device, Stopped
from .errors import MapError
from .golden import Item
from .messages import Keys, Operation, Request
from .traffic import open_page

__all__ = ["Snapshot", "restore", "take"]

#: bytes of the image that are sealed as one piece
_PIECE = 4096
#: an operation that no client has: it opens two random bins and changes nothing
_NOTHING = 0


@dataclass(frozen=True)
class Snapshot:
    """What the host keeps. `image`: of HBM, sealed in pieces of one size."""

    epoch: int
    image: tuple[bytes, ...]
    pages: bytes


def _image(device: Device) -> bytes:
    """Return counters and numbers of items of all pages, then all frames, taken or not."""
    config, box = device.config, device.map
    head = b"".join(
        counter.to_bytes(8, "little") + len(items).to_bytes(8, "little")
        for counter, items in map(box.page, range(config.host_bins))
    )
    held = b"".join(
        (1).to_bytes(8, "little") + item.key.to_bytes(KEY_BYTES, "little") + item.value
        for item in box.framed()
    )
    return head + held.ljust(config.frames * (8 + KEY_BYTES + config.value_bytes), b"\0")


def _nonce(epoch: int, piece: int) -> int:
    return epoch | piece << 64 | 1 << 126


def take(device: Device, key: int, epoch: int) -> Snapshot:
    """Return a snapshot of a device. `key`: for snapshots; `epoch`: never used before with it."""
    text = _image(device)
    pieces = [text[at : at + _PIECE].ljust(_PIECE, b"\0") for at in range(0, len(text), _PIECE)]
    sealed = tuple(
        device.config.sealing.seal(key, _nonce(epoch, number), piece)
        for number, piece in enumerate(pieces)
    )
    return Snapshot(epoch, sealed, bytes(device.pages))


def restore(
    snapshot: Snapshot, config: OmapConfig, key: int, epoch: int, old: Keys, fresh: Keys
) -> Device:
    """Return a device with the items of a snapshot.

    Parameters: `key`: for snapshots; `epoch`: of the latest snapshot, from outside the host; `old`:
    the keys that its pages are sealed with; `fresh`: those of the new device.

    Raises Stopped: EPOCH for another epoch's snapshot, SNAPSHOT and PAGE_TAG for one that was
    changed. Raises ValueError where a fresh key is an old one.
    """
    if {fresh.page, fresh.pairs, fresh.session} & {old.page, old.pairs, old.session}:
        raise ValueError("the new device needs keys that were never used")
    if snapshot.epoch != epoch:
        raise Stopped(MapError.EPOCH)
    pieces = [
        config.sealing.open_(key, _nonce(epoch, number), piece)
        for number, piece in enumerate(snapshot.image)
    ]
    if any(piece is None for piece in pieces):
        raise Stopped(MapError.SNAPSHOT)
    text = b"".join(piece for piece in pieces if piece is not None)
    if len(text) < 16 * config.host_bins:
        raise Stopped(MapError.SNAPSHOT)
    items = _items(config, text, snapshot.pages, old.page)
    device = Device(config, fresh)
    for place in range(config.capacity):
        if place < len(items):
            device.step(Request(Operation.PUT, *items[place]))
        else:
            device.step(Request(_NOTHING, 0, bytes(config.value_bytes)))
    return device


def _items(config: OmapConfig, text: bytes, pages: bytes, key: int) -> list[Item]:
    size = config.page_bytes
    items: list[Item] = []
    for page in range(config.host_bins):
        counter = int.from_bytes(text[16 * page : 16 * page + 8], "little")
        count = int.from_bytes(text[16 * page + 8 : 16 * page + 16], "little")
        sealed = pages[page * size : (page + 1) * size]
        found = open_page(config, key, page, counter, sealed, count)
        if found is None:
            raise Stopped(MapError.PAGE_TAG)
        items += found
    width = 8 + KEY_BYTES + config.value_bytes
    for frame in range(config.frames):
        at = 16 * config.host_bins + frame * width
        if text[at]:
            number = int.from_bytes(text[at + 8 : at + 8 + KEY_BYTES], "little")
            items.append(Item(number, text[at + 8 + KEY_BYTES : at + width]))
    return items
