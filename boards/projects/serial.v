// The device: differential or single-ended clock, clocking wizard, SoC.
module top ({% if pair %}input wire {{ clock }}_p, input wire {{ clock }}_n{% else %}input wire {{ clock }}{% endif %}, input wire uart_rx, output wire uart_tx);
  wire source, clk, locked;
{% if pair %}
  wire single;
  IBUFDS input_i (.I({{ clock }}_p), .IB({{ clock }}_n), .O(single));
  BUFG buffer_i (.I(single), .O(source));
{% else %}
  BUFG buffer_i (.I({{ clock }}), .O(source));
{% endif %}
  clock clock_i (.clk_in1(source), .clk_out1(clk), .locked(locked));
  reg [1:0] rx = 2'b11;
  reg [3:0] count = 0;
  always @(posedge clk) rx <= {rx[0], uart_rx};
  always @(posedge clk or negedge locked)
    if (!locked) count <= 0;
    else if (!(&count)) count <= count + 4'd1;
  penstock soc (.clk(clk), .rst(~(&count)), .rx(rx[1]), .tx(uart_tx));
endmodule
