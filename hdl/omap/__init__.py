"""The oblivious map in hardware. Specification: `models.omap`."""
