"""models/link/envelope.py and the host's end of it (host/device/udp_session.py) on bad networks."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from penstock.host.device.errors import LinkError
from penstock.host.device.udp_session import Session
from penstock.models.link.device import Device, Identity
from penstock.models.link.envelope import (
    ASK,
    OPENING,
    SILENCE,
    WINDOW,
    Answer,
    Envelope,
    decode_answer,
    encode,
    follows,
)
from penstock.models.link.frames import Space, Status
from penstock.models.link.pushes import PIECE, describe
from penstock.models.ring import Ring, places
from penstock.models.shell import RegisterMap
from testbench.link_cases import RestRegisters, Words
from testbench.networks import CLOCK_HZ, Logged, play

WRITE = Space.MEMORY << 1 | 1


def played(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        device = Logged(ring=1 << (12 if seed % 3 else 16))
        envelope = Envelope(device, SILENCE * CLOCK_HZ)
        envelope.first = (1 << 32) - WINDOW if seed % 2 else 0  # sequences wrap, and begin with 0
        seen.update(play(seed, device, envelope.receive))
    return seen


def fresh() -> tuple[Logged, Envelope]:
    device = Logged(ring=4096)
    return device, Envelope(device, SILENCE * CLOCK_HZ)


def told(envelope: Envelope, now: int, *request: int, data: bytes = b"") -> Answer | None:
    answer = envelope.receive(encode(*request, data), now)
    return None if answer is None else decode_answer(answer)


def test_a_device_belongs_to_one_session() -> None:
    _, envelope = fresh()
    silence = SILENCE * CLOCK_HZ

    def opened(now: int, session: int, before: int) -> int:
        answer = told(envelope, now, session, 0, OPENING, before, 16)
        assert answer is not None
        return answer.status

    assert opened(0, 5, 0) == opened(3, 5, 0) == Status.OKAY
    assert opened(4, 6, 0) == opened(2 + silence, 6, 0) == Status.BUSY
    assert (
        opened(3 + silence, 0, 0) == Status.BUSY
    )  # a late closing of nobody's takes it from nobody
    assert opened(3 + silence, 6, 0) == Status.OKAY
    assert opened(4 + silence, 7, 6) == Status.OKAY
    gone = told(envelope, 5 + silence, 6, envelope.first, WRITE, 0, 4, data=b"late")
    assert gone is not None and gone.status == Status.GONE
    assert opened(5 + silence, 0, 7) == opened(6 + silence, 8, 0) == Status.OKAY


def test_what_a_session_left_in_the_network_is_old() -> None:
    """Also where a late copy of its opening gives it the device again."""
    device, envelope = fresh()
    told(envelope, 0, 5, 0, OPENING, 0, 16)
    late = [envelope.first + k for k in range(WINDOW)]  # sent, and lost so far
    for session, before in ((0, 5), (5, 0)):
        told(envelope, 1, session, 0, OPENING, before, 16)
    for sequence in late:
        assert told(envelope, 2, 5, sequence, WRITE, 0, 4, data=b"late") is not None
    assert not device.done


def test_answers_to_writes() -> None:
    """None while all goes well and none is asked for; one at once on a gap, on a copy, and from what is refused on."""
    device, envelope = fresh()
    told(envelope, 0, 5, 0, OPENING, 0, 16)
    first = envelope.first
    seen = []
    for sequence, kind, address in [
        *((first, WRITE, 0), (first + 1, WRITE | ASK, 4), (first + 3, WRITE, 8)),
        *((first + 3, WRITE, 8), (first + 2, WRITE, 12), (first + WINDOW + 4, WRITE, 16)),
        *((first + 4, WRITE, 1 << 40), (first + 5, WRITE, 16)),
    ]:
        answer = told(envelope, 1, 5, sequence, kind, address, 4, data=b"abcd")
        seen.append(answer and (answer.first - first, answer.bitmap, answer.status))
    assert seen == [None, (2, 0, 0), (2, 2, 0), (2, 2, 0), None, None, (5, 0, 2), (6, 0, 2)]
    assert [at for _, at, _ in device.done] == [0, 4, 8, 12, 1 << 40, 16]
    assert told(envelope, 1, 5, first + 6, 2, 0, 1025) is None  # a read of too much
    assert follows(3, 0xFFFF_FFFE) == 5 and follows(0xFFFF_FFFE, 3) == -5


def test_a_late_answer_to_the_opening_answers_nothing_else() -> None:
    device, envelope = fresh()
    envelope.first = (
        1 << 32
    ) - WINDOW  # the session begins with the sequence 0, as its opening did
    session = Session(5, 2.0, "it")
    session.open(0.0)
    [opening] = session.send(0.0)
    answer = envelope.receive(opening, 0)
    assert answer is not None
    session.take(answer, 0.1)
    session.begin([(WRITE, 0, 4, b"abcd")], 0.2)
    session.send(0.2)
    session.take(answer, 0.3)
    assert not session.done and not device.done
    with pytest.raises(LinkError, match=r"it: the device did not answer for 2 s"):
        session.send(2.3)


def test_bad_networks() -> None:
    """Memory and registers are what hosts were told, and nothing is done twice."""
    assert played(range(150))["whole"] > 120


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_bad_networks() -> None:
    assert played(range(10_000))["whole"] > 8_000


def test_pushes() -> None:
    """Pieces come in any order; what comes early is refused and may come again; a page is ready once it is whole."""
    rings = RegisterMap([Ring(0).register], [Ring(0).counter])
    memory, registers = Words(4096 + 4 * PIECE, 8), RestRegisters(rings)
    device = Device(Identity(8, len(memory.content), CLOCK_HZ), registers, memory)
    envelope = Envelope(device, SILENCE * CLOCK_HZ, places(rings))
    opened = told(envelope, 0, 7, 0, OPENING, 0, 16)
    assert opened is not None
    numbers, ready, done = count(opened.first), *places(rings)[0]

    def sent(kind: int, at: int, size: int, data: bytes = b"", port: int = 0) -> tuple[int, ...]:
        number = next(numbers)
        found = envelope.receive(encode(7, number, kind | ASK, at, size, data, port), 0)
        answer = decode_answer(found or b"")
        assert answer is not None
        if answer.status:  # its sequence was not taken
            assert answer.first <= number
        return answer.status, answer.pages, registers.words[ready][0]

    def push(piece: int, data: bytes | None = None, port: int = 0) -> tuple[int, ...]:
        whole = bytes([piece]) * PIECE if data is None else data
        return sent(Space.RING << 1 | 1, piece * PIECE, len(whole), whole, port)

    assert push(0)[0] == Status.FULL  # no ring yet
    assert sent(Space.RING << 1, describe(4096, 2 * PIECE), 4) == (0, 0, 0)
    assert push(1) == (0, 0, 0) and push(0) == (0, 0, 1) and push(0, bytes(PIECE)) == (0, 0, 1)
    assert push(4)[0] == Status.FULL and push(3) == (0, 0, 1) and push(2) == (0, 0, 2)
    assert memory.content[4096:] == b"".join(bytes([k]) * PIECE for k in range(4))
    registers.words[done][0] = 1
    assert push(4) == (0, 1, 2) and push(6)[0] == Status.FULL and push(5) == (0, 1, 3)
    assert memory.content[4096 : 4096 + PIECE] == bytes([4]) * PIECE
    assert push(6, port=1)[0] == Status.DECERR and push(6, b"12")[0] == Status.SLVERR
