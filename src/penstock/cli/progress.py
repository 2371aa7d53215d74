"""What a long command is doing: a line with a spinner or a bar on a terminal, plain lines with -v, nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[[int], None]


class Steps:
    """Shows the steps of one command on `console` (standard error). `quiet`: never; `verbose`: a line with its time after each step."""

    def __init__(self, console: Console, quiet: bool = False, verbose: bool = False) -> None:
        self.console, self.verbose = console, verbose and not quiet
        self.live = console.is_terminal and not quiet

    @contextmanager
    def log(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show `text` while the block runs, behind it on a terminal what the function that it gets is called with: the latest line of a tool."""
        with self._timed(text):
            if not self.live:
                yield lambda line: None
                return
            with self._progress(markup=False) as progress:
                task = progress.add_task(text, total=None)
                room = max(20, self.console.width - len(text) - 20)
                yield lambda line: progress.update(task, description=f"{text}: {line[:room]}")

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Show `text` while the block runs. The function that it gets is to be called with how much of `total` is done."""
        with self._timed(text):
            if not self.live:
                yield lambda done: None
                return
            with self._progress(bar=bool(total)) as progress:
                task = progress.add_task(text, total=total)
                yield lambda done: progress.update(task, completed=done)

    def _progress(self, *, bar: bool = False, markup: bool = True) -> Progress:
        # most commands have no terminal, or are over at once
        from rich import progress as rich

        text = rich.TextColumn("{task.description}", markup=markup)
        bars = [rich.BarColumn(), rich.TaskProgressColumn()] if bar else []
        columns = [rich.SpinnerColumn(), text, *bars, rich.TimeElapsedColumn()]
        return rich.Progress(*columns, console=self.console, transient=True)

    @contextmanager
    def _timed(self, text: str) -> Iterator[None]:
        begin = perf_counter()
        yield
        if self.verbose:
            line = f"{text}: {perf_counter() - begin:.2f} s"
            self.console.print(line, highlight=False, soft_wrap=True)
