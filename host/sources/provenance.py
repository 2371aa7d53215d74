"""Where a table's rows come from, and what was done to them on the way: facts that reports can show."""

from dataclasses import dataclass

#: in place of a type: why a column was left out
UNREADABLE = "not readable by this user"
#: of a column whose arrays have no one length, or lack some
NO_ARRAYS = "no arrays of one length that can be packed"


@dataclass(frozen=True)
class Cast:
    """A column whose values are not bound as they are stored."""

    column: str
    type: str  #: the type in SQL
    becomes: str  #: the type that the table has
    how: str  #: what is done, in words for people
    #: labels of the numbers 0, 1, … (one-hot: of the places 0, 1, …) where the column holds
    #: categories
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """How a table was read."""

    #: "buffers": pages from the server's buffers; "files": pages from the relation's files; "rows":
    #: rows that the server sent, packed into pages here; "packed": what a file or a program holds,
    #: packed into pages here
    way: str
    reason: str  #: why this way was taken, in words
    #: the server's, as `pg_current_snapshot()` writes it; "" where there is no server
    snapshot: str
    pages: int  #: pages of the table
    pages_untouched: int = 0  #: pages that are byte for byte the server's; packed pages never are
    #: rows of the direct ways that had compressed or out-of-line arrays and were packed anew
    rebuilt: int = 0
    casts: tuple[Cast, ...] = ()  #: columns that became numbers by a cast
    #: columns that the table has at the source and not here, each with its type or with the reason
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def untouched_share(self) -> float:
        """The share of pages that are byte for byte the server's, from 0 to 1."""
        return self.pages_untouched / self.pages if self.pages else 0.0
