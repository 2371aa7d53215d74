"""The direct way: a table's own pages, made to show what one snapshot sees.

Why a page may pass untouched. Our transaction took a lock that TRUNCATE, CLUSTER and the like must wait for, then a snapshot, which it keeps;
the page is read after that. VACUUM sets PD_ALL_VISIBLE in the page only where every tuple is visible to every snapshot, ours included:
our xmin holds its horizon back. Whoever inserts into the page, deletes or updates clears the flag in the same change. So a page image
with the flag holds tuples of our snapshot only; SELECT decides by the same flag (`heapgetpage`). The exception is SELECT's as well: on a
standby the flag tells what the primary's snapshots see.

The visibility map is not asked: it is read at another moment than the page.

Why the others may be cleared by line numbers. A tuple that our snapshot sees cannot be removed while we hold the snapshot. Pruning may
move its bytes within the page and turn line pointers before it into redirects; its own line pointer stays NORMAL. Its data do not
change, only its header's transaction fields, which the flag in the copy makes irrelevant. So it does not matter that the server is asked
for the visible tuples at another moment than for the page.

Why files may serve. A CHECKPOINT after the snapshot writes every page with a change that the snapshot sees; what is in the file later can
only be newer, for which the two paragraphs above hold. CHECKPOINT does not write unlogged or temporary tables, and on a standby may
not write at all. A page that is read while it is being written may be half of each: its checksum shows that, so that without data
checksums files are not read.

Sources: PostgreSQL 15 `access/heap/README.HOT`, `access/heap/heapam.c`, `access/heap/vacuumlazy.c`, `storage/buffer/README`.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ....models.heap import page as p
from ....models.heap.checksum import checksum
from ....models.heap.schema import Column, Schema
from ....models.heap.survey import line_words, survey
from ....models.heap.writer import write_heap
from ..errors import server_error
from .catalog import Relation
from .copying import array_lengths, columns_of, messages, one_length, sent
from .counting import counting

Bytes = npt.NDArray[np.uint8]
_ACROSS = 8  # pages a row, from buffers
_BATCH = 64  # pages a row, from files
_FIELDS = 2  # bytes of a row's number of fields
_RANGES = 64  # ranges of blocks a query
_TIDS = 10000  # rows fetched by their places with one query


class NotDirect(Exception):
    """The table cannot be read page by page; the argument says why."""


@dataclass(frozen=True)
class Pages:
    """Pages of a table of a server."""

    schema: Schema
    pages: Bytes
    way: str  #: "buffers" or "files"
    untouched: int  #: pages that are the server's own
    rebuilt: int  #: rows in pages of ours, at the end


def read_pages(connection: Any, relation: Relation, schema: Schema, insist: bool) -> Pages:
    """Read a heap of which ACCESS SHARE is locked, within a transaction that has its snapshot.

    `insist`: many rows to rebuild are no reason against this way. Raises NotDirect where the pages cannot be had, SourceError where they
    contradict the server.
    """
    sized = "SELECT pg_catalog.pg_relation_size(%s)"
    size = connection.execute(sized, (relation.oid,)).fetchone()[0]
    count_all = _only(relation, "SELECT pg_catalog.count(*) FROM ONLY {}")
    with counting(connection, count_all, size) as counted:
        way, pages = _images(connection, relation, size // relation.page_size)
        touched = np.zeros(len(pages), bool)
        delivered = _clear(connection, relation, pages, touched)
        pages, schema, rebuilt = _plain(connection, relation, schema, pages, touched, insist)
        count = counted()
    if delivered != count:
        raise server_error(
            f"the pages of {relation.name} hold {delivered:,} rows, but SELECT sees {count:,}",
            "this must not happen: please report it with the server's version; without --pages the rows come by SELECT",
        )
    return Pages(schema, pages, way, int(np.count_nonzero(~touched)), rebuilt)


def _only(relation: Relation, text: str) -> Any:
    from psycopg import sql

    return sql.SQL(text).format(sql.Identifier(relation.namespace, relation.name))


# -- where the images come from --------------------------------------------------------------------------------------------


def _images(connection: Any, relation: Relation, blocks: int) -> tuple[str, Bytes]:
    from psycopg import errors

    barred = {
        "files of a table that is not logged are never current": relation.persistence != "p",
        "files of a standby may be older than its snapshot": relation.in_recovery,
        "without data checksums nothing shows that files are whole": not relation.checksums,
    }
    missing = "the extension pageinspect is not installed"
    reasons = []
    for way, images, why in (
        ("buffers", _from_buffers, missing if relation.pageinspect is None else None),
        ("files", _from_files, next((why for why, holds in barred.items() if holds), None)),
    ):
        if why is None:
            try:
                with connection.transaction():  # a savepoint
                    return way, images(connection, relation, blocks)
            except (errors.InsufficientPrivilege, errors.UndefinedFunction) as error:
                why = str(error).splitlines()[0]
        reasons.append(why)
    raise NotDirect("; ".join(reasons))


def _from_buffers(connection: Any, relation: Relation, blocks: int) -> Bytes:
    from psycopg import sql

    full = sql.Literal(sql.Identifier(relation.namespace, relation.name).as_string(connection))
    number = sql.SQL("bigint" if relation.version >= 140000 else "int")
    # several pages a row: fewer, larger messages
    listed = sql.SQL(", ").join(
        sql.SQL("CASE WHEN b + {0} < {1} THEN {2}.get_raw_page({3}, 'main', b + {0}) END").format(
            sql.Literal(k), sql.Literal(blocks), sql.SQL(relation.pageinspect or ""), full
        )
        for k in range(_ACROSS)
    )
    query = sql.SQL(
        "COPY (SELECT {} FROM pg_catalog.generate_series(0::{}, {}, {}) b) TO STDOUT (FORMAT binary)"
    ).format(listed, number, sql.Literal(blocks - 1), sql.Literal(_ACROSS))
    pages, at = np.empty((blocks, relation.page_size), np.uint8), 0
    for row in sent(connection, query):
        count = min(_ACROSS, blocks - at)
        images = np.frombuffer(row, np.uint8, count * (4 + relation.page_size), _FIELDS)
        pages[at : at + count] = images.reshape(count, -1)[:, 4:]  # behind each one's length
        at += count
    return pages


def _from_files(connection: Any, relation: Relation, blocks: int) -> Bytes:
    connection.execute("CHECKPOINT")
    path, segment = connection.execute(
        "SELECT pg_catalog.pg_relation_filepath(%s), setting::bigint FROM pg_catalog.pg_settings WHERE name = 'segment_size'",
        (relation.oid,),
    ).fetchone()
    pages = np.empty((blocks, relation.page_size), np.uint8)
    with ThreadPoolExecutor(1) as checker:  # looks at pages while others come
        looks = []
        for first in range(0, blocks, segment):
            count = min(segment, blocks - first)
            name = path if not first else f"{path}.{first // segment}"
            at = first
            for part in _file_parts(connection, name, 0, count, relation.page_size):
                pages[at : at + len(part)] = part
                looks.append((at, checker.submit(_torn, pages[at : at + len(part)], at)))
                at += len(part)
        torn = [at + int(k) for at, look in looks for k in np.nonzero(look.result())[0]]
    for block in torn:
        name = path if block < segment else f"{path}.{block // segment}"
        for _ in range(4):
            for part in _file_parts(connection, name, block % segment, 1, relation.page_size):
                pages[block] = part[0]
            if not _torn(pages[block : block + 1], block).any():
                break
        else:
            raise server_error(
                f"the checksum of block {block} of {relation.name} is wrong in its file",
                "the file may be damaged: what does `SELECT count(*)` of the table say?",
            )
    return pages


def _torn(pages: Bytes, first: int) -> npt.NDArray[np.bool_]:
    """Return which pages, the first of them block `first`, are not what their checksum says. A page of zeros is new."""
    torn = checksum(pages, first) != pages.view("<u2")[:, 4]
    torn[torn] = pages[torn].any(axis=1)
    return torn


def _file_parts(connection: Any, path: str, first: int, count: int, size: int) -> Iterator[Bytes]:
    """Yield pages of a file in order. Raises SourceError where the file ends before them."""
    from psycopg import sql

    query = sql.SQL(
        "COPY (SELECT pg_catalog.pg_read_binary_file({}, b * {}, least({}, {} - b) * {}) "
        "FROM pg_catalog.generate_series({}::bigint, {}, {}) b) TO STDOUT (FORMAT binary)"
    ).format(
        *map(
            sql.Literal, (path, size, _BATCH, first + count, size, first, first + count - 1, _BATCH)
        )
    )
    got = 0
    for row in sent(connection, query):
        image = np.frombuffer(row, np.uint8, offset=_FIELDS + 4)
        part = image[: len(image) - len(image) % size].reshape(-1, size)
        got += len(part)
        yield part
    if got != count:
        raise server_error(
            f"the file {path} has {got:,} pages where {count:,} were expected",
            "this must not happen: please report it with the server's version; without --pages the rows come by SELECT",
        )


# -- what the snapshot sees ------------------------------------------------------------------------------------------------


def _clear(
    connection: Any, relation: Relation, pages: Bytes, touched: npt.NDArray[np.bool_]
) -> int:
    """Leave the visible line pointers only, and flag the pages as all visible; return how many there are."""
    try:
        words, counts = line_words(pages)
    except ValueError as error:
        raise server_error(
            f"{relation.name}: {error}",
            "the page is damaged: what does `SELECT count(*)` of the table say?",
        ) from error
    flags = pages.view("<u2")[:, 5]
    normal = words >> 15 & 3 == p.LP_NORMAL
    trusted = (flags & p.PD_ALL_VISIBLE != 0) & (not relation.in_recovery)
    mixed = ~trusted & normal.any(axis=1)
    if not mixed.any():
        return int(np.count_nonzero(normal))
    block, line = _visible(connection, relation, np.nonzero(mixed)[0], len(pages))
    inside = mixed[block]
    block, line = block[inside], line[inside]
    known = line <= counts[block]
    if not known.all() or not normal[block, line - 1].all():
        raise server_error(
            f"SELECT sees rows of {relation.name} that its pages do not hold",
            "this must not happen: please report it with the server's version; without --pages the rows come by SELECT",
        )
    keep = np.zeros(words.shape, bool)
    keep[block, line - 1] = True
    cleared = np.nonzero(mixed)[0]
    words[cleared] = np.where(keep[cleared], words[cleared], 0)
    _put(pages, words, counts, cleared)
    flags[cleared] |= p.PD_ALL_VISIBLE
    touched[cleared] = True
    return int(np.count_nonzero(normal[~mixed])) + len(block)


def _put(
    pages: Bytes,
    words: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.int64],
    changed: npt.NDArray[np.int64],
) -> None:
    """Write the line pointers of some pages back."""
    most = int(counts[changed].max(initial=0))
    area = pages.view("<u4")[:, p.PAGE_HEADER_SIZE // 4 : p.PAGE_HEADER_SIZE // 4 + most]
    area[changed] = np.where(
        np.arange(most) < counts[changed][:, None], words[changed, :most], area[changed]
    )


def _visible(
    connection: Any, relation: Relation, blocks: npt.NDArray[np.int64], total: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the places (block, line pointer) of the tuples that the snapshot sees, at least those in `blocks`, each once."""
    ends = np.nonzero(np.diff(blocks) != 1)[0]
    firsts, behind = blocks[[0, *(ends + 1)]], blocks[[*ends, len(blocks) - 1]] + 1
    ranges = list(zip(firsts.tolist(), behind.tolist(), strict=True))
    # without scans by ranges of places each range would read the whole table
    if len(blocks) * 2 > total or relation.version < 140000:
        parts = [_places(connection, relation, "SELECT ctid FROM ONLY {}")]
    else:
        parts = []
        for first in range(0, len(ranges), _RANGES):
            text = " UNION ALL ".join(
                f"SELECT ctid FROM ONLY {{0}} WHERE ctid >= '({a},0)' AND ctid < '({b},0)'"
                for a, b in ranges[first : first + _RANGES]
            )
            parts.append(_places(connection, relation, text))
    data = np.concatenate(parts)
    return data[:, 0] << 16 | data[:, 1], data[:, 2]


