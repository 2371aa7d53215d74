"""The cocotb bench: independent AXI partners (cocotbext-axi) on the same top that the native harness runs.

`runner` is for the outside process; `bench` is imported inside the simulator.
"""
