"""What keeps a table's pages from saying what SELECT says, decided from the catalog's words alone: no server of that version is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.host.sources.features import NO_FEATURES
from penstock.host.sources.postgres.address import parse
from penstock.host.sources.postgres.catalog import Attribute, Relation
from penstock.host.sources.postgres.source import _Reading

TABLE = Relation(
    1, "r", "heap", "public", "t", "p", 8192, False, False, False, True, 180000, "1:1:", None
)
X = Attribute("x", 701, "float8", "b", 8, 8, "double precision")


def obstacle(columns: list[Attribute], pages: bool | None) -> str | None:
    address = parse("postgresql://shop?table=t")
    return _Reading(None, address, pages, NO_FEATURES)._obstacle(TABLE, columns)


@pytest.mark.parametrize("pages", [None, True])
def test_virtual_generated_columns_are_not_in_pages(pages: bool | None) -> None:
    """Version 18 has them; tuples hold NULL in their place."""
    assert obstacle([X, replace(X, name="twice")], pages) is None
    virtual = replace(X, name="twice", virtual=True)
    said = "its generated column 'twice' is virtual: pages hold NULL in its place"
    assert obstacle([X, virtual], pages) == said
    assert obstacle([X, replace(virtual, dropped=True)], pages) is None
