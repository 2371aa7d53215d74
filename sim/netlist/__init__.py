"""Simulation of netlists: what synthesis made of a design, in the cells of its device."""

from .build import build
from .cells import FAMILIES, cell_models

__all__ = ["FAMILIES", "build", "cell_models"]
