// Cells of the ECP5 that Yosys has no simulation model of, and look-up tables. Others are in its own share/lattice.
//
// Sources: Lattice FPGA-TN-02204, ECP5 and ECP5-5G Memory Usage Guide (DP16KD: port widths, byte enables on the lowest address bits, write modes, data of
// 36 bits on both ports); FPGA-TN-02205, sysDSP Usage Guide (MULT18X18D). Cell and parameter names as in Yosys's share/lattice/cells_bb_ecp5.v.

// The pins of a bus, from the highest to the lowest: one bit each, as the netlist names them.
`define PENSTOCK_14(BUS) BUS``13, BUS``12, BUS``11, BUS``10, BUS``9, BUS``8, BUS``7, BUS``6, BUS``5, BUS``4, BUS``3, BUS``2, BUS``1, BUS``0
`define PENSTOCK_18(BUS) BUS``17, BUS``16, BUS``15, BUS``14, `PENSTOCK_14(BUS)

// A block RAM of 18 Kb. Covered: widths 1 to 36, write modes, resets, inverted clocks, initial content.
// Not covered: output registers, chip selects.
module DP16KD (
    input `PENSTOCK_18(DIA), `PENSTOCK_14(ADA), CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    input `PENSTOCK_18(DIB), `PENSTOCK_14(ADB), CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output `PENSTOCK_18(DOA), `PENSTOCK_18(DOB)
);
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG", RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC";
    parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL", CLKAMUX = "CLKA", CLKBMUX = "CLKB";
    parameter GSR = "ENABLED", INIT_DATA = "STATIC", WID = 0;
    parameter [319:0] `PENSTOCK_PARAMETERS(INITVAL_);

    generate
        if (REGMODE_A != "NOREG" || REGMODE_B != "NOREG") $error("DP16KD: output registers are not covered");
        if (CSDECODE_A != "0b000" || CSDECODE_B != "0b000") $error("DP16KD: chip selects are not covered");
    endgenerate

    localparam integer MODE_A = WRITEMODE_A == "WRITETHROUGH" ? 1 : WRITEMODE_A == "READBEFOREWRITE" ? 2 : 0;
    localparam integer MODE_B = WRITEMODE_B == "WRITETHROUGH" ? 1 : WRITEMODE_B == "READBEFOREWRITE" ? 2 : 0;
    wire [35:0] q_a, q_b;
    wire [17:0] d_a = {`PENSTOCK_18(DIA)};
    wire [17:0] d_b = {`PENSTOCK_18(DIB)};
    // a word of 36 bits is written through both ports' data inputs, and read from both ports' outputs
    penstock_block_ram #(.BYTE(9), .WIDTH_A(DATA_WIDTH_A), .WIDTH_B(DATA_WIDTH_B), .MODE_A(MODE_A), .MODE_B(MODE_B), .GUARD(1),
            .ASYNC(RESETMODE == "ASYNC"), .STRIDE(20), .INIT(`PENSTOCK_CONTENT(INITVAL_))) ram (
        .clk_a(CLKAMUX == "INV" ? ~CLKA : CLKA), .en_a(CEA), .we_a(WEA), .rst_a(RSTA), .d_a({d_b, d_a}), .q_a(q_a), .addr_a({`PENSTOCK_14(ADA)}),
        .clk_b(CLKBMUX == "INV" ? ~CLKB : CLKB), .en_b(CEB), .we_b(WEB), .rst_b(RSTB), .d_b({18'b0, d_b}), .q_b(q_b), .addr_b({`PENSTOCK_14(ADB)})
    );
    assign {`PENSTOCK_18(DOA)} = DATA_WIDTH_B == 36 ? q_b[17:0] : q_a[17:0];
    assign {`PENSTOCK_18(DOB)} = DATA_WIDTH_B == 36 ? q_b[35:18] : q_b[17:0];
endmodule

// A multiplier of 18 by 18 bits. Covered: signed and unsigned operands, no registers, operands from the inputs.
// Not covered: registers, cascades.
module MULT18X18D (
    input `PENSTOCK_18(A), `PENSTOCK_18(B), `PENSTOCK_18(C),
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK3, CLK2, CLK1, CLK0, CE3, CE2, CE1, CE0, RST3, RST2, RST1, RST0,
    input `PENSTOCK_18(SRIA), `PENSTOCK_18(SRIB),
    output `PENSTOCK_18(SROA), `PENSTOCK_18(SROB), `PENSTOCK_18(ROA), `PENSTOCK_18(ROB), `PENSTOCK_18(ROC),
    output P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, `PENSTOCK_18(P), SIGNEDP
);
    parameter REG_INPUTA_CLK = "NONE", REG_INPUTA_CE = "CE0", REG_INPUTA_RST = "RST0", REG_INPUTB_CLK = "NONE", REG_INPUTB_CE = "CE0";
    parameter REG_INPUTB_RST = "RST0", REG_INPUTC_CLK = "NONE", REG_INPUTC_CE = "CE0", REG_INPUTC_RST = "RST0", REG_PIPELINE_CLK = "NONE";
    parameter REG_PIPELINE_CE = "CE0", REG_PIPELINE_RST = "RST0", REG_OUTPUT_CLK = "NONE", REG_OUTPUT_CE = "CE0", REG_OUTPUT_RST = "RST0";
    parameter CLK0_DIV = "ENABLED", CLK1_DIV = "ENABLED", CLK2_DIV = "ENABLED", CLK3_DIV = "ENABLED", HIGHSPEED_CLK = "NONE", GSR = "ENABLED";
    parameter CAS_MATCH_REG = "FALSE", SOURCEB_MODE = "B_SHIFT", MULT_BYPASS = "DISABLED", RESETMODE = "SYNC";

    generate
        if (REG_INPUTA_CLK != "NONE" || REG_INPUTB_CLK != "NONE" || REG_PIPELINE_CLK != "NONE" || REG_OUTPUT_CLK != "NONE" || MULT_BYPASS != "DISABLED")
            $error("MULT18X18D: registers and bypass are not covered");
    endgenerate

    wire signed [35:0] a = $signed({SIGNEDA & A17, `PENSTOCK_18(A)});
    wire signed [35:0] b = $signed({SIGNEDB & B17, `PENSTOCK_18(B)});
    assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, `PENSTOCK_18(P)} = a * b;
    assign SIGNEDP = SIGNEDA | SIGNEDB;
endmodule

// The look-up tables: Yosys's models are as true, these are several times quicker to compile.
module LUT4(output Z, input A, B, C, D);
    parameter [15:0] INIT = 0;
    assign Z = INIT[{D, C, B, A}];
endmodule

module LUT2(output Z, input A, B);
    parameter [3:0] INIT = 0;
    assign Z = INIT[{B, A}];
endmodule
