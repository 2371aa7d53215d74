"""The engine's own options."""

import click

from penstock.dsl.analytics.choices import PREFER
from penstock.engines.options import FILL, INPUTS, RING, TABLE, Count, Law, Option, Pair, names


def _start(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


class _Freeze(click.ParamType):
    name = "EPS,EPOCHS"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        if not isinstance(value, str):  # Python's: the training looks at it
            return value
        try:
            eps, epochs = value.split(",")
            return float(eps), int(epochs)
        except ValueError:
            self.fail(f"it must be EPS,EPOCHS, as 0.01,2, not {value!r}", param, ctx)


_KERNEL = (
    Option(
        "metas",
        Pair("rate=0.05", str),
        "META=NUMBER",
        "Value of a meta. Repeatable.",
        repeated=True,
        flag="--set",
    ),
    Option(
        "init",
        Pair("w=0.1", _start),
        "W=FILE.npy",
        "Start of a model: a .npy file or a number. Repeatable.",
        repeated=True,
    ),
    Option("epochs", Count(1, (1 << 31) - 1), "N", "Passes over the table."),
)
_PLAN = (
    Option("threads", Count(1, 256), "N", "Fix the plan's threads.", plans=True, forces=True),
    Option("lanes", Count(1, 128), "N", "Fix the plan's lanes.", plans=True, forces=True),
    Option("ports", Count(1, 32), "N", "Fix the plan's memory ports.", plans=True, forces=True),
    Option(
        "walkers",
        Count(1, 64),
        "N",
        "Fix the plan's Striders a port.",
        plans=True,
        forces=True,
    ),
    Option(
        "place",
        Pair("P=memory", str),
        "MODEL=PLACE",
        "Where the rows of a model lie: chip, memory, or memory:64 with 64 of them held on the chip. Repeatable.",
        repeated=True,
        plans=True,
        forces=True,
    ),
    Option(
        "hot",
        str,
        "PROFILE.json",
        "Hold the rows that this file of penstock profile names on the chip throughout, the hottest first, as far as there is room.",
        plans=True,
    ),
    Option(
        "dedupe",
        bool,
        None,
        "Look an index, or a bag, up once where tuples that follow each other in a batch have the same.",
        plans=True,
        flagged=True,
    ),
    RING,
    Option(
        "visibility",
        click.Choice(["hints", "all"]),
        None,
        "Judge tuples by their hint bits, or take all.  [default: hints]",
    ),
)
_INDICES = (
    Option(
        "categories",
        names,
        "COLUMN,…",
        "Columns of whole numbers, taken by an index, that are categories.",
    ),
    Option(
        "on_index",
        click.Choice(("error", "skip")),
        None,
        "What a row does whose index names none of a model's.  [default: error]",
    ),
    Option(
        "on_unseen",
        click.Choice(("error", "skip", "last")),
        None,
        "What a row does whose category the design does not know; last: the model's last row stands for it.  [default: error]",
    ),
)
_LAW = Option(
    "indices",
    Law(),
    "LAW",
    "How the indices of assumed rows are drawn: uniform or zipf:THETA.  [default: uniform]",
)
_PREFER = (
    Option(
        "prefer",
        click.Choice(PREFER),
        None,
        "What the plan shall be best at; area: the smallest that takes at most twice the time.  "
        "[default: time]",
        plans=True,
    ),
    FILL,
)
_FREEZE = Option(
    "freeze",
    _Freeze(),
    "EPS,EPOCHS",
    "Leave tuples out all of whose changed rows moved less than EPS in so many epochs.",
)
#: those that fix a plan
FORCES = tuple(option for option in _PLAN if option.forces)
_ALL = (*TABLE, *INPUTS, *_INDICES, *_KERNEL, *_PLAN, *_PREFER)
_COLUMNS = tuple(option for option in TABLE if option.name in ("dims", "bind"))
_COLUMNS += (_INDICES[0],)
#: what rows of a table are left out
POLICIES = (*(option for option in TABLE if option.name == "on_null"), *INPUTS, _INDICES[1])
OPTIONS = dict.fromkeys(("check", "compile", "build"), _ALL) | {
    "model": (*_ALL, _FREEZE, _LAW),
    "simulate": (*_ALL, _FREEZE),
    "profile": (*_COLUMNS, *POLICIES),
}
