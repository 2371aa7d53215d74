"""Oblivious maps in Python: `ObliviousMap` is a MutableMapping on any backend, here or over the network."""

from ...models.omap.errors import MapStopped
from .frames import MessageChanged
from .mapping import ObliviousMap

__all__ = ["MapStopped", "MessageChanged", "ObliviousMap"]
