"""The cores of `models.omap.ciphers.CIPHERS`."""

from .aes import GaloisCounter
from .ascon import Sponge

__all__ = ["CORES"]

#: by cipher: a component of (blocks, rounds, opening) with `core.core_members`
CORES = {"ascon-aead128": Sponge, "aes128-gcm": GaloisCounter}
