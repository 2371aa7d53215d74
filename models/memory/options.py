"""The text of the option `--memory`."""

import re
from dataclasses import replace
from fractions import Fraction

from .dram.memory import Dram
from .dram.presets import PRESETS, preset
from .timing import FixedLatency, Memory

#: of a memory of fixed latency, as users write them
_KEYS = {"latency": "latency", "bytes": "bytes_per_cycle"}


def parse_memory(text: str, clock_mhz: float | None = None) -> Memory:
    """Read a memory option: `latency=20,bytes=8`, where what is left out keeps its default, or the name of a DRAM with its
    options, as in `hbm2,ratio=1/4,transit=10`.

    Without `ratio`, the ratio of clocks follows from the engine's `clock_mhz`; without that it is 1.

    Raises ValueError with a message for the user, on an unknown name, an unknown or repeated key, or a value
    out of range.
    """
    name, _, rest = (piece.strip() for piece in text.partition(","))
    if "=" in name or name in ("", *_KEYS):
        return _fixed(text)
    try:
        timing = preset(name)
    except KeyError:
        raise ValueError(f"there is no memory {name!r}; known are {', '.join(PRESETS)}") from None
    ratio = Fraction(1)
    if clock_mhz is not None:
        ratio = _near(Fraction(str(clock_mhz)) * 1_000_000 / timing.clock_hz)
    memory = Dram(timing, ratio)
    seen: set[str] = set()
    for part in rest.split(",") if rest else ():
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or key not in ("ratio", "transit"):
            raise ValueError(
                f"cannot read memory option {part.strip()!r} in {text!r}; "
                f"expected {timing.name},ratio=P/Q,transit=CYCLES"
            )
        if key in seen:
            raise ValueError(f"memory option {key!r} is given twice in {text!r}")
        seen.add(key)
        try:
            if key == "ratio":
                memory = replace(memory, ratio=_ratio(value))
            else:
                memory = replace(memory, transit=_whole(key, value))
        except ValueError as problem:
            example = "ratio=1/4" if key == "ratio" else "transit=10"
            raise ValueError(f"{problem}; as in {timing.name},{example}") from None
    return memory


def _near(ratio: Fraction) -> Fraction:
    """Return the ratio of two clocks, which are rarely odd, in numbers that `_ratio` reads."""
    return ratio.limit_denominator(9_999)


def _ratio(value: str) -> Fraction:
    match = re.fullmatch(r"([1-9]\d{0,5})(?:/([1-9]\d{0,5}))?", value, re.ASCII)
    if match is None:
        raise ValueError(f"memory ratio must be engine clock over DRAM clock as P/Q, not {value!r}")
    return Fraction(int(match[1]), int(match[2] or 1))


def _whole(key: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"memory {key} must be a whole number, not {value!r}")
    return int(value)


def _fixed(text: str) -> FixedLatency:
    values: dict[str, int] = {}
    for part in text.split(","):
        key, sign, number = (piece.strip() for piece in part.partition("="))
        if not sign or key not in _KEYS:
            raise ValueError(
                f"cannot read memory option {part.strip()!r} in {text!r}; "
                "expected latency=CYCLES,bytes=BYTES_PER_CYCLE"
            )
        if _KEYS[key] in values:
            raise ValueError(f"memory option {key!r} is given twice in {text!r}")
        values[_KEYS[key]] = _whole(key, number)
    return FixedLatency(**values)
