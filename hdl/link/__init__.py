"""The host link: UART, framing, and a bridge to the control and memory buses (twin: `models.link`)."""

from .bridge import Bridge
from .frames import Deframer, Framer
from .link import Link
from .uart import UartReceiver, UartTransmitter

__all__ = ["Bridge", "Deframer", "Framer", "Link", "UartReceiver", "UartTransmitter"]
