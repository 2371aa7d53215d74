"""The state-update unit in hardware, its banks and its command stream."""
