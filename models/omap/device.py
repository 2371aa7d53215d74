"""A map with the host's memory: pages lie there as ciphertext, and are believed for their tags alone."""

from collections.abc import Sequence
from typing import NoReturn

from ..errors import HardwareCode
from .config import OmapConfig
from .errors import MapError
from .golden import Map, Overflow, Step
from .messages import Keys, Request
from .traffic import open_page, seal_pages


class Stopped(Exception):
    """The device has stopped, and answers no more."""

    def __init__(self, code: HardwareCode) -> None:
        super().__init__(code.meaning)
        self.code = code


class Device:
    """A map with its host. `pages`: the host's memory, which others may change at any time."""

    def __init__(self, config: OmapConfig, keys: Keys, pages: bytearray | None = None) -> None:
        self.config, self.keys, self.map = config, keys, Map(config, keys)
        size = config.host_bins * config.page_bytes
        self.pages = bytearray(size) if pages is None else pages
        self._stopped = False

    def step(self, request: Request) -> Step:
        """Carry out one request; return what happened once all its pages are verified. Raises
        Stopped."""
        if self._stopped:
            raise Stopped(MapError.STOPPED)
        try:
            step = self.map.step(request)
        except Overflow as problem:
            self._stop(problem.code)
        self._pages(step)
        return step

    def run(self, requests: Sequence[Request]) -> list[Step]:
        """Carry out requests one after another. Raises Stopped."""
        return [self.step(request) for request in requests]

    def _pages(self, step: Step) -> None:
        config, size = self.config, self.config.page_bytes
        for opened in step.opened:
            at = opened.page * size
            sealed = bytes(self.pages[at : at + size])
            items = open_page(
                config, self.keys.page, opened.page, opened.counter, sealed, len(opened.before)
            )
            if items is None:
                self._stop(MapError.PAGE_TAG)
            assert items == opened.before
        new = [(opened.page, opened.counter + 1, opened.after) for opened in step.opened]
        for (page, _, _), text in zip(new, seal_pages(config, self.keys.page, new), strict=True):
            self.pages[page * size : (page + 1) * size] = text

    def _stop(self, code: MapError) -> NoReturn:
        self._stopped = True
        raise Stopped(code)
