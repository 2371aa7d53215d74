"""Judges of a core's buses that know nothing of Penstock: `standard`, a memory and a monitor written from AXI4's text."""
