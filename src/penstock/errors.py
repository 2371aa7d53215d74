"""Exceptions of the commands, for engines as well as for the command line."""

from __future__ import annotations

import click

__all__ = ["Conflict"]


class Conflict(click.UsageError):
    """Options that cannot go together; `hint` says which to leave out."""

    def __init__(self, message: str, hint: str, context: click.Context | None = None) -> None:
        super().__init__(message, context or click.get_current_context(silent=True))
        self.hint = hint
