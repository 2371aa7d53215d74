"""What can go wrong with a device."""

from __future__ import annotations

__all__ = ["DeviceError", "LinkError"]


class DeviceError(Exception):
    """The device refused something, or is not the one that was expected. Message and hint (what to do about it) are meant for the user."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint

    def __str__(self) -> str:
        return self.message


class LinkError(DeviceError):
    """The device cannot be reached: no such port, it was taken away, or it does not answer."""