def _places(connection: Any, relation: Relation, query: str) -> npt.NDArray[np.int64]:
    """Return what a query for ctid gives: block number's halves and line pointer, one row each."""
    statement = _only(relation, f"COPY ({query}) TO STDOUT (FORMAT binary)")
    rows = [np.zeros(0, np.uint8), *(data for data, _ in messages(connection, statement))]
    return np.concatenate(rows).reshape(-1, 12)[:, 6:].copy().view(">u2").astype(np.int64)


# -- arrays that are compressed or out of line -----------------------------------------------------------------------------


def _plain(
    connection: Any,
    relation: Relation,
    schema: Schema,
    pages: Bytes,
    touched: npt.NDArray[np.bool_],
    insist: bool,
) -> tuple[Bytes, Schema, int]:
    """Move the rows that have such arrays to pages of ours at the end; note the arrays' lengths in the schema."""
    arrays = survey(schema, pages)
    moved = int(np.count_nonzero(arrays.packed))
    if moved and not insist and 2 * moved > len(arrays.packed):
        raise NotDirect("most rows have arrays that are compressed or out of line")
    lengths = arrays.lengths
    if moved:
        block, line = arrays.block[arrays.packed], arrays.line[arrays.packed]
        extra, theirs = _rebuilt(connection, relation, schema, block, line)
        words, counts = line_words(pages)
        words[block, line - 1] = 0
        changed = np.unique(block)
        _put(pages, words, counts, changed)
        touched[changed] = True
        pages = np.concatenate([pages, extra])
        lengths = {name: theirs[name] | lengths.get(name, set()) for name in theirs}
    columns = tuple(
        _sized(c, lengths) if c.is_array and c.is_numeric else c for c in schema.columns
    )
    return pages, replace(schema, columns=columns), moved


