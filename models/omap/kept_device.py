"""A device whose map outlives it: golden of what `models.omap.state` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .boundary import Ruling
from .config import OmapConfig
from .messages import Operation, Request, Response, Status
from .session_device import SessionDevice
from .sessions import Asked
from .state import MOST_LINKS, Damaged, Kind, Link, Reader, Record, What, Writer
from .vault import Role

__all__ = ["Carried", "KeptDevice", "receipt_value"]


class Carried(NamedTuple):
    """What a call of the device gives. `answers`: frames; `log`, `snapshot`: what goes behind the files that
    are being written; `fresh`: the beginning of a log that follows the snapshot, which is whole then."""

    answers: list[bytes]
    log: bytes = b""
    snapshot: bytes = b""
    fresh: bytes = b""


def receipt_value(config: OmapConfig, incarnation: bytes) -> bytes:
    """Return the value of a request RECEIPT, whose key is the serial: what of an incarnation fits in."""
    return incarnation[: config.value_bytes].ljust(config.value_bytes, b"\0")


class KeptDevice(SessionDevice):
    """A device that seals what its map needs to be restored, from `restore` on."""

    def __init__(self, config: OmapConfig, root: bytes, entropy: bytes, *, slots: int = 64) -> None:
        super().__init__(config, root, entropy, slots=slots)
        self._chain: tuple[Link, ...] = ()
        self._log: Writer | None = None
        self._snapshot: Writer | None = None
        self._walk: Iterator[int | None] = iter(())
        self._since = 0
        self._out: dict[Kind, list[bytes]] = {kind: [] for kind in Kind}

    # restore

    def restore(self, files: Sequence[bytes]) -> tuple[bytes, int]:
        """Make the map what files say, in the order in which they were written: a snapshot, if there is one,
        and the logs behind it. Return the beginning of a new log, and how many bytes of the last file
        count. Raises state.Damaged, and behind it the device must be powered up again; device.Stopped."""
        used, last = 0, Link(b"", 0)
        if self.serial or self._log is not None:
            raise ValueError("the map has answered operations already")
        for place, text in enumerate(files):
            reader = Reader(self._keys, self.config, text, place)
            last = self._follows(reader, place, last)
            for record in reader.records():
                if record.serial != last.serial + 1:
                    raise Damaged(place, 0, "its records are not in order")
                last = last._replace(serial=record.serial)
                self._apply(record)
            used = reader.used
        if files:
            self._chain = (*self._chain, last)[-MOST_LINKS:]
        self.serial = last.serial
        self._log = Writer(self._keys, Kind.LOG, self.serial, self._chain)
        return self._log.head, used

    def _follows(self, reader: Reader, place: int, last: Link) -> Link:
        """Check that a file goes on where the ones before it end; return where it begins."""
        head, chain = reader.head, reader.chain
        begins = Link(head.incarnation, head.serial)
        if place == 0:
            fits = head.kind == Kind.SNAPSHOT or (not chain and not head.serial)
        elif head.incarnation == last.incarnation:
            fits = head.kind == Kind.LOG and (self._chain, last.serial) == (chain, head.serial)
        else:
            expected = (*self._chain, last)[-MOST_LINKS:]
            fits = head.kind == Kind.LOG and (expected, last.serial) == (chain, head.serial)
        if not fits:
            raise Damaged(place, 0, "it does not follow the files before it")
        self._chain = chain
        return begins

    def _apply(self, record: Record) -> None:
        if record.what == What.HELD:
            self.device.step(Request(Operation.PUT, record.key, record.value))
        elif record.what == What.GONE:
            none = bytes(self.config.value_bytes)
            self.device.step(Request(Operation.DELETE, record.key, none))

    # operations

    def carry(self, frames: Sequence[bytes], opening: bytes = b"", walk: int = 0) -> Carried:
        """As `run`; then go on with so many steps of a snapshot, which begins where none is under way. The
        host must have what an earlier call gave on its disk before it calls again."""
        self._since = self.serial
        answers = self.run(frames, opening)
        fresh = self._go_on(walk) if walk and self._log is not None else b""
        log, snapshot = (b"".join(self._out[kind]) for kind in Kind)
        for texts in self._out.values():
            texts.clear()
        return Carried(answers, log, snapshot, fresh)

    def _go_on(self, steps: int) -> bytes:
        """Walk on; return the beginning of the next log where the walk ends."""
        if self._snapshot is None:
            keys: list[int | None] = [key for key, _ in self.device.map.places()]
            self._walk = iter([*keys, *[None] * (self.config.capacity - len(keys))])
            self._snapshot = Writer(self._keys, Kind.SNAPSHOT, self.serial, self._chain)
            self._out[Kind.SNAPSHOT].append(self._snapshot.head)
        none = bytes(self.config.value_bytes)
        for _ in range(steps):
            try:
                key = next(self._walk)
            except StopIteration:
                return self._ended(self._snapshot)
            request = Request(0, 0, none) if key is None else Request(Operation.GET, key, none)
            response = self.device.step(request).response
            self.serial += 1
            self._emit(request, response)
        return b""

    def _ended(self, snapshot: Writer) -> bytes:
        end = Record(self.serial, self._since, What.END, 0, bytes(self.config.value_bytes))
        self._out[Kind.SNAPSHOT].append(snapshot.record(end))
        self._snapshot, self.snapshot_serial = None, self.serial
        self._log = Writer(self._keys, Kind.LOG, self.serial, self._chain)
        return self._log.head

    def _carried_out(self, ruling: Ruling, response: Response) -> Response:
        if self._log is None:
            return response
        self._emit(ruling.request, response)
        if ruling.request.operation != Asked.RECEIPT:
            return response
        fits = self._accepts(ruling.request.value, ruling.request.key)
        if fits and self._boundary.role(ruling.slot) is Role.KEEPER:
            self.confirmed = True
        return response._replace(status=Status.FOUND if fits else Status.MISSING)

    def _accepts(self, value: bytes, serial: int) -> bool:
        """Whether a receipt is of this map, as it is or was."""
        chain = (*self._chain, Link(self._keys.incarnation, self.serial))
        return any(
            value == receipt_value(self.config, link.incarnation) and serial <= link.serial
            for link in chain
        )

    def _emit(self, request: Request, response: Response) -> None:
        what, value = What.NOTHING, bytes(self.config.value_bytes)
        if request.operation in (Operation.GET, Operation.PUT) and (
            response.status == Status.FOUND
            or (request.operation == Operation.PUT and response.status == Status.MISSING)
        ):
            what = What.HELD
            value = response.value if request.operation == Operation.GET else request.value
        elif request.operation in (Operation.GET, Operation.DELETE):
            what = What.GONE
        key = request.key if what != What.NOTHING else 0
        record = Record(self.serial, self._since, what, key, value)
        assert self._log is not None
        self._out[Kind.LOG].append(self._log.record(record))
        if self._snapshot is not None:
            self._out[Kind.SNAPSHOT].append(self._snapshot.record(record))
