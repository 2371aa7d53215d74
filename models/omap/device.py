"""A map with the host's memory: pages lie there as ciphertext, and are believed for their tags alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ..errors import ErrorCode, HardwareCode
from .config import OmapConfig
from .errors import MapError
from .golden import Map, Overflow, Step
from .messages import Keys, Request, open_request, seal_response
from .traffic import open_page, seal_pages

__all__ = ["Device", "Stopped"]


class Stopped(Exception):
    """The device has stopped, and answers no more."""

    def __init__(self, code: HardwareCode) -> None:
        super().__init__(code.meaning)
        self.code = code


class Device:
    """A device with its host. `keys`: None where none were written; `pages`: the host's memory, which
    others may change at any time."""

    keys: Keys
    map: Map

    def __init__(
        self, config: OmapConfig, keys: Keys | None, first: int = 0, pages: bytearray | None = None
    ) -> None:
        self.config, self._lacking = config, keys is None
        if keys is not None:
            self.keys, self.map = keys, Map(config, keys, first)
        size = config.host_bins * config.page_bytes
        self.pages = bytearray(size) if pages is None else pages
        self._stopped: MapError | None = None

    def serve(self, sealed: bytes) -> bytes:
        """Return the sealed response to a sealed request. Raises Stopped."""
        self._check()
        number = self.map.number
        request = open_request(self.config, self.keys.session, number, sealed)
        if request is None:
            self._stop(MapError.REQUEST_TAG)
        response = self.step(request).response
        return seal_response(self.config, self.keys.session, number, response)

    def step(self, request: Request) -> Step:
        """Carry out one request; return what happened once all its pages are verified. Raises
        Stopped."""
        return self.run([request])[0]

    def run(self, requests: Sequence[Request]) -> list[Step]:
        """Carry out requests one after another. Raises Stopped."""
        self._check()
        done: list[Step] = []
        for request in requests:
            try:
                step = self.map.step(request)
            except Overflow as problem:
                self._stop(problem.code)
            self._pages(step)
            done.append(step)
        return done

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

    def _check(self) -> None:
        if self._lacking:
            raise Stopped(ErrorCode.SETUP)
        if self._stopped is not None:
            raise Stopped(MapError.STOPPED)

    def _stop(self, code: MapError) -> NoReturn:
        self._stopped = code
        raise Stopped(code)
