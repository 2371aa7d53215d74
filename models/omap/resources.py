"""What a map is expected to take of a part: within 3 % of the look-up tables that Yosys makes of maps of 2¹⁰ and 2¹⁶ items with two
cores on an UltraScale+ (`benchmarks/ultrascale.py`). No map has been placed."""

from ..crypto.x25519 import ACCUMULATOR_BITS, LIMB_BITS, LIMBS
from ..mapping import by_constant, map_storage, memory_blocks, multiplier_blocks, ultra_shapes
from ..resources import APART, SCALE, Resources
from ..target import Target
from .back import BackSchedule
from .config import OmapConfig
from .front_schedule import FrontSchedule
from .shell import register_map
from .storages import PENDING, memories

#: look-up tables of a cipher core on an ECP5: without its rounds, and for each of them. Yosys 0.70 maps one of three blocks to 2,250, 3,123 and
#: 5,264 with one, two and four rounds (`benchmarks/area.py`): the estimate is 1.6 to 2.1 times as much
_CORE, _ROUND = 1_160, 2_420
#: flip-flops of a cipher core, by the same synthesis
_STATE = 333
#: a core of AES-256-GCM on an ECP5 (`benchmarks/area.py`): look-up tables and flip-flops
_GCM = 9_480, 820
#: the door: a handshake, HMAC, and what it keeps of keys and of the messages on their way
_DOOR = 28_000, 13_000
#: its multipliers: limbs of X25519, and carries times 19
_LIMB = LIMB_BITS + 1
_PRODUCTS = [(_LIMB, _LIMB, True)] * LIMBS
_PRODUCTS += [(_LIMB, 5, True), (ACCUMULATOR_BITS - LIMB_BITS, 5, True)]
#: what is known of files of state (`hdl.omap.past` on an ECP5), and flip-flops of a record that is opened
_PAST, _RECORD = (2_400, 1_100), 512
#: look-up tables of a family for each of the ECP5's, of AES and pairs, and of the door; AMD's by synthesis (benchmarks/ultrascale.py)
_CIPHERS, _DOORS = SCALE | {"amd": 0.47}, SCALE | {"amd": 0.6}
#: what choosing a bit of one bank more takes
_CHOICE = 0.6
#: look-up tables of a comparator's bit, of a bit that is chosen of one more, and of control
_COMPARE, _SELECT, _CONTROL = 0.7, 0.5, 10_000
#: flip-flops of a cipher core's queues, and of control
_QUEUES, _STATES = 400, 6_000


def estimate(config: OmapConfig, part: Target, state: bool = False) -> Resources:
    """Return the resources of a map on a part; `state`: of one that keeps its state."""
    front, back = FrontSchedule.of(config), BackSchedule.of(config)
    cores = config.cores.openers + config.cores.sealers
    messages = config.cores.responders * (1 + 2 * state) + config.cores.request_openers
    lut: float = cores * (_CORE + config.cores.rounds * _ROUND) + _PAST[0] * state + _CONTROL
    lut += APART * sum(len(r.rule.apart) for r in register_map(config, state=state).engine)
    # pages that are not written yet, and the frames of the latest operations: two are looked up, and one put
    lut += PENDING * config.window * config.bin_bits * _COMPARE
    lut += 3 * back.items * config.frame_bits * _COMPARE
    lut += 4 * config.record_bytes * 8 * 2 + 2 * config.slots * config.frame_bits * 4
    # entries and records that HBM may not show yet: keys, buckets and slots; bins
    place = (config.buckets - 1).bit_length() + (config.bucket_slots - 1).bit_length()
    kept = front.kept_entries * (8 * config.key_bytes + place + 2 * config.bin_bits)
    lut += (3 * kept + 4 * front.kept_records * config.bin_bits) * _COMPARE
    # which opener's block a side takes
    lut += 2 * 128 * config.merge_blocks * config.cores.openers * _SELECT
    lut *= SCALE[part.family]
    lut += (messages * _GCM[0] + config.cores.generators * config.cores.rounds * _ROUND) * _CIPHERS[
        part.family
    ]
    lut += _DOOR[0] * _DOORS[part.family]
    ff = (
        cores * (_STATE + _QUEUES)
        + messages * (_GCM[1] + _QUEUES)
        + _DOOR[1]
        + (_PAST[1] + _RECORD * config.cores.request_openers) * state
        + 4 * config.record_bytes * 16
        + PENDING * config.window * config.bin_bits
    )
    ff += back.items * config.frame_bits + _STATES
    ff += kept + 4 * front.kept_records * config.bin_bits + front.end
    held = list(memories(config, state))
    ultra = ultra_shapes(held, part)
    mapped = [
        (c, memory, map_storage(memory, part.family, memory.shape in ultra)) for c, memory in held
    ]
    stored = sum(
        copies * (4 * ram.cells + _CHOICE * (ram.banks - 1) * memory.width)
        for copies, memory, ram in mapped
    )
    # where a bucket and a page lie, to read and to write
    bucket = by_constant((config.buckets - 1).bit_length(), config.bucket_bytes)
    places = [bucket, by_constant(config.bin_bits, config.page_bytes)] * 2
    return Resources(
        round(lut) + round(stored),
        round(ff),
        multiplier_blocks(_PRODUCTS + places, part.family),
        *memory_blocks(held, part),
    )
