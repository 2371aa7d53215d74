"""Reports as JSON, held against their schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, wraps
from importlib.resources import files
from typing import Any

__all__ = ["check_report", "checked", "validator"]


@cache
def validator() -> Any:
    """Return what judges a report."""
    from jsonschema import Draft202012Validator

    text = (files("penstock.report") / "outcome.schema.json").read_text()
    Draft202012Validator.check_schema(schema := json.loads(text))
    return Draft202012Validator(schema)


def check_report(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report. Raises jsonschema.ValidationError unless the schema describes it."""
    validator().validate(json.loads(json.dumps(report, allow_nan=False)))
    return report


def checked(to_json: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return `Outcome.to_json` with each report checked."""

    @wraps(to_json)
    def made(*arguments: Any, **options: Any) -> dict[str, Any]:
        return check_report(to_json(*arguments, **options))

    return made
