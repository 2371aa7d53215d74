"""Sweeps: many points of one kernel, computed by any process, and kept."""
