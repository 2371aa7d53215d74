// A true dual-port block RAM of 2048 bytes, as the ECP5's and the Gowin's cells are made of; a byte has BYTE bits (8, or 9 with parity).
//
// Each port is 1, 2, 4 bits, or 1, 2 or 4 bytes wide, and has its own clock. Addresses have 14 bits and count in eighths of a byte; of a port of 2 or 4 bytes
// the lowest address bits enable the bytes of a write. MODE: what a port shows after a write: 0 what it showed before, 1 the new word, 2 the old one.
// A reset clears the output, whether the port is enabled or not: at the clock, where with GUARD it also stops a write, or with ASYNC at once.
// A port that reads bits that the other one writes in the same step of time gets their complement: devices promise nothing there, and no netlist may
// depend on it.
// INIT: the bytes in order, in pairs that lie STRIDE bits apart.
module penstock_block_ram #(
    parameter integer BYTE = 9,
    parameter integer WIDTH_A = 18,
    parameter integer WIDTH_B = 18,
    parameter integer MODE_A = 0,
    parameter integer MODE_B = 0,
    parameter integer GUARD = 0,
    parameter integer ASYNC = 0,
    parameter integer STRIDE = 2 * BYTE,
    parameter [1024 * STRIDE - 1:0] INIT = 0
) (
    input clk_a, input en_a, input we_a, input rst_a, input [13:0] addr_a, input [4 * BYTE - 1:0] d_a, output reg [4 * BYTE - 1:0] q_a,
    input clk_b, input en_b, input we_b, input rst_b, input [13:0] addr_b, input [4 * BYTE - 1:0] d_b, output reg [4 * BYTE - 1:0] q_b
);
    localparam integer COUNT_A = WIDTH_A < BYTE ? 1 : WIDTH_A / BYTE;
    localparam integer COUNT_B = WIDTH_B < BYTE ? 1 : WIDTH_B / BYTE;
    localparam integer NARROW_A = WIDTH_A < BYTE ? WIDTH_A : 1;
    localparam integer NARROW_B = WIDTH_B < BYTE ? WIDTH_B : 1;
    localparam [BYTE - 1:0] PART_A = WIDTH_A < BYTE ? (1 << WIDTH_A) - 1 : ~0;
    localparam [BYTE - 1:0] PART_B = WIDTH_B < BYTE ? (1 << WIDTH_B) - 1 : ~0;

    generate
        if (WIDTH_A != 1 && WIDTH_A != 2 && WIDTH_A != 4 && WIDTH_A != BYTE && WIDTH_A != 2 * BYTE && WIDTH_A != 4 * BYTE)
            $error("a block RAM has no port of this width");
        if (WIDTH_B != 1 && WIDTH_B != 2 && WIDTH_B != 4 && WIDTH_B != BYTE && WIDTH_B != 2 * BYTE && WIDTH_B != 4 * BYTE)
            $error("a block RAM has no port of this width");
    endgenerate

    reg [BYTE - 1:0] mem [0:2047];
    integer i;
    initial begin
        for (i = 0; i < 2048; i = i + 1) mem[i] = INIT[(i >> 1) * STRIDE + (i & 1) * BYTE +: BYTE];
        q_a = 0;
        q_b = 0;
    end

    // first byte, first bit in it, bytes and bits that a write changes
    wire [10:0] byte_a = addr_a[13:3] & ~(COUNT_A - 1);
    wire [10:0] byte_b = addr_b[13:3] & ~(COUNT_B - 1);
    wire [2:0] bit_a = WIDTH_A < BYTE ? addr_a[2:0] & ~(WIDTH_A - 1) : 0;
    wire [2:0] bit_b = WIDTH_B < BYTE ? addr_b[2:0] & ~(WIDTH_B - 1) : 0;
    wire write_a = en_a && we_a && !(GUARD != 0 && ASYNC == 0 && rst_a);
    wire write_b = en_b && we_b && !(GUARD != 0 && ASYNC == 0 && rst_b);
    wire [3:0] bytes_a = !write_a ? 0 : COUNT_A == 1 ? 1 : addr_a[3:0] & ((1 << COUNT_A) - 1);
    wire [3:0] bytes_b = !write_b ? 0 : COUNT_B == 1 ? 1 : addr_b[3:0] & ((1 << COUNT_B) - 1);
    wire [BYTE - 1:0] bits_a = PART_A << bit_a;
    wire [BYTE - 1:0] bits_b = PART_B << bit_b;

    integer k;
    always @(posedge clk_a) begin
        for (k = 0; k < COUNT_A; k = k + 1)
            if (bytes_a[k])
                if (WIDTH_A < BYTE) mem[byte_a][bit_a +: NARROW_A] <= d_a[NARROW_A - 1:0];
                else mem[byte_a + k] <= d_a[k * BYTE +: BYTE];
    end
    wire clear_a = ASYNC != 0 && rst_a;
    always @(posedge clk_a, posedge clear_a) begin
        if (clear_a) q_a <= 0;
        else if (rst_a) q_a <= 0;
        else if (en_a && !(MODE_A == 0 && we_a))
            for (k = 0; k < COUNT_A; k = k + 1)
                q_a[k * BYTE +: BYTE] <= PART_A & (((mem[byte_a + k] ^ lost(byte_a + k, byte_b, COUNT_B, bytes_b, bits_b))
                    & ~(MODE_A == 1 && bytes_a[k] ? bits_a : {BYTE{1'b0}})) >> bit_a | (MODE_A == 1 && bytes_a[k] ? d_a[k * BYTE +: BYTE] : {BYTE{1'b0}}));
    end

    integer m;
    always @(posedge clk_b) begin
        for (m = 0; m < COUNT_B; m = m + 1)
            if (bytes_b[m])
                if (WIDTH_B < BYTE) mem[byte_b][bit_b +: NARROW_B] <= d_b[NARROW_B - 1:0];
                else mem[byte_b + m] <= d_b[m * BYTE +: BYTE];
    end
    wire clear_b = ASYNC != 0 && rst_b;
    always @(posedge clk_b, posedge clear_b) begin
        if (clear_b) q_b <= 0;
        else if (rst_b) q_b <= 0;
        else if (en_b && !(MODE_B == 0 && we_b))
            for (m = 0; m < COUNT_B; m = m + 1)
                q_b[m * BYTE +: BYTE] <= PART_B & (((mem[byte_b + m] ^ lost(byte_b + m, byte_a, COUNT_A, bytes_a, bits_a))
                    & ~(MODE_B == 1 && bytes_b[m] ? bits_b : {BYTE{1'b0}})) >> bit_b | (MODE_B == 1 && bytes_b[m] ? d_b[m * BYTE +: BYTE] : {BYTE{1'b0}}));
    end

    // the bits of a byte that the other port, `count` bytes from `first` on, changes
    function [BYTE - 1:0] lost(input [10:0] index, input [10:0] first, input integer count, input [3:0] bytes, input [BYTE - 1:0] bits);
        lost = index >= first && index < first + count && bytes[index - first] ? bits : 0;
    endfunction
endmodule

// The initial content of a block RAM: its parameters NAME00 to NAME3F, and their values as INIT above takes them.
`define PENSTOCK_ROW(NAME) NAME``0 = 0, NAME``1 = 0, NAME``2 = 0, NAME``3 = 0, NAME``4 = 0, NAME``5 = 0, NAME``6 = 0, NAME``7 = 0, \
    NAME``8 = 0, NAME``9 = 0, NAME``A = 0, NAME``B = 0, NAME``C = 0, NAME``D = 0, NAME``E = 0, NAME``F = 0
`define PENSTOCK_ROW_BACKWARDS(NAME) NAME``F, NAME``E, NAME``D, NAME``C, NAME``B, NAME``A, NAME``9, NAME``8, \
    NAME``7, NAME``6, NAME``5, NAME``4, NAME``3, NAME``2, NAME``1, NAME``0
`define PENSTOCK_PARAMETERS(NAME) `PENSTOCK_ROW(NAME``0), `PENSTOCK_ROW(NAME``1), `PENSTOCK_ROW(NAME``2), `PENSTOCK_ROW(NAME``3)
`define PENSTOCK_CONTENT(NAME) {`PENSTOCK_ROW_BACKWARDS(NAME``3), `PENSTOCK_ROW_BACKWARDS(NAME``2), \
    `PENSTOCK_ROW_BACKWARDS(NAME``1), `PENSTOCK_ROW_BACKWARDS(NAME``0)}
