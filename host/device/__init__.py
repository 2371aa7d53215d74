"""One driver for boards and for the same devices in simulation."""

from .device import Device, Report
from .driver import Driver
from .emulation import emulated, tapped
from .errors import DeviceError, LinkError, NotOver
from .machine import DeviceMachine
from .opening import serial_device, simulated_device
from .transport import Transport
from .uart import BAUD
from .udp import Udp
from .xdma import Xdma

__all__ = [
    "BAUD",
    "Device",
    "DeviceError",
    "DeviceMachine",
    "Driver",
    "LinkError",
    "NotOver",
    "Report",
    "Transport",
    "Udp",
    "Xdma",
    "emulated",
    "serial_device",
    "simulated_device",
    "tapped",
]
