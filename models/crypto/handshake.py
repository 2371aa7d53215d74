"""The steps in which hardware answers a handshake, as `noise.Responder` does, and their cycles.

Every step is taken for every message: a refused one takes as long as one that is answered.
"""

from enum import IntEnum
from typing import NamedTuple

from . import gcm, x25519
from .noise import FIRST_BYTES
from .sha256 import SIZE, hash_cycles, hkdf_cycles


class Act(IntEnum):
    """HASH: `mix_hash`; KEYS: `mix_key`; SHARED: the same with a third block, which the next step mixes
    into the hash; MULTIPLY: X25519; OPEN, SEAL: the payloads, under the latest key."""

    HASH = 0
    KEYS = 1
    SHARED = 2
    MULTIPLY = 3
    OPEN = 4
    SEAL = 5


class Operand(IntEnum):
    """OTHER, OWN: the ephemeral keys; PRODUCT: the latest one; SECRET: the pre-shared key; THIRD: what
    SHARED leaves for the hash; TAG: of the first message; SEALED: the answer's payload; NOTHING; STATIC:
    the static public key.

    Of MULTIPLY: OTHER is the static scalar times the other key, OWN the ephemeral one times the base
    point, PRODUCT the ephemeral one times the other key, STATIC the static scalar times the base
    point."""

    OTHER = 0
    OWN = 1
    PRODUCT = 2
    SECRET = 3
    THIRD = 4
    TAG = 5
    SEALED = 6
    NOTHING = 7
    STATIC = 8


class Step(NamedTuple):
    """A step of a handshake."""

    act: Act
    operand: Operand = Operand.NOTHING
    shared: bool = False  #: it is taken only with a pre-shared key
    #: it is taken only where the static scalar is another one than at the last handshake
    anew: bool = False


PROGRAM = (
    Step(Act.MULTIPLY, Operand.STATIC, anew=True),
    Step(Act.HASH, Operand.STATIC),
    Step(Act.HASH, Operand.OTHER),
    Step(Act.KEYS, Operand.OTHER, True),
    Step(Act.MULTIPLY, Operand.OTHER),
    Step(Act.KEYS, Operand.PRODUCT),
    Step(Act.OPEN),
    Step(Act.HASH, Operand.TAG),
    Step(Act.MULTIPLY, Operand.OWN),
    Step(Act.HASH, Operand.OWN),
    Step(Act.KEYS, Operand.OWN, True),
    Step(Act.MULTIPLY, Operand.PRODUCT),
    Step(Act.KEYS, Operand.PRODUCT),
    Step(Act.SHARED, Operand.SECRET, True),
    Step(Act.HASH, Operand.THIRD, True),
    Step(Act.SEAL),
    Step(Act.HASH, Operand.SEALED),
    Step(Act.KEYS),  # the session's keys, instead of the chain and the key
)


def _unit(step: Step, payload: int) -> int:
    """Return the cycles of a step's unit, from its start until its result is there."""
    texts = {
        Operand.TAG: FIRST_BYTES - SIZE,
        Operand.SEALED: payload + gcm.TAG,
        Operand.NOTHING: 0,
    }
    size = texts.get(step.operand, SIZE)
    return {
        Act.HASH: hash_cycles(SIZE + size),
        Act.KEYS: hkdf_cycles(size, 0, 2),
        Act.SHARED: hkdf_cycles(size, 0, 3),
        Act.MULTIPLY: x25519.CYCLES,
        Act.OPEN: gcm.cycles(SIZE // 16, 0),
        Act.SEAL: gcm.cycles(SIZE // 16, payload),
    }[step.act]


def cycles(shared: bool, payload: int, anew: bool = False) -> int:
    """Return the cycles of a handshake, from its start until the answer is there: a cycle for each step
    and those of its unit; a cycle alone for one that is not taken. `anew`: with another static scalar
    than the last one."""
    taken = [s for s in PROGRAM if (shared or not s.shared) and (anew or not s.anew)]
    return 1 + sum(_unit(step, payload) for step in taken) + len(PROGRAM)
