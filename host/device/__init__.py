"""One driver for boards and for the same devices in simulation."""

from .device import BAUD, Device, Report, simulated_device
from .errors import DeviceError, LinkError
from .machine import DeviceMachine

__all__ = [
    "BAUD",
    "Device",
    "DeviceError",
    "DeviceMachine",
    "LinkError",
    "Report",
    "simulated_device",
]
