"""Simulation of netlists: what synthesis made of a design, in the cells of its device."""

from .cells import FAMILIES, cell_models
from .library import build

__all__ = ["FAMILIES", "build", "cell_models"]
