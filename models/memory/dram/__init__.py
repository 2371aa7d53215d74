"""DRAM, cycle by cycle: its parts, times, commands and rules, in plain Python.

A `Timing` is one DRAM at one speed (`PRESETS` by name); `constraints_of` is its table of what must be
kept between two commands; a `Checker` says the first legal cycle of the next command. A `Controller`
decides which command goes when, and `Dram` is what an engine's memory ports see of it.
"""
