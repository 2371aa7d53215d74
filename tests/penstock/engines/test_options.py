"""Options of engines, given from Python as text or ready-made."""

from typing import Any

import pytest

import penstock as ps
from penstock.engines.discovery import engine_named
from penstock.engines.options import taken


def _taken(engine: str, option: str, value: Any) -> Any:
    return taken(engine_named(engine).options["simulate"], {option: value})[option]


@pytest.mark.parametrize(
    ("engine", "option", "text", "value"),
    [
        ("omap", "hbm", "64M", 64 << 20),
        ("omap", "rounds", "2", 2),
        ("omap", "load", "7.5", 7.5),
        ("analytics", "categories", "color", ("color",)),
        ("analytics", "freeze", "0.01,2", (0.01, 2)),
        ("analytics", "pages", "no", False),
        ("qr", "limbs", "3", 3),
    ],
)
def test_a_text_is_read(engine: str, option: str, text: str, value: Any) -> None:
    assert _taken(engine, option, text) == _taken(engine, option, value) == value


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("hbm", "64X", "not a size"),
        ("hbm", -5, "-5 is not a size"),
        ("hbm", True, "True is not a size"),
        ("rounds", 1.5, "a whole number from 1 to 4, not 1.5"),
        ("channels", "9", "from 1 to 8, not '9'"),
    ],
)
def test_what_the_command_line_refuses(option: str, value: Any, why: str) -> None:
    with pytest.raises(ps.Error, match=why) as refused:
        _taken("omap", option, value)
    assert refused.value.code == "E609"
