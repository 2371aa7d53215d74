"""Runs: backends, devices, what they cost, what went wrong."""
