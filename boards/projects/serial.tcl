create_ip -name clk_wiz -vendor xilinx.com -library ip -module_name clock
set_property -dict [list CONFIG.PRIM_IN_FREQ { {{- '%.3f' % board.pins.oscillator_mhz -}} } CONFIG.CLKOUT1_REQUESTED_OUT_FREQ { {{- '%.3f' % board.clock_mhz -}} } \
  CONFIG.PRIM_SOURCE {Global_buffer} CONFIG.USE_RESET {false} CONFIG.USE_LOCKED {true}] [get_ips clock]
generate_target all [get_ips clock]
set_property top top [current_fileset]
