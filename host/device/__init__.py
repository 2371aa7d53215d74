"""Drivers of devices."""
