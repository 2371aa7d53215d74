"""Profiles of the rows that a kernel asks for most, as files: `penstock profile --out` writes them, `--hot` reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from penstock.dsl.analytics.in_memory import no_profile
from penstock.models.inputs import Input

if TYPE_CHECKING:
    from penstock.dsl.analytics.lookups import Lookups
    from penstock.dsl.core.graph import Graph

_AGAIN = "make it anew: penstock profile KERNEL --data SRC --out FILE.json"
_PROFILE = Input("a profile", _AGAIN, no_profile)


def hottest(kernel: str, usage: Mapping[str, Lookups], sizes: Mapping[str, int], most: int) -> str:
    """Return a profile as JSON: of each model how many rows it has, and those that are asked for most, the hottest first."""
    models = {}
    for name, asked in usage.items():
        rows, counts = np.unique(asked.rows, return_counts=True)
        order = np.lexsort((rows, -counts))[:most]
        entry = {"rows": rows[order].tolist(), "lookups": counts[order].tolist()}
        models[name] = {"of": sizes[name], **entry}
    return json.dumps({"kernel": kernel, "models": models}) + "\n"


def hot_rows(file: str, graph: Graph) -> dict[str, list[int]]:
    """Return by model of a kernel the rows that a profile names, the hottest first.

    Raises KernelError (E498) for a file that cannot be read, is cut or no profile, or is that of another kernel or of a table of another size.
    """
    profile = _PROFILE.json(file)
    try:
        kernel, models = profile["kernel"], profile["models"]
        numbers = [n for model in models.values() for n in (model["of"], *model["rows"])]
    except (AttributeError, LookupError, TypeError):
        kernel, numbers = None, []
    if type(kernel) is not str or not all(type(n) is int for n in numbers):
        raise no_profile(f"{file} is no profile", _AGAIN)
    if kernel != graph.name:
        what = f"{file} is the profile of the kernel {kernel}, not of {graph.name}"
        raise no_profile(what, _AGAIN)
    sizes = {v.name: (*v.shape, 1)[0] for v in graph.of_kind("model")}
    for name, model in models.items():
        if name in sizes and model["of"] != sizes[name]:
            what = f"{file} is of a table with {model['of']:,} rows of {name}, and there are {sizes[name]:,}"
            raise no_profile(what, "profile this table, or give both the same --dim")
    return {name: model["rows"] for name, model in models.items()}
