"""Ciphers, hashes and key agreement in hardware. Specification: `models.crypto`."""
