"""What a long command is doing: a line with a spinner or a bar on a terminal, plain lines with -v, nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

__all__ = ["Steps"]

Advance = Callable[[int], None]


class Steps:
    """Shows the steps of one command on `console` (standard error). `quiet`: never; `verbose`: a line with its time after each step."""

    def __init__(self, console: Console, quiet: bool = False, verbose: bool = False) -> None:
        self.console, self.verbose = console, verbose and not quiet
        self.live = console.is_terminal and not quiet

    @contextmanager
    def log(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show `text` while the block runs, behind it on a terminal what the function that it gets is called with: the latest line of a tool."""
        begin = perf_counter()
        if self.live:
            columns = [
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
            ]
            with Progress(*columns, console=self.console, transient=True) as progress:
                task = progress.add_task(text, total=None)
                room = max(20, self.console.width - len(text) - 20)
                yield lambda line: progress.update(task, description=f"{text}: {line[:room]}")
        else:
            yield lambda line: None
        if self.verbose:
            self.console.print(
                f"{text}: {perf_counter() - begin:.2f} s", highlight=False, soft_wrap=True
            )

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Show `text` while the block runs. The function that it gets is to be called with how much of `total` is done."""
        begin = perf_counter()
        if self.live:
            bar = [BarColumn(), TaskProgressColumn()] if total else []
            columns = [SpinnerColumn(), TextColumn("{task.description}"), *bar, TimeElapsedColumn()]
            with Progress(*columns, console=self.console, transient=True) as progress:
                task = progress.add_task(text, total=total)
                yield lambda done: progress.update(task, completed=done)
        else:
            yield lambda done: None
        if self.verbose:
            self.console.print(
                f"{text}: {perf_counter() - begin:.2f} s", highlight=False, soft_wrap=True
            )
