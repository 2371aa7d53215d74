"""What a command knows while it runs, and where it prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.cli.commandline import request
from penstock.engines.options import Request

if TYPE_CHECKING:
    from penstock.cli.progress import Steps
    from penstock.report.parts import Part
    from penstock.runs.failures import Failure
    from penstock.runs.outcome import Outcome


def _console(**options: Any) -> Console:
    return Console(highlight=False, markup=False, **options)


@dataclass
class State:
    """What `cli.run` must know when a command fails on its way.

    `report`: the parts that the command has printed, for other printers.
    """

    request: Request | None = None
    outcome: Outcome | None = None
    report: list[Part] = field(default_factory=list)
    out: Console = field(default_factory=_console)
    err: Console = field(default_factory=lambda: _console(stderr=True))

    def begin(
        self, command: str, values: dict[str, Any], *, options: str | None = None
    ) -> dict[str, Any]:
        """Note the command's options; return those that only it has. `options`: the command whose
        options of engines it takes, its own without."""
        from penstock.runs.outcome import Outcome

        self.outcome = Outcome(command, values["kernel"])
        self.request, rest = request(options or command, values)
        if self.request.json == "-":  # standard output is the report's
            self.out = self.err
        return rest

    @property
    def asked(self) -> Request:
        assert self.request is not None
        return self.request

    @property
    def record(self) -> Outcome:
        """What the command has found so far."""
        assert self.outcome is not None
        return self.outcome

    @property
    def steps(self) -> Steps:
        """What shows the command's steps."""
        from penstock.cli.progress import Steps

        return Steps(self.err, self.asked.quiet, self.asked.verbose > 0)

    def show(self, parts: Iterable[Part]) -> None:
        """Print parts of a report unless --quiet is given, and keep them."""
        from penstock.report.terminal import show

        parts = list(parts)
        self.report += parts
        if not self.asked.quiet:
            show(self.out, parts)

    def say(self, text: str) -> None:
        """Print a diagnostic on standard error as it is, in colour on a terminal."""
        from rich.text import Text

        shown = Text("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text))
        shown.highlight_regex(r"(?m)^(internal )?error(\[\w+\])?", "bold red")
        shown.highlight_regex(r"(?m)^warning\[\w+\]", "bold yellow")
        shown.highlight_regex(r"(?m)^(hint|note):", "bold cyan")
        self.err.print(shown, soft_wrap=True)

    def stop(self, failure: Failure) -> int:
        """Print a failure and keep it for the report; return its exit code."""
        if self.outcome is not None:
            self.outcome.errors += failure.errors
        self.say(failure.text)
        return failure.exit_code
