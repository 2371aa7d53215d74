"""Which keys a map has: all of them follow from a root that never changes, and from fresh entropy of
each power-up (HKDF of SHA-256, RFC 5869). No register of the host's bus enters.

An info is a label of 8 bytes, filled up with zeros, and numbers of 64 bits behind it, the first byte
lowest. Keys of the map itself follow from the root and the entropy, and are never seen again behind
a power-up. Those that clients know follow from the root and a generation, which renewal counts.
"""

from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from ..crypto.sha256 import SIZE, expand, extract, hmac_cycles
from ..crypto.x25519 import public_key
from .messages import Keys

LABEL_BYTES = 8
#: of a generation: renewal never comes to an end
GENERATION_BITS = 24
_NUMBER = 8


class Role(Enum):
    """Who a session is with, and the label of its key; readers have none."""

    READER = "reader"
    WRITER = "writer"
    KEEPER = "keeper"


def info(label: str, *numbers: int) -> bytes:
    """Return the info of a label and numbers of 64 bits. Raises ValueError for a longer label,
    OverflowError for another number."""
    text = label.encode()
    if len(text) > LABEL_BYTES:
        raise ValueError(f"a label has at most {LABEL_BYTES} bytes, not {len(text)}")
    return text.ljust(LABEL_BYTES, b"\0") + b"".join(n.to_bytes(_NUMBER, "little") for n in numbers)


class KeySchedule:
    """The keys of one power-up.

    * `root`: 32 bytes, constant for a device.
    * `entropy`: 32 bytes, fresh at each power-up: no two are the same.
    * `digest`: 32 bytes that name the map's configuration (the page on the boundary).
    * `generation`: of the keys that clients know; below 2 ** `GENERATION_BITS`.
    """

    def __init__(self, root: bytes, entropy: bytes, digest: bytes, generation: int = 0) -> None:
        for name, text in (("root", root), ("entropy", entropy), ("digest", digest)):
            if len(text) != SIZE:
                raise ValueError(f"{name} has {SIZE} bytes, not {len(text)}")
        if generation >> GENERATION_BITS:
            raise ValueError(f"generations end at {(1 << GENERATION_BITS) - 1}, not {generation}")
        self._root, self.generation = extract(bytes(SIZE), root), generation
        [self._boot] = expand(extract(entropy, root), info("boot") + digest, 1)
        self._drawn = 0
        self.page, self.pairs = self._fresh("page")[:16], self._fresh("pairs")[:16]
        self.hash, self.incarnation = self._fresh("hash")[:16], self._fresh("incarnat")[:16]

    @property
    def of_map(self) -> Keys:
        """The keys that no client has."""
        of = (int.from_bytes(text, "little") for text in (self.page, self.hash, self.pairs))
        return Keys(*of)

    def _fresh(self, label: str, counter: int = 0) -> bytes:
        return expand(self._boot, info(label, counter), 1)[0]

    def _of_root(self, label: str) -> bytes:
        return expand(self._root, info(label, self.generation), 1)[0]

    def ephemeral(self) -> bytes:
        """Return a scalar for one handshake: another one each time."""
        self._drawn += 1
        return self._fresh("ephemer", self._drawn - 1)

    @cached_property
    def static(self) -> bytes:
        """The device's secret scalar."""
        return self._of_root("static")

    @cached_property
    def public(self) -> bytes:
        return public_key(self.static)

    def role_key(self, role: Role) -> bytes | None:
        """Return a role's key of 32 bytes; None for readers."""
        return None if role is Role.READER else self._of_root(role.value)

    def state_key(
        self, incarnation: bytes, previous: bytes, kind: int, serial: int, generation: int
    ) -> bytes:
        """Return the key of a state file of a generation, which a device can open after any power-up."""
        names = [
            int.from_bytes(name[at : at + 8], "little")
            for name in (incarnation, previous)
            for at in (0, 8)
        ]
        return expand(self._root, info("state", generation, serial, *names, kind), 1)[0]


class Derived(Enum):
    """What hardware keeps. FIRST is of a step on the way."""

    FIRST = 0
    BOOT = 1
    PAGE = 2
    PAIRS = 3
    HASH = 4
    INCARNATION = 5
    STATIC = 6
    WRITER = 7
    KEEPER = 8
    EPHEMERAL = 9
    STATE = 10


class Source(Enum):
    """What a step hashes: the root; or a label with the digest, with the counter of ephemeral scalars,
    with zero, with the generation, with what a file's head says, and a byte of 1 behind each."""

    ROOT = 0
    DIGEST = 1
    COUNTER = 2
    ZERO = 3
    GENERATION = 4
    FILE = 5


class Step(NamedTuple):
    """A step of the key schedule: `to` is HMAC of `source`."""

    to: Derived
    key: Derived | str | None  #: the key of the HMAC; None: zeros; "entropy": the noise source's
    source: Source
    label: str = ""


def _steps() -> Sequence[Step]:
    boot, first = Derived.BOOT, Derived.FIRST
    return (
        Step(first, "entropy", Source.ROOT),
        Step(boot, first, Source.DIGEST, "boot"),
        Step(Derived.PAGE, boot, Source.ZERO, "page"),
        Step(Derived.PAIRS, boot, Source.ZERO, "pairs"),
        Step(Derived.HASH, boot, Source.ZERO, "hash"),
        Step(Derived.INCARNATION, boot, Source.ZERO, "incarnat"),
        Step(first, None, Source.ROOT),
        Step(Derived.STATIC, first, Source.GENERATION, "static"),
        Step(Derived.WRITER, first, Source.GENERATION, Role.WRITER.value),
        Step(Derived.KEEPER, first, Source.GENERATION, Role.KEEPER.value),
        # for each handshake, and for each file of state
        Step(Derived.EPHEMERAL, boot, Source.COUNTER, "ephemer"),
        Step(Derived.STATE, first, Source.FILE, "state"),
    )


#: the steps at power-up, and behind them `DRAWN`, each of which is asked for
PROGRAM = tuple(_steps())
DRAWN = PROGRAM[-2:]


def _cycles(step: Step) -> int:
    texts = {
        Source.ROOT: SIZE,
        Source.DIGEST: LABEL_BYTES + SIZE + 1,
        Source.FILE: LABEL_BYTES + 7 * _NUMBER + 1,
    }
    return hmac_cycles(texts.get(step.source, LABEL_BYTES + _NUMBER + 1)) + 1


def boot_cycles() -> int:
    """Return the cycles from the start at power-up until all keys are there."""
    return 1 + sum(_cycles(step) for step in PROGRAM[: -len(DRAWN)])


def draw_cycles(drawn: Derived = Derived.EPHEMERAL) -> int:
    """Return the cycles from asking for an ephemeral scalar, or for a file's key, until it is there."""
    return 1 + sum(_cycles(step) for step in DRAWN if step.to is drawn)
