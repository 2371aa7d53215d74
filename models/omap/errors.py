"""What stops an oblivious map. None of them says anything of the map's content."""

from ..errors import Error, ErrorCode, HardwareCode, HardwareError


class MapError(HardwareCode):
    """Errors of the engine. After one of them the map answers no more until the device is powered up again, empty."""

    PAGE_TAG = (
        200,
        "a page is not the one that was written last",
        "the host's memory was changed: power the device up again",
        "E850",
    )
    PAGE_FULL = (
        202,
        "more items fall to a page than it has room for",
        "make a new map, of a larger capacity",
        "E851",
    )
    BUCKET_FULL = (
        203,
        "a bucket of the position map is full",
        "make a new map, of a larger capacity",
        "E851",
    )
    FRAMES = 204, "HBM has no frame left", "make a new map, of a larger capacity", "E851"
    DEADLINE = (
        205,
        "HBM answered later than its stated worst case",
        "compile with the memory's true timing",
        "E852",
    )
    STOPPED = 206, "an earlier run did not come to its end", "power the device up again", "E850"


class MapStopped(Error):
    """The map has stopped, and answers no more. `error`: why."""

    def __init__(self, error: HardwareError) -> None:
        super().__init__(
            f"{error.code.meaning}; {error.code.hint}", error.code.hint, code=error.code.page
        )
        self.error = error


def error_of(code: int) -> HardwareError:
    """Return the error of a code, a map's own or one of all engines. Raises ValueError for a code
    that there is not."""
    return HardwareError(MapError(code) if code in set(MapError) else ErrorCode(code))
