"""Which targets there are: Penstock's own, and those that other packages offer."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from ..models import plugins
from ..models.target import Target
from .records import TARGETS, Misread, read

#: entry points under which packages offer targets: each names a `Target`, several of them, or the path of a file
GROUPS = {"penstock.targets": "set of targets", "penstock.boards": "set of boards"}


@cache
def targets() -> dict[str, Target]:
    """Return all targets by name: Penstock's own, then those of installed packages' entry points."""
    catalogue = {target.name: target for target in read(TARGETS, {})}

    def offers(offered: Any) -> Iterator[Target]:
        for one in [offered] if isinstance(offered, Target | str | Path) else offered:
            if isinstance(one, str | Path):
                try:
                    yield from read(one, catalogue)
                except Misread as problem:
                    raise plugins.Unusable(f"{one}: {problem}") from None
            elif isinstance(one, Target):
                yield one
            else:
                raise plugins.Unusable(f"{one!r} is no penstock.Target, and no file")

    def accept(point: EntryPoint, offered: Any) -> None:
        more = list(offers(offered))
        for target in more:
            if catalogue.get(target.name, target) != target:
                raise plugins.Unusable(f"there is a target {target.name} already")
        catalogue.update((target.name, target) for target in more)

    for group, kind in GROUPS.items():
        plugins.load(group, kind, accept)
    return catalogue


def boards() -> dict[str, Target]:
    """Return the targets that have pins: what `penstock build` and `penstock program` know."""
    return {name: target for name, target in targets().items() if target.board is not None}
