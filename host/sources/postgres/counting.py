"""Counts a table's rows while its pages are on their way: by a second session that shares the snapshot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

#: bytes of a table from which a second session is worth its start
_LARGE = 1 << 23


@contextmanager
def counting(connection: Any, query: Any, size: int) -> Iterator[Callable[[], int]]:
    """Give a function that returns what `query`, a SELECT count(*), gives under the snapshot of the connection's transaction.

    Where the second session is not to be had (small tables do without, connections may be short, someone may wait for a stronger lock on the
    table), the query runs on `connection` itself when the function is called.
    """
    counts: list[int] = []
    sessions: list[Any] = []
    thread = Thread()  # never started where there is no second session
    if size >= _LARGE:
        import psycopg

        try:
            snapshot = connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()[0]
            thread = Thread(
                target=_count,
                args=(
                    connection.info.dsn,
                    connection.info.password,
                    snapshot,
                    query,
                    counts,
                    sessions,
                ),
                daemon=True,
            )
            thread.start()
        except (psycopg.Error, RuntimeError):
            pass

    def result() -> int:
        if thread.ident is not None:
            thread.join()
        return counts[0] if counts else int(connection.execute(query).fetchone()[0])

    try:
        yield result
    finally:
        if thread.is_alive() and sessions:  # something failed: nobody waits for the number
            sessions[0].cancel_safe()
        if thread.ident is not None:
            thread.join()


def _count(
    dsn: str, password: str, snapshot: str, query: Any, counts: list[int], sessions: list[Any]
) -> None:
    import psycopg
    from psycopg import sql

    try:
        with psycopg.connect(
            dsn, password=password or None, connect_timeout=5, autocommit=True
        ) as session:
            sessions.append(session)
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
            # one process counts as fast as the pages come; more would take processors from them
            session.execute("SET LOCAL max_parallel_workers_per_gather = 0")
            # whoever waits for a stronger lock waits for the first session: it would wait for us
            session.execute("SET LOCAL lock_timeout = '100ms'")
            row = session.execute(query).fetchone()
            counts += row or ()
    except psycopg.Error:
        pass  # the first session counts
