"""What the stages of a Strider hand to each other."""

from enum import IntEnum

from amaranth.lib import data, enum

#: bits of an address within a page, sums of addresses and lengths included
PLACE_BITS = 20


def place_bits(config):
    """Bits of an address within the page and all that is added to it."""
    return PLACE_BITS if config.fixed is None else config.fixed.place_bits


def page_bits(config):
    """Bits of a place within the page, its end included."""
    return config.page_size.bit_length()


def beat_bits(config):
    """Bits of a beat's number in its tuple, and of the one after the last."""
    return 16 if config.fixed is None else config.beats.bit_length()


class Kind(enum.Enum, shape=4):
    """What a window was read for."""

    NONE = 0
    PAGE = 1  #: page header
    POINTERS = 2  #: line pointers
    HEADER = 3  #: tuple header
    BITS = 4  #: null bitmap
    PROBE = 5  #: the byte where padding or an array with a 1-byte header may be
    ARRAY = 6  #: an array's header
    VALUE = 7  #: header of a variable-length value
    DATA = 8  #: values for the tuple buffer
    INSERT = 9  #: a constant for the tuple buffer


def tag_layout(config):
    """What accompanies a window from its issue to the tuple buffer."""
    widest = max(config.elements(name) for name in config.types)
    return data.StructLayout(
        {
            "kind": Kind,
            "part": 3,  # of a header that takes several windows
            "final": 1,  # the header's last part
            "begin": 1,  # the tuple must be long enough for what is issued
            "enter": 1,  # the issue enters a tuple
            "token": 1,  # an error that the front has found
            "code": 8,  # an error found at the issue
            "commit": 1,  # completes a tuple
            "end": 1,  # ends a page
            "skip": 1,  # counts a tuple left out
            # values: their type, how many, and where the first one goes; `half`: the second window
            # of a value that takes two
            "type": 3,
            "count": range(widest + 1),
            "half": 1,
            "beat": beat_bits(config),
            "lane": range(config.lanes),
            "value": 32,  # a constant, or the bytes of an array's elements
            "big": 1,  # the array's header cannot be short
            "unaligned": 1,  # the address is no multiple of the type's alignment
            # the constant stands for a value that does not fit
            "over": 1,
            "nan": 1,
        }
    )


class Origin(IntEnum):
    """What an address counts from."""

    ANCHOR = 0  #: `anchor` of the issue: a place that no window under way moves
    PLACE = 1  #: base P
    ARRAY = 2  #: the last array's header, as if it had 24 bytes
    LAST = 3  #: the address before this one


def issue_layout(config):
    """What is issued in a cycle: where a window is read, and the tag that goes with it.

    The address is that of `origin` plus `offset`, with the bits of `mask` cleared. The reach is `total` bytes further.
    """
    places = place_bits(config)
    return data.StructLayout(
        {
            "origin": 2,
            "anchor": page_bits(config),
            "offset": places,
            "mask": 3,
            "total": places,
            "move": 1,  # base P is set to the reach
            "put": 1,  # base P is set to the address
            "mark": 1,  # ARRAY is set to the address
            "open": 1,  # what is read says where base P (with `mark`, base A too) is after it
            "tag": tag_layout(config),
        }
    )


def bases_layout():
    """What an issue may know of the addresses of those before it."""
    return data.StructLayout(
        {
            "place": 3,  # base P's lowest bits
            "array": 3,  # base A's
            "unsettled": 1,  # these are not known yet
            "grows": 1,  # an array's header is read whose length may change base P and A
            "crooked": 1,  # the address of the issue two cycles ago is not aligned
        }
    )


def length_layout():
    """What a header says of the length of what it begins."""
    return data.StructLayout(
        {
            "short": 1,  # an array's: it has 1 byte, not 4
            "size": 16,  # bytes of a value
            "again": 1,  # what was read as a value's header is padding
        }
    )


def page_layout(config):
    """What a page's header says."""
    inside = page_bits(config)
    return data.StructLayout(
        {
            "visible": 1,  # all of its tuples are
            "lower": inside,  # behind the line pointers
            "upper": inside,  # where tuples begin
            "special": inside,  # behind the tuples
            "beyond": 1,  # one of these is more than a page can have
            "fresh": 1,  # the page was never written
            "stale": 1,  # its version is another one
        }
    )


def header_layout(config):
    """What a tuple's header says, and what is wrong with it."""
    return data.StructLayout(
        {
            "natts": 11,  # attributes
            "nulls": 1,  # there is a null bitmap
            "data": page_bits(config),  # where its data begin
            "invisible": 1,
            "fault": 8,  # an error's code, or 0
            "dense": 1,  # no NULLs, and all attributes that the dense part needs
        }
    )


def tuple_layout(config):
    """A tuple that is entered."""
    inside = page_bits(config)
    return data.StructLayout(
        {
            "offset": inside,  # where its header begins
            "data": inside,  # where its data begin
            "finish": inside,  # where it ends
            "natts": 11,  # attributes
            "nulls": 1,  # there is a null bitmap
        }
    )


def setup_layout():
    """What `readB` says of pages and tuples."""
    return data.StructLayout(
        {
            "all": 1,  # every tuple is visible
            "version": 16,  # the page header's version field
            "columns": 11,  # of the schema
            "need": 16,  # attributes that the dense part needs
        }
    )


def policy_layout():
    """What values do that do not fit."""
    return data.StructLayout(
        {
            "saturate": 1,  # an overflow is no error
            "skip": 1,  # a NaN leaves its tuple out
            "go": 1,  # a NaN passes
        }
    )


def program_layout(config):
    """The write port of a program memory."""
    return data.StructLayout({"index": range(config.program_depth), "data": 96, "write": 1})
