"""A device behind its boundary, with the host's memory of pages: golden of `hdl.omap.engine`."""

from collections.abc import Sequence

from .boundary import Boundary, Frames, Ruling
from .config import OmapConfig
from .device import Device
from .messages import Keys, Response
from .sessions import Sessions, digest_of_map
from .vault import KeySchedule


class SessionDevice:
    """A device from its power-up on.

    * `root`, `entropy`: of the vault, 32 bytes each; `entropy` is fresh at each power-up.
    * `slots`: of the table of sessions.
    * `generation`: of the keys that clients know.
    """

    def __init__(
        self,
        config: OmapConfig,
        root: bytes,
        entropy: bytes,
        *,
        slots: int = 64,
        generation: int = 0,
    ) -> None:
        digest = digest_of_map(config)
        keys = KeySchedule(root, entropy, digest, generation)
        self.config, self.frames, self._keys = config, Frames.of(config), keys
        self.device = self._powered(config, keys.of_map)
        sessions = Sessions(keys, digest, config.value_bytes, slots, key_bytes=config.key_bytes)
        self._boundary = Boundary(self.frames, sessions, keys.incarnation)
        #: of the last operation
        self.serial = 0
        #: of the last snapshot; whether a keeper has confirmed the map
        self.snapshot_serial, self.confirmed = 0, False

    def run(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        """Return the answers' frames in order, and behind them that to `opening`, a frame that opens a
        session, if there is one. Raises `device.Stopped`."""
        if opening:
            serials = self.serial, self.snapshot_serial, self.confirmed
            self._boundary.open(opening, *serials)
        answers = self._answered(frames)
        return answers + ([self._boundary.collect()] if opening else [])

    @staticmethod
    def _powered(config: OmapConfig, keys: Keys) -> Device:
        """Return the map, without its boundary."""
        return Device(config, keys)

    def _answered(self, frames: Sequence[bytes]) -> list[bytes]:
        """Return the answers' frames. Raises `device.Stopped`."""
        return [self._answer(frame) for frame in frames]

    def _answer(self, frame: bytes) -> bytes:
        ruling = self._boundary.ask(frame)
        response = self.device.step(ruling.request).response
        self.serial += 1
        response = self._carried_out(ruling, response)
        return self._boundary.tell(ruling, response, self.serial)

    def _carried_out(self, ruling: Ruling, response: Response) -> Response:
        """Return what an operation is answered with."""
        return response
