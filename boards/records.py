"""Records of targets, read from files and from manifests.

A file is TOML: tables `[[part]]` and `[[target]]`, or one `[target]`, with the fields of `models.target`. `part` is a part's name, and `base` another
target's, whose record is taken where the file says nothing. Capacities are never written: they are the part's less the reserve.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from ..models.target import RESOURCES, Capacity, Part, Reserve, Target

__all__ = ["TARGETS", "Misread", "from_json", "read"]

#: Penstock's own
TARGETS, _PARTS = (Path(__file__).with_name(f"{name}.toml") for name in ("targets", "parts"))
_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)
_UNITS = {"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
#: what follows from part and reserve
_CAPACITIES = {field.name for field in dataclasses.fields(Capacity)}


class Misread(ValueError):
    """What is wrong with a file: `key`, "" for the file as a whole, and what was expected."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"{key}: {what}" if key else what)
        self.key, self.what = key, what


def from_json(record: Mapping[str, Any]) -> Target:
    """Return the target of which `record` is `to_json`. Raises ValueError."""
    return _made(dict(record), Target, "target")


def read(path: str | Path, known: Mapping[str, Target]) -> list[Target]:
    """Return the targets that a file describes. `known`: those that it may start from, and whose names are taken. Raises Misread."""
    tables = _tables(Path(path))
    parts = {part.name.lower(): part for part in _parts()}
    for part in _read_parts(tables):
        if part.name.lower() in parts:
            raise Misread("part.name", f"there is a part {part.name} already")
        parts[part.name.lower()] = part
    found: dict[str, Target] = {}
    for table in _listed(tables, "target"):
        target = _target(table, parts, {**known, **found})
        if target.name in known or target.name in found:
            what = f"there is a target {target.name} already, and one name is one machine"
            raise Misread("target.name", what)
        found[target.name] = target
    return list(found.values())


def _tables(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            what = "there is no such file" if not path.exists() else "this is no file"
            raise Misread("", what)
        tables = tomllib.loads(path.read_bytes().decode())
    except OSError as problem:
        raise Misread("", f"it cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:  # also what is no text
        if isinstance(problem, Misread):
            raise
        raise Misread("", f"expected TOML: {problem}") from None
    if odd := tables.keys() - {"part", "target"}:
        raise Misread(min(odd), "expected the tables `part` and `target`, and no others")
    return tables


def _listed(tables: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = tables.get(name, [])
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Misread(name, f"expected a table: [{name}], or several: [[{name}]]")
    return found


def _read_parts(tables: Mapping[str, Any]) -> list[Part]:
    return [_made(table, Part, "part") for table in _listed(tables, "part")]


@cache
def _parts() -> tuple[Part, ...]:
    return tuple(_read_parts(_tables(_PARTS)))


def _target(
    given: dict[str, Any], parts: Mapping[str, Part], known: Mapping[str, Target]
) -> Target:
    """Return the target that a table describes."""
    for key in ("part", "base", "name"):
        if not isinstance(given.get(key, ""), str):
            raise Misread(f"target.{key}", f"expected a text, not {given[key]!r}"[:200])
    named, base = given.get("part"), given.get("base")
    if odd := given.keys() & _CAPACITIES:
        raise Misread(
            f"target.{min(odd)}", "expected no capacity: it is the part's, less `reserve`"
        )
    if base is not None and base not in known:
        raise Misread("target.base", f"expected one of {', '.join(known)}, not {base!r}")
    if "name" not in given or (named is None and base is None):
        missing = "name" if "name" not in given else "part"
        raise Misread(f"target.{missing}", "it is missing")
    if named is not None and named.lower() not in parts:
        offered = ", ".join(part.name for part in parts.values())
        raise Misread("target.part", f"expected one of {offered}, not {named!r}")
    record = known[base].to_json() if base is not None else {}
    record |= {key: value for key, value in given.items() if key != "base"}
    if base is not None and {"memory", "clock", "bus_bytes"} & given.keys():
        record |= {key: given.get(key, 0) for key in ("latency", "bytes_per_cycle")}
    part = parts[named.lower()] if named is not None else known[base].part  # type: ignore[index]
    if part is not None and (named is not None or "reserve" in given):
        kept = _made(record.get("reserve", {}), Reserve, "target.reserve")
        for name in RESOURCES:
            if getattr(kept, name) > getattr(part, name):
                most = f"expected at most the {getattr(part, name):,} of {part.name}"
                raise Misread(f"target.reserve.{name}", f"{most}, not {getattr(kept, name):,}")
        record |= {name: getattr(part, name) for name in _CAPACITIES}
        record |= {name: getattr(part, name) - getattr(kept, name) for name in RESOURCES}
    record["part"] = part and dataclasses.asdict(part)
    return _made(record, Target, "target")


def _made(table: dict[str, Any], kind: type[Any], key: str) -> Any:
    """Return the record of a table."""
    table = _plain(table, kind, key)
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as problem:
        what, _, place = str(problem).partition(" - at `$")
        raise Misread(key + place.rstrip("`"), what[:1].lower() + what[1:]) from None
    except RecursionError:
        raise Misread(key, "expected fewer tables in tables") from None


def _plain(table: Any, kind: type[Any], key: str) -> Any:
    """Return the table with sizes as numbers, after looking for keys that the record does not have."""
    if not isinstance(table, dict):
        return table
    hints, found = _hints(kind), dict(table)
    for name, value in table.items():
        if name not in hints:
            raise Misread(f"{key}.{name}", f"unknown; expected one of {', '.join(hints)}")
        inner = [
            one for one in (hints[name], *get_args(hints[name])) if dataclasses.is_dataclass(one)
        ]
        if inner:
            found[name] = _plain(value, inner[0], f"{key}.{name}")  # type: ignore[arg-type]
        elif name == "bytes" and isinstance(value, str):
            size = re.fullmatch(r"(\d{1,15}) ?([KMGT]iB)", value, re.ASCII)
            if size is None:
                what = 'expected a number of bytes, or a text such as "64 GiB"'
                raise Misread(f"{key}.{name}", f"{what}, not {value!r}"[:200])
            found[name] = int(size[1]) << _UNITS[size[2]]
    return found
