"""What stays open between two calls of a design."""

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

from penstock.models.errors import Error


class SessionError(Error):
    """What a session was asked for and does not do; it stays as it was."""


class Session(Protocol):
    """A design that keeps the states of requests on one machine: they join, take steps and leave, each on its own."""

    @property
    def cycles(self) -> int | None:
        """The hardware's or the model's since it is open; None on golden."""

    @property
    def counters(self) -> Mapping[str, int]: ...

    @property
    def errors(self) -> Mapping[str, Any]:
        """How far results were from exact ones, as `Run.details` says it."""

    def join(self) -> Any:
        """Seat a request; return what names it."""

    def step(self, given: Mapping[Any, Mapping[str, Any]]) -> Mapping[Any, np.ndarray]:
        """Take a step with some requests; return the result of each. Others keep what they have."""

    def snapshot(self, request: Any) -> bytes:
        """Return a request as bytes that any session of the same kernels takes."""

    def leave(self, request: Any) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
