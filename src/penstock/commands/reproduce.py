"""`penstock reproduce`."""

import re
import warnings
from collections.abc import Iterable
from inspect import signature
from typing import Any

import click

from penstock.cli.commandline import Command, check_page
from penstock.cli.completion import papers as papers_called
from penstock.cli.state import State
from penstock.engines.options import Once
from penstock.models.plugins import absent, left_out
from penstock.report.parts import Chart, Facts, Grid, Part


@click.pass_obj
def _reproduce(
    state: State,
    paper: str | None,
    beside: str | None,
    report: str | None,
    plots: str | None,
    json: str | None,
) -> None:
    """Print a paper's tables and figures beside ours, with the ratio and the cause where they
    differ. Without PAPER, list the papers.

    --plots writes each figure as a picture, --report all as one page.
    """
    from penstock.output import as_json, check_file, check_folder, write_file, write_folder
    from penstock.report.terminal import show
    from penstock.runs.outcome import Outcome

    papers = _papers(state)
    if paper is None:
        for name, entry in papers.items():
            state.out.print(f"{name:12}needs: {entry}" if isinstance(entry, str) else name)
        return
    _check(papers, paper, beside)
    check_page(report, json)
    for path in (report, json):
        if path not in (None, "-"):
            check_file(path)
    parts = list(papers[paper](cpu=True) if beside else papers[paper]())
    names = _pictures(parts)
    if plots is not None:
        check_folder(plots, tuple(names))
    if json == "-":
        state.out = state.err
    show(state.out, parts)
    if plots is not None:
        from penstock.report.charts import picture

        write_folder(plots, {name: picture(chart) for name, chart in names.items()})
    if report is not None:
        from penstock.report.html import page

        write_file(report, page(Outcome("reproduce", paper), parts).encode())
    if json is not None:
        data = as_json({"paper": paper, "parts": [_data(part) for part in parts]})
        if json == "-":
            click.echo(data, nl=False)
        else:
            write_file(json, data)


def _check(papers: dict[str, Any], paper: str, beside: str | None) -> None:
    """Raise KernelError (E905) for a paper that is not there, or has no programs beside it."""
    from penstock.dsl.core.diagnostics import Span, error
    from penstock.dsl.core.hints import closest

    if paper not in papers:
        known = f"known are {', '.join(papers)}" if papers else "no engine has one yet"
        hint = (closest(paper.lower(), papers) or known) + absent()
        raise error("E905", f"no engine reproduces {paper!r}", Span.whole("PAPER"), hint=hint)
    if isinstance(papers[paper], str):
        what = f"{paper} is reproduced by a distribution of its own, which is not installed"
        raise error("E905", what, Span.whole("PAPER"), hint=papers[paper] + absent())
    if beside and "cpu" not in signature(papers[paper]).parameters:
        makers = {name: maker for name, maker in papers.items() if callable(maker)}
        has = [name for name, each in makers.items() if "cpu" in signature(each).parameters]
        hint = f"leave --beside out; {', '.join(has) or 'no paper'} has it"
        raise error("E905", f"{paper} has no programs beside it", Span.whole("--beside"), hint=hint)


def _papers(state: State) -> dict[str, Any]:
    """Return what `discovery.papers` does; name the reports that are left out."""
    from penstock.engines import discovery

    before = left_out()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        papers = discovery.papers()
    for left in left_out():
        if left not in before:
            state.say(f"warning: {left}; mend or uninstall its package")
    return papers


def _pictures(parts: Iterable[Part]) -> dict[str, Chart]:
    """Return the charts by the names of their files."""
    names: dict[str, Chart] = {}
    for part in parts:
        if isinstance(part, Chart):
            words = re.sub(r"[^a-z0-9]+", "-", part.title.lower()).strip("-")
            names[f"{words}.png"] = part
    return names


def _data(part: Part) -> dict[str, Any]:
    if isinstance(part, Facts):
        return {"title": part.title, "facts": {row.name: str(row.value) for row in part.rows}}
    if isinstance(part, Grid):
        columns = [column.name for column in part.columns]
        return {"title": part.title, "columns": columns, "rows": [list(row) for row in part.rows]}
    return {"title": part.title, "chart": part.kind, "data": part.data}


COMMANDS = (
    Command(
        "reproduce",
        _reproduce,
        [
            click.Argument(
                ("paper",), required=False, metavar="[PAPER]", shell_complete=papers_called
            ),
            Once(
                ("--beside",),
                type=click.Choice(["cpu"]),
                help="Run other programs for the same work on this computer.",
            ),
            Once(
                ("--report",),
                metavar="FILE.html",
                help="Write tables and figures as one page that needs no other file.",
            ),
            Once(
                ("--plots",), metavar="DIR", help="Write each figure as a PNG file into a folder."
            ),
            Once(("--json",), metavar="FILE", help="Write the tables as JSON to FILE."),
        ],
    ),
)
