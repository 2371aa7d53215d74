// The look-up table of the iCE40 (Lattice FPGA-TN-02001 and the iCE Technology Library). Yosys has simulation models of all cells, in its
// share/ice40/cells_sim.v; its SB_LUT4 is as true, this one is several times quicker to compile.
module SB_LUT4(output O, input I0, I1, I2, I3);
    parameter [15:0] LUT_INIT = 0;
    assign O = LUT_INIT[{I3, I2, I1, I0}];
endmodule
