"""A device whose map outlives it: golden of what `models.omap.state` says."""

from collections.abc import Sequence
from typing import NamedTuple

from .boundary import Header, Ruling
from .config import BLOCK, OmapConfig
from .messages import Operation, Request, Response, Status
from .session_device import SessionDevice
from .sessions import Asked
from .state import HEAD, Head, Kind, Past, Record, Told, What, Writer
from .vault import Role

#: bytes of an incarnation's name in a receipt, where values are as long
_NAME = 16


class Carried(NamedTuple):
    """What a call of the device gives."""

    answers: list[bytes]  #: frames
    log: bytes = b""  #: what goes behind the log
    snapshot: bytes = b""  #: what goes behind the snapshot
    fresh: bytes = b""  #: the head of a log that follows the snapshot, which is whole then


def receipt_value(config: OmapConfig, incarnation: bytes) -> bytes:
    """Return the value of a request RECEIPT, whose key is the serial: what of an incarnation fits in."""
    return incarnation[: config.value_bytes].ljust(config.value_bytes, b"\0")


class KeptDevice(SessionDevice):
    """A device that seals what its map needs to be restored, from `begin` on."""

    def __init__(
        self,
        config: OmapConfig,
        root: bytes,
        entropy: bytes,
        *,
        slots: int = 64,
        generation: int = 0,
    ) -> None:
        super().__init__(config, root, entropy, slots=slots, generation=generation)
        self._past = Past(self._keys, config.key_bytes)
        self._log: Writer | None = None
        self._snapshot: Writer | None = None
        self._walked = 0  # buckets, of the snapshot
        self._since = 0
        self._out: dict[Kind, list[bytes]] = {kind: [] for kind in (Kind.LOG, Kind.SNAPSHOT)}

    def _writer(self, head: Head) -> Writer:
        """Return what seals a file from its beginning."""
        return Writer(self._keys, head, self.config.key_bytes)

    # restore

    def take(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        """Take records, each in a frame whose header has its number, and return answers whose headers say
        what became of them (`Told`). `opening`: in place of a handshake's first message the head of their
        file, which else goes on. Each record is an operation. Raises device.Stopped."""
        if opening and not self._closed:
            self._past.open(opening[BLOCK : BLOCK + HEAD])
        return [self._taken(frame) for frame in frames]

    @property
    def _closed(self) -> bool:
        """Whether files come too late."""
        return self.serial != self._past.serial or self._log is not None

    def _taken(self, frame: bytes) -> bytes:
        slot, _, number = Header.unpack(frame)
        verdict, record = Told.STRAY, None
        if not self._closed:
            sealed = self.frames.sealed(frame, self.frames.answer_bytes)
            verdict, record = self._past.record(number, sealed)
            self.serial = self._past.serial
        none = bytes(self.config.value_bytes)
        self.device.step(
            Request(record.what, record.key, record.value) if record else Request(0, 0, none)
        )
        return self.frames.pack(Header(slot, verdict, number), self.frames.answer_blocks)

    def begin(self) -> bytes:
        """Begin the log; return a frame with its head, one that says STRAY where the device had no files that
        are a whole map, or too late."""
        head = None if self._closed else self._past.end()
        text = Header(0, Told.STRAY, 0).pack()
        if head is not None:
            self._log = self._writer(head)
            self._boundary.incarnation = head.incarnation
            text = Header(0, 0, 0).pack() + head.pack()
        return text.ljust(self.frames.welcome_beats * self.frames.bus_bytes, b"\0")

    # operations

    def carry(self, frames: Sequence[bytes], opening: bytes = b"", walk: int = 0) -> Carried:
        """As `run`; and go on with a snapshot, which begins where none is under way, through at most so many
        buckets of the position map. Their entries are read first; behind the frames each is an operation.
        The host must have what an earlier call gave on its disk before it calls again."""
        self._since = self.serial
        keys = self._entries(self._log, walk) if walk and self._log is not None else None
        answers = self.run(frames, opening)
        fresh = self._go_on(keys) if keys is not None else b""
        log, snapshot = (b"".join(texts) for texts in self._out.values())
        for texts in self._out.values():
            texts.clear()
        return Carried(answers, log, snapshot, fresh)

    def _entries(self, log: Writer, buckets: int) -> list[int | None]:
        """Return the keys of the next buckets. What operations do to them from now on they say themselves."""
        if self._snapshot is None:
            head = log.head._replace(kind=Kind.SNAPSHOT, serial=self.serial)
            self._snapshot, self._walked = self._writer(head), 0
            self._out[Kind.SNAPSHOT].append(head.pack())
        first, self._walked = self._walked, min(self._walked + buckets, self.config.buckets)
        bucket = self.device.map.bucket
        return [key for number in range(first, self._walked) for key in bucket(number)]

    def _go_on(self, keys: Sequence[int | None]) -> bytes:
        """Walk on; return the head of the next log where the walk ends."""
        none = bytes(self.config.value_bytes)
        for key in keys:
            self._step(Request(0, 0, none) if key is None else Request(Operation.GET, key, none))
        if self._walked < self.config.buckets:
            return b""
        self._step(Request(0, 0, none), ends=True)
        return self._ended()

    def _step(self, request: Request, ends: bool = False) -> None:
        response = self.device.step(request).response
        self.serial += 1
        self._emit(request, response, ends)

    def _ended(self) -> bytes:
        assert self._log is not None
        self._snapshot, self.snapshot_serial = None, self.serial
        self._log = self._writer(self._log.head._replace(serial=self.serial))
        return self._log.head.pack()

    def _carried_out(self, ruling: Ruling, response: Response) -> Response:
        if self._log is None:
            return response
        self._emit(ruling.request, response)
        if ruling.request.operation != Asked.RECEIPT:
            return response
        fits = self._accepts(ruling.request.value[:_NAME], ruling.request.key)
        if fits and self._boundary.role(ruling.slot) is Role.KEEPER:
            self.confirmed = True
        return response._replace(status=Status.FOUND if fits else Status.MISSING)

    def _accepts(self, name: bytes, serial: int) -> bool:
        """Whether a receipt is of this map, as it is or was."""
        current, link = self._past.current[: len(name)], self._past.links.get(name[0])
        if name == current:
            return serial <= self.serial
        return link is not None and name == link.incarnation[: len(name)] and serial <= link.serial

    def _emit(self, request: Request, response: Response, ends: bool = False) -> None:
        what, value = What.NOTHING, bytes(self.config.value_bytes)
        hit = response.status == Status.FOUND
        if request.operation == Operation.GET and hit:
            what, value = What.HELD, response.value
        elif request.operation == Operation.PUT and response.status != Status.FULL:
            what, value = What.HELD, request.value
        elif request.operation == Operation.DELETE and hit:
            what = What.GONE
        record = Record(request.key, value, what, self._since)
        assert self._log is not None
        self._out[Kind.LOG].append(self._log.record(record))
        if self._snapshot is not None:
            text = record._replace(what=What.END) if ends else record
            self._out[Kind.SNAPSHOT].append(self._snapshot.record(text))
