"""One driver for boards and for the same devices in simulation."""