def _sized(column: Column, lengths: Mapping[str, set[int]]) -> Column:
    """Return an array column with the length of its arrays, if they have one, without a default that no row holds any more."""
    length, missing = one_length(lengths.get(column.name, set())), column.missing
    stale = length is not None and missing is not None and len(missing) != length
    return replace(column, length=length, missing=None if stale else missing)


def _rebuilt(
    connection: Any,
    relation: Relation,
    schema: Schema,
    block: npt.NDArray[np.int64],
    line: npt.NDArray[np.int64],
) -> tuple[Bytes, dict[str, set[int]]]:
    """Return the rows at these places in pages of ours, and the lengths of their arrays."""
    from psycopg import sql

    wanted = [c for c in schema.columns if c.is_usable]
    listed = sql.SQL(", ").join(sql.Identifier(c.name) for c in wanted)
    tids = [f'"({b},{n})"' for b, n in zip(block.tolist(), line.tolist(), strict=True)]
    queries = (
        sql.SQL("SELECT {} FROM ONLY {} WHERE ctid = ANY ({}::tid[])").format(
            listed,
            sql.Identifier(relation.namespace, relation.name),
            sql.Literal("{" + ",".join(tids[first : first + _TIDS]) + "}"),
        )
        for first in range(0, len(tids), _TIDS)
    )
    values, nulls = columns_of(connection, queries, {c.name: c.type for c in wanted})
    lengths = {c.name: array_lengths(values[c.name]) for c in wanted if c.is_array and c.is_numeric}
    try:
        return write_heap(schema, values, nulls=nulls), lengths
    except ValueError as error:
        raise NotDirect(
            f"a row with its arrays in it does not fit the server's pages: {error}"
        ) from error
