"""The engine's own options."""

from __future__ import annotations

from penstock.options import TABLE, Count, Option

__all__ = ["OPTIONS"]

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
OPTIONS = {
    **dict.fromkeys(("check", "compile", "build"), TABLE),
    **dict.fromkeys(("model", "simulate"), (*TABLE, *_REFITS)),
}
