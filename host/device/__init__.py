"""One driver for boards and for the same devices in simulation."""

from .analytics import memory_needed, train
from .device import BAUD, Device, Report, open_device, simulated_device
from .errors import DeviceError, LinkError
from .qr import memory_for, refit
from .table_fit import TableFits

__all__ = ["BAUD", "Device", "DeviceError", "LinkError", "Report", "TableFits", "memory_for", "memory_needed", "open_device", "refit", "simulated_device",
           "train"]
