"""Entries and records of HBM as layouts of bits."""

from amaranth.lib import data

from ...models.omap.config import KEY_BYTES

__all__ = ["entry_layout", "operation_layout", "page_layout", "record_layout"]


def entry_layout(config):
    """An entry of the position map. `second`: which bin of the pair holds the item."""
    return data.StructLayout(
        {
            "key": 8 * KEY_BYTES,
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


def page_layout(config):
    """A page to open: its number, and how often it was written."""
    return data.StructLayout({"page": config.bin_bits, "counter": 64})


def operation_layout(config):
    """What the back does. For each bin that is shown: whether it is a page, its number and counter,
    how many items it has and how many wait, and their frames; then whether the key has an item
    (`hit`), the frame of an item in a bin of HBM (`own`), whether the item is kept, and where."""
    side = data.StructLayout(
        {
            "host": 1,
            "page": config.bin_bits,
            "counter": 64,
            "items": config.load_bits,
            "waiting": config.load_bits,
            "frames": data.ArrayLayout(config.frame_bits, config.slots),
        }
    )
    return data.StructLayout(
        {
            "key": 8 * KEY_BYTES,
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
