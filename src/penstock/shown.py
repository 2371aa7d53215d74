"""What shows itself as a page in a notebook. The public face says how (`penstock.api`): what runs designs knows no reports."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["Shown"]


class Shown:
    """A design or a run."""

    def _repr_html_(self) -> str | None:
        if _page is None:  # as of an unpickled design
            import_module("penstock.api")
        return None if _page is None else _page(self)

    @staticmethod
    def by(page: Callable[[Any], str]) -> None:
        """Show all of them by this function."""
        global _page
        _page = page


_page: Callable[[Any], str] | None = None
