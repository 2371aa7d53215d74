"""What can go wrong with a device."""

from __future__ import annotations

__all__ = ["DeviceError", "LinkError"]


class DeviceError(Exception):
    """The device refused something, or is not the one that was expected. The message is meant for the user."""


class LinkError(DeviceError):
    """The device cannot be reached: no such port, it was taken away, or it does not answer."""
