"""What can go wrong with a device."""

from ...models.errors import Error


class DeviceError(Error):
    """The device refused something, or is not the one that was expected."""

    code = "E831"
    hint = "the board must run the design of the same kernel, table and options (`penstock build`, `penstock program`)"


class LinkError(DeviceError):
    """The device cannot be reached: no such port, it was taken away, or it does not answer."""

    hint = "is the board connected and switched on, is this its port or address, and does it run a Penstock design (`penstock program`)?"


class NotOver(DeviceError, TimeoutError):
    """A run is not over after as long as it was waited for. It goes on."""

    hint = "wait again, with a longer limit, or stop the run"


class Unfit(DeviceError, ValueError):
    """A value that a register does not hold, or with which no run may start."""

    hint = "`register_map` of the device says how many bits each register has"
