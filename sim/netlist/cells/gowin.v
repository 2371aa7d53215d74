// Cells of Gowin's devices that Yosys has no simulation model of, and look-up tables. Others are in its own share/gowin/cells_sim.v.
//
// Sources: Gowin UG285, BSRAM & SSRAM User Guide (port widths, byte enables on the lowest address bits, read and write modes); UG287, DSP User Guide. Cell
// and parameter names as in Yosys's share/gowin/cells_xtra_gw1n.v.
//
// Covered of block RAMs: all widths, write modes, resets, block selection, initial content. Not covered: output registers (READ_MODE).
// Covered of multipliers: signed and unsigned operands. Not covered: registers, cascades.

// One port, bytes of 8 bits.
module SP (input CLK, CE, OCE, RESET, WRE, input [13:0] AD, input [2:0] BLKSEL, input [31:0] DI, output [31:0] DO);
    parameter READ_MODE = 0, WRITE_MODE = 0, BIT_WIDTH = 32;
    parameter [2:0] BLK_SEL = 0;
    parameter RESET_MODE = "SYNC";
    parameter [255:0] `PENSTOCK_PARAMETERS(INIT_RAM_);

    generate
        if (READ_MODE != 0) $error("SP: output registers are not covered");
    endgenerate

    penstock_block_ram #(.BYTE(8), .WIDTH_A(BIT_WIDTH), .WIDTH_B(8), .MODE_A(WRITE_MODE), .ASYNC(RESET_MODE == "ASYNC"),
            .INIT(`PENSTOCK_CONTENT(INIT_RAM_))) ram (
        .clk_a(CLK), .en_a(CE && BLKSEL == BLK_SEL), .we_a(WRE), .rst_a(RESET), .addr_a(AD), .d_a(DI), .q_a(DO),
        .clk_b(1'b0), .en_b(1'b0), .we_b(1'b0), .rst_b(1'b0), .addr_b(14'b0), .d_b(32'b0), .q_b()
    );
endmodule

// One port, bytes of 9 bits.
module SPX9 (input CLK, CE, OCE, RESET, WRE, input [13:0] AD, input [2:0] BLKSEL, input [35:0] DI, output [35:0] DO);
    parameter READ_MODE = 0, WRITE_MODE = 0, BIT_WIDTH = 36;
    parameter [2:0] BLK_SEL = 0;
    parameter RESET_MODE = "SYNC";
    parameter [287:0] `PENSTOCK_PARAMETERS(INIT_RAM_);

    generate
        if (READ_MODE != 0) $error("SPX9: output registers are not covered");
    endgenerate

    penstock_block_ram #(.BYTE(9), .WIDTH_A(BIT_WIDTH), .WIDTH_B(9), .MODE_A(WRITE_MODE), .ASYNC(RESET_MODE == "ASYNC"),
            .INIT(`PENSTOCK_CONTENT(INIT_RAM_))) ram (
        .clk_a(CLK), .en_a(CE && BLKSEL == BLK_SEL), .we_a(WRE), .rst_a(RESET), .addr_a(AD), .d_a(DI), .q_a(DO),
        .clk_b(1'b0), .en_b(1'b0), .we_b(1'b0), .rst_b(1'b0), .addr_b(14'b0), .d_b(36'b0), .q_b()
    );
endmodule

