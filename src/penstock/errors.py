"""Mistakes in what was asked for, for engines as well as for the command line and the Python API."""

import os
from collections.abc import Iterable

import click

from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span
from penstock.dsl.core.hints import closest
from penstock.models.errors import Error


class RunWarning(UserWarning):
    """What a user should know of a design or a run that goes on."""


class Conflict(click.UsageError, Error):  # type: ignore[misc]  # click's message is final
    """Options that cannot go together; `hint` says which to leave out."""

    code = "E902"

    def __init__(self, message: str, hint: str, context: click.Context | None = None) -> None:
        super().__init__(message, context or click.get_current_context(silent=True))
        self.hint = hint


class OptionError(KernelError, ValueError):
    """An argument of the Python API that is not taken (E609)."""


def no_option(taker: str, name: str, known: Iterable[str], ending: str = "") -> OptionError:
    """Return the error for an option that `taker` does not take; `known`: those that it takes."""
    takes = sorted(known)
    hint = closest(name, takes) or (f"it takes {', '.join(takes)}" if takes else "leave it out")
    return _error(name, f"{taker} takes no {name}{ending}", hint)


def bad_value(name: str, why: str) -> OptionError:
    """Return the error for a value that an option does not have; `why`: what it must be."""
    text = " ".join(why.split()).rstrip(".")
    return _error(name, f"{name}: {text}", "leave it out, or give another value")


def check_path(name: str, path: object) -> None:
    """Raise OptionError for what is no path."""
    if not isinstance(path, str | os.PathLike):
        raise bad_value(name, f"it must be a path, not {path!r}")


def not_one_of(name: str, choice: object, known: Iterable[str]) -> OptionError:
    """Return the error for the value of an option that has only some."""
    choices = list(known)
    message = f"{name} must be one of {', '.join(choices)}, not {choice!r}"
    return _error(name, message, closest(str(choice), choices) or "choose one of them")


def no_sessions(name: str) -> OptionError:
    """Return the error for a session of a design that keeps nothing between two runs."""
    message = f"runs of {name} leave nothing behind that a session could keep"
    return _error("open", message, "call run; recurrences have sessions")


def no_order(name: str) -> OptionError:
    """Return the error for the order of rows of a design that makes no epochs."""
    message = f"runs of {name} make no epochs over rows, which would have an order"
    return _error("order", message, "call it of kernels that learn from a table")


def not_both(one: str, other: str) -> OptionError:
    """Return the error for two options that say the same."""
    return _error(other, f"{one} and {other} are both given", f"leave {other} out")


def _error(name: str, message: str, hint: str) -> OptionError:
    return OptionError(Diagnostic("E609", message, Span.whole(name), hint=hint))
