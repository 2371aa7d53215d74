"""What happens to data that a number format does not hold: one policy for every engine.

Each value of a table or a stream that is on its way into an engine's format is one of three:

* it *fits*: rounded, it is a number of the format;
* it *overflows*: rounded, it lies beyond the format's range. In a fixed format an infinity is an
  overflow too;
* it is *not a number*: NaN, and in a format that has infinities an infinity in the data, which
  fits but is no number to compute with.
"""

from dataclasses import dataclass
from enum import IntEnum

#: choices of the options, the default first
ON_OVERFLOW, ON_NAN = ("error", "saturate"), ("error", "skip", "pass")


class Unfit(IntEnum):
    """How a value fits in a format."""

    FITS = 0
    OVERFLOW = 1
    NAN = 2
    INDEX = 3  #: an integer that names nothing
    LEFT_INDEX = 4  #: the same, and its tuple is left out
    LEFT_UNSEEN = 5  #: a category that is not known, and its tuple is left out


@dataclass(frozen=True)
class InputPolicy:
    """What is done with values that do not fit.

    Raises ValueError: a choice that there is not.
    """

    #: "error": the run ends with an error that names the value. "saturate": the value becomes the
    #: end of the format's range (in a format that has infinities the infinity) and is counted.
    on_overflow: str = "error"
    #: "error": as above. "skip": the row is left out and counted, whatever else it holds. "pass":
    #: the value is computed with and counted, in formats that have it.
    on_nan: str = "error"

    def __post_init__(self) -> None:
        for name, choices in (("on_overflow", ON_OVERFLOW), ("on_nan", ON_NAN)):
            if getattr(self, name) not in choices:
                known = ", ".join(map(repr, choices))
                raise ValueError(f"{name} must be one of {known}, not {getattr(self, name)!r}")

    @property
    def saturates(self) -> bool:
        return self.on_overflow == "saturate"

    @property
    def skips(self) -> bool:
        return self.on_nan == "skip"

    @property
    def passes(self) -> bool:
        return self.on_nan == "pass"


#: the default
ERRORS = InputPolicy()