// A port that writes, and one that reads, bytes of 8 bits.
module SDPB (
    input CLKA, CEA, CLKB, CEB, OCE, RESETA, RESETB, input [13:0] ADA, ADB, input [2:0] BLKSELA, BLKSELB, input [31:0] DI, output [31:0] DO
);
    parameter READ_MODE = 0, BIT_WIDTH_0 = 32, BIT_WIDTH_1 = 32;
    parameter [2:0] BLK_SEL_0 = 0, BLK_SEL_1 = 0;
    parameter RESET_MODE = "SYNC";
    parameter [255:0] `PENSTOCK_PARAMETERS(INIT_RAM_);

    generate
        if (READ_MODE != 0) $error("SDPB: output registers are not covered");
    endgenerate

    penstock_block_ram #(.BYTE(8), .WIDTH_A(BIT_WIDTH_0), .WIDTH_B(BIT_WIDTH_1), .ASYNC(RESET_MODE == "ASYNC"),
            .INIT(`PENSTOCK_CONTENT(INIT_RAM_))) ram (
        .clk_a(CLKA), .en_a(CEA && BLKSELA == BLK_SEL_0), .we_a(1'b1), .rst_a(RESETA), .addr_a(ADA), .d_a(DI), .q_a(),
        .clk_b(CLKB), .en_b(CEB && BLKSELB == BLK_SEL_1), .we_b(1'b0), .rst_b(RESETB), .addr_b(ADB), .d_b(32'b0), .q_b(DO)
    );
endmodule

// A port that writes, and one that reads, bytes of 9 bits.
module SDPX9B (
    input CLKA, CEA, CLKB, CEB, OCE, RESETA, RESETB, input [13:0] ADA, ADB, input [2:0] BLKSELA, BLKSELB, input [35:0] DI, output [35:0] DO
);
    parameter READ_MODE = 0, BIT_WIDTH_0 = 36, BIT_WIDTH_1 = 36;
    parameter [2:0] BLK_SEL_0 = 0, BLK_SEL_1 = 0;
    parameter RESET_MODE = "SYNC";
    parameter [287:0] `PENSTOCK_PARAMETERS(INIT_RAM_);

    generate
        if (READ_MODE != 0) $error("SDPX9B: output registers are not covered");
    endgenerate

    penstock_block_ram #(.BYTE(9), .WIDTH_A(BIT_WIDTH_0), .WIDTH_B(BIT_WIDTH_1), .ASYNC(RESET_MODE == "ASYNC"),
            .INIT(`PENSTOCK_CONTENT(INIT_RAM_))) ram (
        .clk_a(CLKA), .en_a(CEA && BLKSELA == BLK_SEL_0), .we_a(1'b1), .rst_a(RESETA), .addr_a(ADA), .d_a(DI), .q_a(),
        .clk_b(CLKB), .en_b(CEB && BLKSELB == BLK_SEL_1), .we_b(1'b0), .rst_b(RESETB), .addr_b(ADB), .d_b(36'b0), .q_b(DO)
    );
endmodule

// Two ports that read and write, bytes of 8 bits.
module DPB (
    input CLKA, CEA, CLKB, CEB, OCEA, OCEB, RESETA, RESETB, WREA, WREB, input [13:0] ADA, ADB, input [2:0] BLKSELA, BLKSELB,
    input [15:0] DIA, DIB, output [15:0] DOA, DOB
);
    parameter READ_MODE0 = 0, READ_MODE1 = 0, WRITE_MODE0 = 0, WRITE_MODE1 = 0, BIT_WIDTH_0 = 16, BIT_WIDTH_1 = 16;
    parameter [2:0] BLK_SEL_0 = 0, BLK_SEL_1 = 0;
    parameter RESET_MODE = "SYNC";
    parameter [255:0] `PENSTOCK_PARAMETERS(INIT_RAM_);

    generate
        if (READ_MODE0 != 0 || READ_MODE1 != 0) $error("DPB: output registers are not covered");
    endgenerate

    wire [31:0] q_a, q_b;
    penstock_block_ram #(.BYTE(8), .WIDTH_A(BIT_WIDTH_0), .WIDTH_B(BIT_WIDTH_1), .MODE_A(WRITE_MODE0), .MODE_B(WRITE_MODE1), .ASYNC(RESET_MODE == "ASYNC"),
            .INIT(`PENSTOCK_CONTENT(INIT_RAM_))) ram (
        .clk_a(CLKA), .en_a(CEA && BLKSELA == BLK_SEL_0), .we_a(WREA), .rst_a(RESETA), .addr_a(ADA), .d_a({16'b0, DIA}), .q_a(q_a),
        .clk_b(CLKB), .en_b(CEB && BLKSELB == BLK_SEL_1), .we_b(WREB), .rst_b(RESETB), .addr_b(ADB), .d_b({16'b0, DIB}), .q_b(q_b)
    );
    assign DOA = q_a[15:0];
    assign DOB = q_b[15:0];
endmodule

// Two ports that read and write, bytes of 9 bits.
module DPX9B (
    input CLKA, CEA, CLKB, CEB, OCEA, OCEB, RESETA, RESETB, WREA, WREB, input [13:0] ADA, ADB, input [2:0] BLKSELA, BLKSELB,
    input [17:0] DIA, DIB, output [17:0] DOA, DOB
);
    parameter READ_MODE0 = 0, READ_MODE1 = 0, WRITE_MODE0 = 0, WRITE_MODE1 = 0, BIT_WIDTH_0 = 18, BIT_WIDTH_1 = 18;
    parameter [2:0] BLK_SEL_0 = 0, BLK_SEL_1 = 0;
    parameter RESET_MODE = "SYNC";
    parameter [287:0] `PENSTOCK_PARAMETERS(INIT_RAM_);

    generate
        if (READ_MODE0 != 0 || READ_MODE1 != 0) $error("DPX9B: output registers are not covered");
    endgenerate

    wire [35:0] q_a, q_b;
    penstock_block_ram #(.BYTE(9), .WIDTH_A(BIT_WIDTH_0), .WIDTH_B(BIT_WIDTH_1), .MODE_A(WRITE_MODE0), .MODE_B(WRITE_MODE1), .ASYNC(RESET_MODE == "ASYNC"),
            .INIT(`PENSTOCK_CONTENT(INIT_RAM_))) ram (
        .clk_a(CLKA), .en_a(CEA && BLKSELA == BLK_SEL_0), .we_a(WREA), .rst_a(RESETA), .addr_a(ADA), .d_a({18'b0, DIA}), .q_a(q_a),
        .clk_b(CLKB), .en_b(CEB && BLKSELB == BLK_SEL_1), .we_b(WREB), .rst_b(RESETB), .addr_b(ADB), .d_b({18'b0, DIB}), .q_b(q_b)
    );
    assign DOA = q_a[17:0];
    assign DOB = q_b[17:0];
endmodule

// A multiplier of 9 by 9 bits.
module MULT9X9 (
    input [8:0] A, SIA, B, SIB, input ASIGN, BSIGN, ASEL, BSEL, CE, CLK, RESET, output [17:0] DOUT, output [8:0] SOA, SOB
);
    parameter AREG = 0, BREG = 0, OUT_REG = 0, PIPE_REG = 0, ASIGN_REG = 0, BSIGN_REG = 0, SOA_REG = 0;
    parameter MULT_RESET_MODE = "SYNC";

    generate
        if (AREG != 0 || BREG != 0 || OUT_REG != 0 || PIPE_REG != 0 || ASIGN_REG != 0 || BSIGN_REG != 0 || SOA_REG != 0)
            $error("MULT9X9: registers are not covered");
    endgenerate

    wire signed [17:0] a = $signed({ASIGN & A[8], A});
    wire signed [17:0] b = $signed({BSIGN & B[8], B});
    assign DOUT = a * b;
endmodule

// A multiplier of 18 by 18 bits.
module MULT18X18 (
    input [17:0] A, SIA, B, SIB, input ASIGN, BSIGN, ASEL, BSEL, CE, CLK, RESET, output [35:0] DOUT, output [17:0] SOA, SOB
);
    parameter AREG = 0, BREG = 0, OUT_REG = 0, PIPE_REG = 0, ASIGN_REG = 0, BSIGN_REG = 0, SOA_REG = 0;
    parameter MULT_RESET_MODE = "SYNC";

    generate
        if (AREG != 0 || BREG != 0 || OUT_REG != 0 || PIPE_REG != 0 || ASIGN_REG != 0 || BSIGN_REG != 0 || SOA_REG != 0)
            $error("MULT18X18: registers are not covered");
    endgenerate

    wire signed [35:0] a = $signed({ASIGN & A[17], A});
    wire signed [35:0] b = $signed({BSIGN & B[17], B});
    assign DOUT = a * b;
endmodule

// A multiplier of 36 by 36 bits.
module MULT36X36 (
    input [35:0] A, B, input ASIGN, BSIGN, CE, CLK, RESET, output [71:0] DOUT
);
    parameter AREG = 0, BREG = 0, OUT0_REG = 0, OUT1_REG = 0, PIPE_REG = 0, ASIGN_REG = 0, BSIGN_REG = 0;
    parameter MULT_RESET_MODE = "SYNC";

    generate
        if (AREG != 0 || BREG != 0 || OUT0_REG != 0 || OUT1_REG != 0 || PIPE_REG != 0 || ASIGN_REG != 0 || BSIGN_REG != 0)
            $error("MULT36X36: registers are not covered");
    endgenerate

    wire signed [71:0] a = $signed({ASIGN & A[35], A});
    wire signed [71:0] b = $signed({BSIGN & B[35], B});
    assign DOUT = a * b;
endmodule

// The look-up tables: Yosys's models are as true, these are several times quicker to compile.
module LUT1(output F, input I0);
    parameter [1:0] INIT = 0;
    assign F = INIT[{I0}];
endmodule

module LUT2(output F, input I0, I1);
    parameter [3:0] INIT = 0;
    assign F = INIT[{I1, I0}];
endmodule

module LUT3(output F, input I0, I1, I2);
    parameter [7:0] INIT = 0;
    assign F = INIT[{I2, I1, I0}];
endmodule

module LUT4(output F, input I0, I1, I2, I3);
    parameter [15:0] INIT = 0;
    assign F = INIT[{I3, I2, I1, I0}];
endmodule
