"""Tables from a running PostgreSQL server, exactly as SELECT sees them under one snapshot.

`open_postgres` takes a lock that lets everyone else read and write, then one REPEATABLE READ snapshot, and reads by the *direct way*
(the table's own pages, from the server's buffers or from its files) or by the *rows way* (what the server sends for a SELECT,
packed into pages here). Nothing in the database is changed. `write_models` writes what was learned into a table.
"""

from .source import open_postgres
from .writing import IF_EXISTS, write_models

__all__ = ["IF_EXISTS", "open_postgres", "write_models"]
