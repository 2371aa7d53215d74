"""The host link: UART and framing, or datagrams and sessions, and a bridge to the control and memory buses (twin: `models.link`)."""

from .bridge import Bridge
from .datagrams import DatagramReceiver, DatagramSender
from .filler import Filler
from .frames import Deframer, Framer
from .link import Link
from .mac import FrameReceiver, FrameSender
from .pusher import Pusher
from .responder import Responder
from .station import Composer, Ethernet, Reader
from .uart import UartReceiver, UartTransmitter

__all__ = [
    "Bridge",
    "Composer",
    "DatagramReceiver",
    "DatagramSender",
    "Deframer",
    "Ethernet",
    "Filler",
    "FrameReceiver",
    "FrameSender",
    "Framer",
    "Link",
    "Pusher",
    "Reader",
    "Responder",
    "UartReceiver",
    "UartTransmitter",
]
