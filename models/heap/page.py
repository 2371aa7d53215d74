"""The bytes of a PostgreSQL heap page: constants, field positions and bit masks.

Everything is little-endian with a maximal alignment of 8 bytes (x86-64, AArch64). Layout version 4, unchanged from PostgreSQL 8.3
to 17. Sources: PostgreSQL 15 `storage/bufpage.h` (page header), `storage/itemid.h` (line pointers), `access/htup_details.h`
(tuple header), `postgres.h` (varlena headers), `utils/array.h` (arrays).

A page, by offset::

    0 .. 24           page header
    24 .. pd_lower    line pointers, four bytes each, numbered from 1
    pd_lower .. upper free space
    pd_upper .. special   tuples, allocated downwards, each at a multiple of 8; a length need not be a multiple of 8
    pd_special ..     nothing in a heap: pd_special is the page size
"""

import numpy as np

ALIGN = 8  #: MAXALIGN: of tuples in a page, and of a tuple's data in the tuple
PAGE_SIZES = (1024, 2048, 4096, 8192, 16384, 32768)
LAYOUT_VERSION = 4

# -- page header -----------------------------------------------------------------------------------------------------------

PAGE_HEADER = np.dtype(
    [
        ("pd_lsn_high", "<u4"),  # 0
        ("pd_lsn_low", "<u4"),  # 4
        ("pd_checksum", "<u2"),  # 8: 0 where checksums are off; nothing on the page says so
        ("pd_flags", "<u2"),  # 10
        ("pd_lower", "<u2"),  # 12: end of the line pointers
        (
            "pd_upper",
            "<u2",
        ),  # 14: start of the tuples; 0 on a new page, which holds nothing else either
        ("pd_special", "<u2"),  # 16
        ("pd_pagesize_version", "<u2"),  # 18: size (a multiple of 256) | version
        ("pd_prune_xid", "<u4"),  # 20: a hint
    ]
)
PAGE_HEADER_SIZE = 24

PD_HAS_FREE_LINES = 0x0001  #: a hint: some line pointer is unused
PD_ALL_VISIBLE = 0x0004  #: every tuple is visible to every transaction

# -- line pointers: offset in bits 0-14, flags in 15-16, length in 17-31 ---------------------------------------------------

LP_SIZE = 4
LP_UNUSED = 0  #: free, no storage
LP_NORMAL = 1
LP_REDIRECT = 2  #: of a pruned update chain: the offset is a line number, the length 0
LP_DEAD = 3  #: a deleted tuple, with or without storage

# -- tuple header ----------------------------------------------------------------------------------------------------------

TUPLE_HEADER = np.dtype(
    [
        ("t_xmin", "<u4"),  # 0
        ("t_xmax", "<u4"),  # 4
        ("t_cid", "<u4"),  # 8
        ("t_ctid_block_high", "<u2"),  # 12
        ("t_ctid_block_low", "<u2"),  # 14
        ("t_ctid_line", "<u2"),  # 16
        ("t_infomask2", "<u2"),  # 18
        ("t_infomask", "<u2"),  # 20
        ("t_hoff", "u1"),  # 22: where the data starts, a multiple of 8
    ]
)
TUPLE_HEADER_SIZE = 23
TUPLE_BITMAP = 23  #: start of the null bitmap (HEAP_HASNULL): ceil(natts / 8) bytes, lowest bit first, 1 = present

# t_infomask2
HEAP_NATTS_MASK = (
    0x07FF  #: how many attributes the tuple holds; later columns take their `missing` value
)
HEAP_KEYS_UPDATED = 0x2000
HEAP_HOT_UPDATED = 0x4000
HEAP_ONLY_TUPLE = 0x8000

