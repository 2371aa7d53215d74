"""Tables from wherever they lie: heap files, CSV, NumPy and Parquet files, random numbers, a PostgreSQL server, a program's own arrays and frames.

`open_table` takes what a user types as SRC, or holds. Whatever goes wrong with a source is a `SourceError` with a message and a hint.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...models.heap.schema import Schema
from .errors import SourceError
from .features import Features
from .files import open_arrow, open_csv, open_heap, open_npz, open_parquet
from .in_memory import from_memory
from .provenance import Cast, Provenance
from .synthetic import RandomOptions
from .table import Table

__all__ = [
    "Cast",
    "Provenance",
    "RandomOptions",
    "SourceError",
    "Table",
    "are_stored",
    "open_table",
]

_FILES = {
    ".csv": open_csv,
    ".npz": open_npz,
    ".parquet": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
    ".ipc": open_arrow,
}
_FORMS = (
    "heap:FILE,SCHEMA.json · postgresql://…?table=NAME · FILE.csv · FILE.npz · FILE.parquet · "
    "FILE.arrow · FILE.feather · random:rows=1000,seed=1"
)
#: what may stand behind a file's name
_ASKED = re.compile(r"\?(?=(?:features|onehot)=)")

_SERVERS = ("postgresql://", "postgres://")


def are_stored(src: Any) -> bool:
    """Return whether the source has pages of its own, as PostgreSQL wrote them, or has them already; those of other sources are packed here."""
    return (
        src.startswith(("heap:", *_SERVERS))
        if isinstance(src, str)
        else isinstance(src, (Table, Schema))
    )


def open_table(
    src: Any,
    schema: Schema | None = None,
    labels: tuple[str, ...] = ("y",),
    *,
    pages: bool | None = None,
    features: Sequence[str] | str = (),
    one_hot: Sequence[str] | str = (),
    indices: Sequence[str] | str = (),
    categories: Sequence[str] = (),
    unseen: str = "error",
    used: Mapping[str, bool] | None = None,
    counts: Mapping[str, int] | None = None,
) -> Table:
    """Open the table that `src` names, or is: a `Table`, or what `from_memory` takes.

    `features` and `one_hot` name columns of dates, times, enums and texts that are to become
    numbers, as `features=` and `onehot=` do in the text of a source (`one_hot`: each category has a
    place of its own in an array). The numbers of categories are in the schema (`Column.labels`);
    where `schema` is a design's, its numbers hold. `indices` names columns that a kernel's indices take, whose integer
    arrays and dates stay integers and whose texts become categories: `compile` says so itself for a source that is not opened yet. `categories`, `unseen`,
    `used`: as of `Features`; `counts`: below which number random indices lie.

    `random:` needs to know what to make: `schema` (array columns with their `length`) and the names of the `labels` among its
    columns say it; see `Table.random`. A server's rows are packed as `schema` says where its columns are there; `pages` is for tables of a
    server: see `open_postgres`. The other sources look at none of them.

    Raises SourceError for everything that is wrong with the source.
    """
    try:
        asked = Features(
            _names(features),
            _names(one_hot),
            schema,
            _names(indices),
            tuple(categories),
            unseen,
            used,
        )
        return _open(src, schema, labels, pages, asked, counts)
    except OSError as problem:  # a folder or file that may not be entered or read
        raise SourceError(
            f"{problem.filename or src} cannot be read: {problem.strerror or problem}",
            "who runs penstock must be allowed to read it; `ls -l` shows who is",
            code="E702",
        ) from problem


def _names(names: Sequence[str] | str) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _open(
    src: Any,
    schema: Schema | None,
    labels: tuple[str, ...],
    pages: bool | None,
    features: Features,
    counts: Mapping[str, int] | None,
) -> Table:
    if isinstance(src, Table):
        return src
    if not isinstance(src, (str, Path)):
        return from_memory(src, features)
    src = str(src)
    if src.startswith("heap:"):
        return open_heap(src.removeprefix("heap:"))
    if src.startswith(_SERVERS):
        from .postgres import open_postgres

        return open_postgres(src, pages=pages, features=features)
    if src.startswith("random:"):
        options = RandomOptions.parse(src.removeprefix("random:"))
        if schema is None:
            raise SourceError(
                "a random table needs a kernel that says which columns to make",
                "give a kernel with this source",
                code="E701",
            )
        return Table.random(schema, options.rows, options.seed, options.task, labels, counts)
    if "://" in src:
        raise SourceError(
            f"unknown data source {src!r}",
            "only postgresql:// is read over the network: fetch the file first",
            code="E701",
        )
    name, *asked = _ASKED.split(src, maxsplit=1)
    if asked:
        extra = Features.parse(asked[0])
        features = replace(
            features,
            named=(*features.named, *extra.named),
            one_hot=(*features.one_hot, *extra.one_hot),
        )
    path = Path(name)
    opener = _FILES.get(path.suffix.lower())
    if opener is None:
        scheme = src.partition(":")[0]
        if scheme in ("heap", "random", "postgresql", "postgres"):
            raise SourceError(
                f"unknown data source {src!r}",
                f"is something missing behind {scheme}:? Known are: {_FORMS}",
                code="E701",
            )
        raise SourceError(f"unknown data source {src!r}", f"known are: {_FORMS}", code="E701")
    return opener(path, features)
