"""Records of targets, read from files and from manifests.

A file is TOML: tables `[[part]]` and `[[target]]`, or one `[target]`, with the fields of `models.target`. `part` is a part's name, and `base` another
target's, whose record is taken where the file says nothing. Capacities are never written: they are the part's less the reserve.
"""

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args

from ..models.fields import hints_of
from ..models.inputs import Input
from ..models.target import RESOURCES, Capacity, Part, Reserve, Target

#: Penstock's own
TARGETS, _PARTS = (Path(__file__).with_name(f"{name}.toml") for name in ("targets", "parts"))
_UNITS = {"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
#: what follows from part and reserve
_CAPACITIES = {field.name for field in dataclasses.fields(Capacity)}
Made = TypeVar("Made")
Named = TypeVar("Named", Part, Target)


class Misread(ValueError):
    """What is wrong with a file: `key`, "" for the file as a whole, and what was expected."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"{key}: {what}" if key else what)


#: `most`: a hundred times Penstock's own targets
_FILE = Input("TOML", "", lambda what, _: Misread("", what), 1 << 22)


def from_json(record: Mapping[str, Any]) -> Target:
    """Return the target of which `record` is `to_json`. Raises ValueError."""
    return _made(record, Target, "target")


def read(path: str | Path, known: Mapping[str, Target]) -> list[Target]:
    """Return the targets that a file describes. `known`: those that it may start from, and whose names are taken. Raises Misread."""
    tables, parts, targets = _tables(Path(path)), dict(_parts()), dict(known)
    for part in (_made(table, Part, "part") for table in _listed(tables, "part")):
        if parts.setdefault(part.name.lower(), part) is not part:
            raise Misread("part.name", f"there is a part {part.name} already")
    for table in _listed(tables, "target"):
        target = _target(table, parts, targets)
        if targets.setdefault(target.name, target) is not target:
            what = f"there is a target {target.name} already, and one name is one machine"
            raise Misread("target.name", what)
    return list(targets.values())[len(known) :]


def _tables(path: Path) -> dict[str, Any]:
    tables = _FILE.toml(path)
    if odd := tables.keys() - {"part", "target"}:
        raise Misread(min(odd), "expected the tables `part` and `target`, and no others")
    return tables


def _listed(tables: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    entries = tables.get(name, [])
    entries = [entries] if isinstance(entries, dict) else entries
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise Misread(name, f"expected a table: [{name}], or several: [[{name}]]")
    return entries


@cache
def _parts() -> dict[str, Part]:
    """Return Penstock's own parts by their names in lower case."""
    parts = [_made(table, Part, "part") for table in _listed(_tables(_PARTS), "part")]
    return {part.name.lower(): part for part in parts}


def _named(settings: Mapping[str, Any], key: str, known: Mapping[str, Named]) -> Named | None:
    """Return what a target names, None where it names nothing."""
    if (name := settings.get(key)) is None:
        return None
    if not isinstance(name, str) or not (record := known.get(name) or known.get(name.lower())):
        offered = ", ".join(each.name for each in known.values())
        raise Misread(f"target.{key}", f"expected one of {offered}, not {name!r:.99}")
    return record


def _target(
    settings: dict[str, Any], parts: Mapping[str, Part], known: Mapping[str, Target]
) -> Target:
    """Return the target that a table describes."""
    if odd := settings.keys() & _CAPACITIES:
        what = "expected no capacity: it is the part's, less `reserve`"
        raise Misread(f"target.{min(odd)}", what)
    base, named = _named(settings, "base", known), _named(settings, "part", parts)
    for key, present in ("name", "name" in settings), ("part", base or named):
        if not present:
            raise Misread(f"target.{key}", "it is missing")
    for key, name in ("link", "baud"), ("memory", "bytes"):
        table = settings.get(key)
        value = table.get(name, 1) if isinstance(table, dict) else 1
        if re.fullmatch(r"[0.]+( ?[KMGT]iB)?", str(value)):  # which a record reads as not known
            raise Misread(f"target.{key}.{name}", f"expected a number above 0, not {value!r}")
    record = {} if base is None else base.to_json()
    record |= {key: value for key, value in settings.items() if key != "base"}
    if base is not None and {"memory", "clock", "bus_bytes"} & settings.keys():
        record |= {key: settings.get(key, 0) for key in ("latency", "bytes_per_cycle")}
    part = named or (base and base.part)
    if part is not None and (named is not None or "reserve" in settings):
        kept = _made(record.get("reserve", {}), Reserve, "target.reserve")
        record |= {name: getattr(part, name) for name in _CAPACITIES}
        for name in RESOURCES:
            most, taken = getattr(part, name), getattr(kept, name)
            if taken > most:
                what = f"expected at most the {most:,} of {part.name}, not {taken:,}"
                raise Misread(f"target.reserve.{name}", what)
            record[name] = most - taken
    record["part"] = part and dataclasses.asdict(part)
    return _made(record, Target, "target")


def _made(table: Any, kind: type[Made], key: str) -> Made:
    """Return the record of a table, which checks what it holds."""
    if not isinstance(table, dict):
        raise Misread(key, f"expected a table, not {table!r:.99}")
    hints, fields = hints_of(kind), {}
    for name, value in table.items():
        if name not in hints:
            raise Misread(f"{key}.{name}", f"unknown; expected one of {', '.join(hints)}")
        kinds = (hints[name], *get_args(hints[name]))
        inner: Any = next(filter(dataclasses.is_dataclass, kinds), None)
        if isinstance(value, dict) and inner is not None:
            value = _made(value, inner, f"{key}.{name}")
        elif name == "bytes" and isinstance(value, str):
            value = _size(value, f"{key}.{name}")
        fields[name] = _tuples(value)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING and field.name not in fields:
            raise Misread(f"{key}.{field.name}", "it is missing")
    try:
        return kind(**fields)
    except ValueError as problem:
        raise Misread(key, str(problem)) from None


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _size(text: str, key: str) -> int:
    size = re.fullmatch(r"(\d{1,15}) ?([KMGT]iB)", text, re.ASCII)
    if size is None:
        what = 'expected a number of bytes, or a text such as "64 GiB"'
        raise Misread(key, f"{what}, not {text!r:.99}")
    return int(size[1]) << _UNITS[size[2]]
