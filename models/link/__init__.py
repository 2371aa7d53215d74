"""The host link: frames, the golden device, and timing (contract C1: `hdl.link` equals these)."""

from .device import LINK_VERSION, Bus, Device, Identity
from .frames import (
    DROPPED,
    MAXIMUM,
    NACK,
    RING,
    FrameError,
    Parser,
    Request,
    Response,
    Space,
    Status,
    decode_request,
    decode_response,
)
from .timing import BYTE_BITS, SIMULATED_DIVISOR, divisor

__all__ = [
    "BYTE_BITS",
    "DROPPED",
    "LINK_VERSION",
    "MAXIMUM",
    "NACK",
    "RING",
    "SIMULATED_DIVISOR",
    "Bus",
    "Device",
    "FrameError",
    "Identity",
    "Parser",
    "Request",
    "Response",
    "Space",
    "Status",
    "decode_request",
    "decode_response",
    "divisor",
]
