"""The engine's own options."""

from typing import Any

import click

from penstock.engines.options import FILL, Count, Number, Option


class _Size(click.ParamType):
    """Bytes, as in 64M or 2G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
        digits = text[:-1] if unit > 1 else text
        if not (digits.isascii() and digits.isdigit()) or not int(digits):
            self.fail(f"{value!r} is not a size, such as 64M or 2G", param, ctx)
        return int(digits) * unit


_PLAN = tuple(
    Option(name, kind, metavar, text, plans=True)
    for name, kind, metavar, text in (
        ("hbm", _Size(), "SIZE", "HBM that a map may take, as in 64M."),
        ("load", Number(1, 32), "C", "Mean items of a map's bin.  [default: fewest host bytes]"),
        (
            "share",
            Number(0, 1, max_open=True),
            "ALPHA",
            "Share of a map's bins in HBM.  [default: 0.2, or what --hbm holds]",
        ),
        (
            "window",
            Count(2, 256),
            "W",
            "Requests of a map in flight, a power of two.  [default: as many as keep it busy]",
        ),
        ("rounds", Count(1, 4), "R", "Rounds of a cipher core a cycle: 1, 2 or 4.  [default: 2]"),
        (
            "cores",
            Count(2, 64),
            "N",
            "Cipher cores that open pages, and as many that seal them.  [default: planned]",
        ),
        (
            "channels",
            Count(1, 8),
            "N",
            "Channels of HBM that each of a map's ports has: 1, 2, 4 or 8.  [default: planned]",
        ),
    )
)
_RUN = (
    Option("ops", Count(1, 1 << 24), "N", "Random operations on a map.  [default: 1000]"),
    Option(
        "mix",
        None,
        "get=0.9,put=0.1",
        "Shares of get, put and delete.  [default: get=0.5,put=0.5]",
    ),
    Option(
        "keys",
        None,
        "zipf:0.99",
        "Keys of random operations: uniform, zipf:THETA, hot:N, sweep or sawtooth:N.  "
        "[default: uniform]",
    ),
    Option(
        "interval",
        Count(0, 1 << 31),
        "CYCLES",
        "Cycles from one request's arrival to the next one's.  [default: 0]",
    ),
)
_FRONT = Option(
    "plans",
    bool,
    None,
    "Print the plans that none betters in trusted bytes, host bytes and rate.",
    flagged=True,
)
OPTIONS = {
    **dict.fromkeys(("check", "compile", "build"), (*_PLAN, FILL)),
    "model": (*_PLAN, FILL, *_RUN, _FRONT),
    "simulate": (*_PLAN, FILL, *_RUN),
}