# t_infomask
HEAP_HASNULL = 0x0001
HEAP_HASVARWIDTH = 0x0002
HEAP_HASEXTERNAL = 0x0004
HEAP_XMAX_KEYSHR_LOCK = 0x0010
HEAP_XMAX_EXCL_LOCK = 0x0040
HEAP_XMAX_LOCK_ONLY = 0x0080  #: xmax locked the tuple and did not delete it
HEAP_XMIN_COMMITTED = 0x0100
HEAP_XMIN_INVALID = 0x0200  #: the inserting transaction aborted
HEAP_XMIN_FROZEN = 0x0300  #: both: older than every snapshot
HEAP_XMAX_COMMITTED = 0x0400
HEAP_XMAX_INVALID = 0x0800  #: no deletion
HEAP_XMAX_IS_MULTI = 0x1000  #: xmax is a set of transactions
HEAP_UPDATED = 0x2000  #: this is the newer version of an updated row
HEAP_MOVED = 0xC000  #: either bit: moved by a VACUUM FULL before 9.0

MAX_COLUMNS = 1600  #: MaxHeapAttributeNumber

# -- variable-length values ------------------------------------------------------------------------------------------------
#
# First byte b, lowest bits last:
#   xxxxxx00      a 4-byte header, aligned: length = word >> 2, the header included
#   xxxxxx10      the same, the value compressed
#   xxxxxxx1      (but not 0x01) a 1-byte header at any address: length = b >> 1, the header included
#   0x01          out of line: a tag byte, then a pointer
# Padding before an aligned header is zero, so a byte other than zero at the unaligned place is already the (1-byte) header.

VARATT_SHORT_MAX = 0x7F  #: the longest value with a 1-byte header, that header included
VARATT_EXTERNAL = 0x01  #: first byte of a value that is stored out of line
VARATT_EXTERNAL_SIZE = 18  #: size of the pointer to an on-disk value, first byte and tag included

# -- arrays: positions after the varlena header ----------------------------------------------------------------------------

ARRAY = np.dtype(
    [  # of a one-dimensional array
        ("ndim", "<i4"),
        ("dataoffset", "<i4"),  #: 0: no NULL among the elements
        ("element", "<u4"),  #: OID of the element's type
        ("length", "<i4"),
        ("lower", "<i4"),
    ]
)
ARRAY_DATA = 20  #: start of the elements (1-D, no NULL); with a 4-byte varlena header before it a multiple of 8


def align(offset: int, boundary: int = ALIGN) -> int:
    """Round `offset` up to a multiple of `boundary`, a power of two."""
    return (offset + boundary - 1) & -boundary


def line_pointer(offset: int, flags: int, length: int) -> int:
    """Return the 32-bit line pointer. Offset and length have 15 bits each."""
    return (offset & 0x7FFF) | (flags & 3) << 15 | (length & 0x7FFF) << 17


def split_line_pointer(word: int) -> tuple[int, int, int]:
    """Return (offset, flags, length) of a line pointer."""
    return word & 0x7FFF, word >> 15 & 3, word >> 17 & 0x7FFF


def pagesize_version(page_size: int) -> int:
    """Return `pd_pagesize_version` of a page of this size."""
    return page_size | LAYOUT_VERSION


def max_tuple_size(page_size: int) -> int:
    """Return the length of the longest tuple that a page takes."""
    return page_size - align(PAGE_HEADER_SIZE + LP_SIZE)


def max_line_pointers(page_size: int) -> int:
    """Return how many line pointers a heap page may have (MaxHeapTuplesPerPage)."""
    return (page_size - PAGE_HEADER_SIZE) // (align(TUPLE_HEADER_SIZE) + LP_SIZE)


def visible_by_hints(infomask: int) -> bool | None:
    """Whether a tuple is visible by its hint bits; None where they do not decide."""
    if infomask & HEAP_MOVED:
        return None
    inserted = infomask & HEAP_XMIN_FROZEN
    if inserted in (0, HEAP_XMIN_INVALID):
        return False if inserted else None
    # locked, as servers before 9.3 wrote it
    locked = (
        infomask & (HEAP_XMAX_IS_MULTI | HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK)
        == HEAP_XMAX_EXCL_LOCK
    )
    if infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_LOCK_ONLY) or locked:
        return True
    if infomask & HEAP_XMAX_IS_MULTI:
        return None
    return False if infomask & HEAP_XMAX_COMMITTED else None
