"""The commands that are the same for every engine: each module here has its `COMMANDS`."""

import importlib
import pkgutil
from collections.abc import Iterator

import click


def commands() -> Iterator[click.Command]:
    for module in pkgutil.iter_modules(__path__):
        yield from getattr(importlib.import_module(f"{__name__}.{module.name}"), "COMMANDS", ())
