"""The host link: UART and framing, or datagrams and sessions, and a bridge to the control and memory buses (twin: `models.link`)."""

from .bridge import Bridge
from .datagrams import DatagramReceiver, DatagramSender
from .frames import Deframer, Framer
from .link import Link
from .responder import Responder
from .uart import UartReceiver, UartTransmitter

__all__ = [
    "Bridge",
    "DatagramReceiver",
    "DatagramSender",
    "Deframer",
    "Framer",
    "Link",
    "Responder",
    "UartReceiver",
    "UartTransmitter",
]
