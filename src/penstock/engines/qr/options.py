"""The engine's own options."""

from __future__ import annotations

import click

from penstock.options import FILL, INPUTS, TABLE, Count, Option

__all__ = ["ON_SINGULAR", "OPTIONS"]

#: what is done where the rows do not determine all weights, the default first
ON_SINGULAR = ("error", "drop", "minimum-norm")

_REFITS = (
    Option(
        "--groups", "groups", Count(1, 1 << 20), "N", "A fit kernel's groups of keys.  [default: 8]"
    ),
    Option(
        "--refits",
        "refits",
        Count(0, 1 << 20),
        "N",
        "How often each group is fitted again.  [default: 4]",
    ),
    Option(
        "--new",
        "new",
        Count(0, 1 << 20),
        "N",
        "Keys that come to a group before each refit.  [default: 50]",
    ),
    Option(
        "--gone",
        "gone",
        Count(0, 1 << 20),
        "N",
        "Keys that leave a group before each refit.  [default: 0]",
    ),
)
_SINGULAR = Option(
    "--on-singular",
    "on_singular",
    click.Choice(ON_SINGULAR),
    None,
    "What a fit over columns does whose rows do not determine all weights.  [default: error]",
)
OPTIONS = {
    **dict.fromkeys(("check", "compile", "build"), (*TABLE, *INPUTS, FILL)),
    **dict.fromkeys(("model", "simulate"), (*TABLE, *INPUTS, FILL, *_REFITS, _SINGULAR)),
}
