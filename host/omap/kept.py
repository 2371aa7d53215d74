"""A device whose map is kept in a folder, as what carries a server's frames."""

from collections.abc import Sequence
from contextlib import suppress

from ...models.errors import HardwareError
from ...models.omap.errors import MapError, MapStopped
from ...sim.machine import Closing
from .devices import KeptCarrier
from .restore import Damaged
from .state import MapState, StateError, damaged

#: steps of a snapshot's walk beside each request, and beside each call; in a call that no client waits for.
#: A walk is told in whole buckets
_BESIDE, _MORE = 2, 16
_STEPS = 256


class KeptMap(Closing):
    """Carries frames to a device whose map is in a folder: restored there, and kept up to date.

    Parameters: `device`: powered up, and unused; `state`: closed with it. Raises StateError for files that
    are not this device's, or damaged, MapStopped, OSError.
    """

    def __init__(self, device: KeptCarrier, state: MapState) -> None:
        self.config, self._device, self._state = device.config, device, state
        self._lost = False
        try:
            state.begin(*device.restore([state.content(path) for path in state.files]))
            if state.renewed:
                self._snapshot()
        except BaseException as problem:
            state.close()
            if isinstance(problem, Damaged):
                raise damaged(state.files[problem.file], problem.record, problem.why) from None
            raise

    def carry(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        """As `devices.DeviceCarrier`. Raises ServerFull before the device has seen the frames."""
        if self._lost:
            raise MapStopped(HardwareError(MapError.STOPPED))
        try:
            walk = self._buckets(_BESIDE * len(frames) + _MORE) if self._state.may_walk() else 0
            self._state.reserve(len(frames) + self._steps(walk))
            step = self._device.step(frames, opening, walk)
            self._state.keep(step)
        except OSError as problem:
            self._lost = True  # a file is gone, or the device is ahead of the disk
            raise MapStopped(HardwareError(MapError.STOPPED)) from problem
        return step.answers

    def _buckets(self, steps: int) -> int:
        return -(-steps // self.config.bucket_slots)

    def _steps(self, buckets: int) -> int:
        """Return the operations of so many buckets at most."""
        return buckets * self.config.bucket_slots + 1

    def _snapshot(self) -> None:
        """Walk to the end of a snapshot, where there is room for one: the snapshot that is under way may have been given up."""
        number, walks = self._state.number, 2
        while walks and number == self._state.number and self._state.may_walk(due=True):
            buckets = self._buckets(_STEPS)
            self._state.reserve(self._steps(buckets))
            step = self._device.step([], b"", buckets)
            self._state.keep(step)
            walks -= bool(step.fresh)

    def close(self) -> None:
        """Leave the device; without logs take a snapshot before. Raises StateError where there is none."""
        behind = self._state.behind
        try:
            if behind and not self._lost:
                with suppress(MapStopped, OSError):
                    self._snapshot()
            behind = self._state.behind
        finally:
            self._device.close()
            self._state.close()
        if behind:
            raise StateError(
                f"{self._state.folder}: the last snapshot could not be written; operations behind the one before are lost"
            )
