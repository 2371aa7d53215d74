"""What Striders may find wrong with pages and tuples."""

from ..errors import HardwareCode

_CORRUPT = (
    "the page is damaged, or it is no page of this table: "
    "PostgreSQL's pg_amcheck and pg_checksums look closer"
)
_SCHEMA = "does the schema say what the table has? A schema written before ALTER TABLE does not"


class PageError(HardwareCode):
    """What stopped a run on heap pages. The values are what the status register holds."""

    # the page as a whole
    PAGE_VERSION = (
        1,
        "the page has another size or layout version than the plan's",
        "is this the main file of a table (not its _fsm or _vm), "
        "with the page_size that the schema says?",
        "E811",
    )
    PAGE_BOUNDS = 2, "the page header points outside the page", _CORRUPT, "E811"
    # one line pointer
    LINE_BOUNDS = 16, "a line pointer points outside the page's tuples", _CORRUPT, "E811"
    LINE_FLAGS = 17, "an unused or redirecting line pointer has storage", _CORRUPT, "E811"
    # one tuple
    TUPLE_HEADER = 32, "the tuple's header has an impossible length", _CORRUPT, "E812"
    TUPLE_NATTS = 33, "the tuple has more attributes than the schema has columns", _SCHEMA, "E812"
    TUPLE_VISIBILITY = (
        34,
        "the page alone does not say whether the tuple is visible",
        "run VACUUM (FREEZE) and CHECKPOINT on the table first; "
        "--visibility all takes every tuple, deleted ones too",
        "E813",
    )
    TUPLE_LENGTH = 35, "the tuple's attributes reach past its end", _SCHEMA, "E812"
    TUPLE_NULL = (
        36,
        "a used column is NULL",
        "--on-null skip leaves such rows out; or fill the column first",
        "E814",
    )
    TUPLE_EXTERNAL = (
        37,
        "a value is compressed or stored out of line",
        "ALTER TABLE … ALTER COLUMN … SET STORAGE PLAIN, "
        "then rewrite the rows: CREATE TABLE … AS SELECT …",
        "E815",
    )
    ARRAY_SHAPE = (
        38,
        "an array is not one-dimensional, has another length or element type, or holds NULL",
        "all arrays of a column must have the length that the schema says, "
        "from index 1 on, without NULL",
        "E812",
    )
    # one value
    VALUE_OVERFLOW = (
        39,
        "a value lies beyond the range of the number format",
        "--on-overflow saturate takes the end of the range in its place and counts it; "
        "another --format has a wider range",
        "E841",
    )
    VALUE_NAN = (
        40,
        "a value is not a finite number",
        "--on-nan skip leaves such rows out, --on-nan pass computes with them "
        "in formats that have NaN",
        "E842",
    )
    VALUE_INDEX = (
        48,
        "an index names a row that there is not",
        "--on-index skip leaves such rows out and counts them; --dim gives the model more rows",
        "E848",
    )
    # the Strider itself
    PROGRAM = 66, "the Strider program is not valid"
