"""Entries and records of HBM as layouts of bits."""

from amaranth.lib import data


def entry_layout(config):
    """An entry of the position map. `second`: which bin of the pair holds the item."""
    return data.StructLayout(
        {
            "key": 8 * config.key_bytes,
            "valid": 1,
            "second": 1,
            "bin0": config.bin_bits,
            "bin1": config.bin_bits,
            "frame": config.frame_bits,
        }
    )


def record_layout(config):
    """What is known of a bin."""
    return data.StructLayout(
        {
            "counter": 64,
            "load": config.load_bits,
            "waiting": config.load_bits,
            "frames": data.ArrayLayout(config.frame_bits, config.slots),
        }
    )


def head_layout(config):
    """What the front needs of a request."""
    return data.StructLayout({"operation": 8, "key": 8 * config.key_bytes})


def asked_layout(config):
    """A request in the front: operation, key, its buckets, the bins where its item goes, and those
    that a miss shows."""
    bins = dict.fromkeys(("new0", "new1", "shown0", "shown1"), config.bin_bits)
    buckets = dict.fromkeys(("bucket0", "bucket1"), bucket_bits(config))
    return data.StructLayout({"operation": 8, "key": 8 * config.key_bytes, **buckets, **bins})


def bucket_bits(config):
    return max((config.buckets - 1).bit_length(), 1)


def place_layout(config):
    """Where an entry lies."""
    return data.StructLayout(
        {"bucket": bucket_bits(config), "slot": max((config.bucket_slots - 1).bit_length(), 1)}
    )


def decision_layout(config, kept):
    """What a request means. `second`, `frame`: where its item is, unless an operation that is still
    under way moved it (`forwarded`), whose number is `source` among the last `kept`; `place`: of its
    entry; `bins`: those that are shown, then the new pair."""
    return data.StructLayout(
        {
            "key": 8 * config.key_bytes,
            "status": 2,
            "put": 1,
            "found": 1,
            "keep": 1,
            "second": 1,
            "frame": config.frame_bits,
            "forwarded": 1,
            "source": ring_bits(kept),
            "place": place_layout(config),
            "bins": data.ArrayLayout(config.bin_bits, 4),
        }
    )


def ring_bits(kept):
    """Bits of an operation's number among itself and the last `kept`."""
    return kept.bit_length()


def _side(config, **more):
    """A bin that is shown: whether it is a page, its number and counter, how many items it has and how many wait."""
    counts = {"items": config.load_bits, "waiting": config.load_bits}
    return data.StructLayout({"host": 1, "page": config.bin_bits, "counter": 64, **counts, **more})


def operation_layout(config):
    """What the back does. For each bin that is shown: whether it is a page, its number and counter,
    how many items it has and how many wait, and their frames; then whether the key has an item
    (`hit`), the frame of an item in a bin of HBM (`own`), whether the item is kept, and where."""
    side = _side(config, frames=data.ArrayLayout(config.frame_bits, config.slots))
    return data.StructLayout(
        {
            "key": 8 * config.key_bytes,
            "status": 2,
            "put": 1,
            "hit": 1,
            "own": 1,
            "own_frame": config.frame_bits,
            "keep": 1,
            "frame": config.frame_bits,
            "side0": side,
            "side1": side,
        }
    )


def fetch_layout(config):
    """What is fetched for an operation: frames of both sides and how many these are, and the frame of its
    own item, if the item is kept."""
    frames, count = data.ArrayLayout(config.frame_bits, config.slots), config.slots.bit_length()
    sides = {"frames0": frames, "frames1": frames, "count0": count, "count1": count}
    return data.StructLayout({**sides, "keep": 1, "frame": config.frame_bits})


def merge_layout(config):
    """An operation without its frames. `own`: by side, whether the first frame is the item of a bin
    in HBM."""
    side = _side(config, own=1)
    return data.StructLayout(
        {
            "key": 8 * config.key_bytes,
            "status": 2,
            "put": 1,
            "hit": 1,
            "keep": 1,
            "frame": config.frame_bits,
            "sides": data.ArrayLayout(side, 2),
        }
    )
