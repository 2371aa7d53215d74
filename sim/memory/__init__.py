"""Memory in simulation: AXI ports of Amaranth's simulator (`axi`), and DRAM in C++ (`dram`)."""
