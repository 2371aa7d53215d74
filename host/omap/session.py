"""The client's end of a session with a device: requests are sealed, responses opened."""

from __future__ import annotations

from collections.abc import Sequence

from ...models.errors import Error
from ...models.omap.config import OmapConfig
from ...models.omap.messages import Request, Response, open_response
from ...models.omap.traffic import seal_requests

__all__ = ["MessageChanged", "Session"]


class MessageChanged(Error):
    """A response is not the device's answer to its request: it was changed on its way, or belongs to
    another request. The request may have been carried out."""


class Session:
    """Seals each request with its own number, which is never used again, and opens responses.

    Parameters: `key`: the session's, of 128 bits, known to client and device alone; `first`: the
    number of the next request, 0 for a device that has had none.
    """

    def __init__(self, config: OmapConfig, key: int, first: int = 0) -> None:
        self.config, self.number, self._key = config, first, key

    def seal(self, requests: Sequence[Request]) -> list[bytes]:
        """Return sealed requests, numbered from `number` on, which moves behind them.
        Raises TypeError and ValueError for requests that have no bytes, before `number` moves."""
        if not requests:
            return []
        sealed = seal_requests(self.config, self._key, self.number, requests)
        # not before: requests that cannot be sealed use no numbers
        self.number += len(sealed)
        return sealed

    def open(self, number: int, sealed: bytes, request: Request | None) -> Response:
        """Return the response to the request of this number, which is compared if it is known. Raises
        MessageChanged."""
        response = open_response(self.config, self._key, number, sealed)
        if response is None or (request is not None and response.key != request.key):
            raise MessageChanged(
                f"the response to request {number} does not open: it was changed on its way, or "
                "answers another request"
            )
        return response
