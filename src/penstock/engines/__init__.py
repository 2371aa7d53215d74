"""Engines: one package each. They are found, never named: those that lie here, and those that other
distributions offer as entry points of the group `penstock.engines` (each names an `Engine`)."""
