"""Simulation of netlists: what synthesis made of a design, in the cells of its device, and what a bitstream makes of the device."""

from .cells import FAMILIES, cell_models
from .chip import device_top
from .library import build

__all__ = ["FAMILIES", "build", "cell_models", "device_top"]
