"""The engine's own options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from penstock.engines.options import FILL, INPUTS, RING, TABLE, Count, Option
from penstock.errors import not_one_of
from penstock.models.numerics.limbs import LIMBS_MAX

#: what is done where the rows do not determine all weights, the default first
ON_SINGULAR = ("error", "drop", "minimum-norm")
#: whether weights are refined on the table's rows
REFINE = ("last", "never")


@dataclass(frozen=True)
class Solving:
    """How the host solves a fit's sums. Raises OptionError for a choice that there is not."""

    on_singular: str = ON_SINGULAR[0]
    refine: str = REFINE[0]

    def __post_init__(self) -> None:
        for name, known in (("on_singular", ON_SINGULAR), ("refine", REFINE)):
            if getattr(self, name) not in known:
                raise not_one_of(name, getattr(self, name), known)

    def with_options(self, options: Mapping[str, Any]) -> Solving:
        """Return it with the options that were given."""
        names = asdict(self)
        return replace(self, **{n: v for n, v in options.items() if n in names and v is not None})


_REFITS = tuple(
    Option(name, Count(least, 1 << 20), "N", what)
    for name, least, what in (
        ("groups", 1, "A fit kernel's groups of keys.  [default: 8]"),
        ("refits", 0, "How often each group is fitted again.  [default: 4]"),
        ("new", 0, "Keys that come to a group before each refit.  [default: 50]"),
        ("gone", 0, "Keys that leave a group before each refit.  [default: 0]"),
    )
)
_LIMBS = Option(
    "limbs",
    Count(1, LIMBS_MAX),
    "N",
    "Limbs of 17 bits of every column of a fit.  [default: what the column's values take]",
    plans=True,
)
_SOLVING = tuple(
    Option(name, click.Choice(known), None, what)
    for name, known, what in (
        (
            "on_singular",
            ON_SINGULAR,
            "What a fit over columns does whose rows do not determine all weights.  [default: error]",
        ),
        (
            "refine",
            REFINE,
            "Whether the last fit's weights are refined on the table's rows.  [default: last]",
        ),
    )
)
_ROWS = tuple(
    Option(name, None, "COLUMN", what, plans=True)
    for name, what in (
        (
            "sample_weight",
            "The column that has the weight of each row of a fit over columns, 0 or more.",
        ),
        ("group_by", "A fit over columns for each value of this column."),
    )
)
_COMPILED = (*TABLE, *INPUTS, FILL, _LIMBS, *_SOLVING, *_ROWS, RING)
OPTIONS = {
    **dict.fromkeys(("check", "compile", "build"), _COMPILED),
    **dict.fromkeys(("model", "simulate"), (*_COMPILED, *_REFITS)),
}
