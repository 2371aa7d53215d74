{#- The engine as an RTL module of a block design with XDMA and HBM, everything at the clock of XDMA. A memory port of the engine has a port of the
    HBM of its own, that of its channel where it has one for itself; the host has the next one, or shares one of all 32. -#}
{% macro net() %}
connect_bd_net{% for pin in varargs %} [get_bd_pins {{ pin }}]{% endfor %}

{% endmacro %}
{% macro join(a, b) %}
connect_bd_intf_net [get_bd_intf_pins {{ a }}] [get_bd_intf_pins {{ b }}]
{% endmacro %}
{% set used = banks + [host] %}
set_property board_part xilinx.com:au55c:part0:1.0 [current_project]
create_bd_design shell
create_bd_cell -type module -reference penstock engine
set_property CONFIG.ASSOCIATED_BUSIF {s_axil{% for q in range(ports) %}:m{{ q }}_axi{% endfor %}} [get_bd_pins engine/clk]
set_property CONFIG.POLARITY ACTIVE_HIGH [get_bd_pins engine/rst]
create_bd_cell -type ip -vlnv xilinx.com:ip:util_ds_buf pcie_buffer
set_property CONFIG.C_BUF_TYPE IBUFDSGTE [get_bd_cells pcie_buffer]
create_bd_cell -type ip -vlnv xilinx.com:ip:util_ds_buf memory_buffer
set_property CONFIG.C_BUF_TYPE IBUFDS [get_bd_cells memory_buffer]
create_bd_cell -type ip -vlnv xilinx.com:ip:xdma xdma
set_property -dict [list CONFIG.axilite_master_en {true} CONFIG.pl_link_cap_max_link_width {X16} CONFIG.pl_link_cap_max_link_speed {8.0_GT/s}   CONFIG.axi_data_width {512_bit} CONFIG.axisten_freq { {{- '%g' % board.clock_mhz -}} }] [get_bd_cells xdma]
create_bd_cell -type ip -vlnv xilinx.com:ip:hbm hbm
set_property -dict [list CONFIG.USER_HBM_DENSITY {16GB} CONFIG.USER_CLK_SEL_LIST0 {AXI_00_ACLK}
{%- if used|max > 15 %} CONFIG.USER_CLK_SEL_LIST1 {AXI_{{ used|max }}_ACLK}{% endif %}
{%- for q in range(32) %} CONFIG.USER_SAXI_{{ '%02d' % q }} { {{- (q in used)|lower -}} }{% endfor %}] [get_bd_cells hbm]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control
set_property -dict [list CONFIG.NUM_SI {1} CONFIG.NUM_MI {1}] [get_bd_cells control]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect host
set_property -dict [list CONFIG.NUM_SI { {{- 1 + (shared >= 0) -}} } CONFIG.NUM_MI {1}] [get_bd_cells host]
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset resets
create_bd_cell -type ip -vlnv xilinx.com:ip:util_vector_logic trip
set_property -dict [list CONFIG.C_OPERATION {or} CONFIG.C_SIZE {1}] [get_bd_cells trip]
{{ join('xdma/M_AXI_LITE', 'control/S00_AXI') }}
{{- join('control/M00_AXI', 'engine/s_axil') }}
{%- for q in range(ports) if q != shared %}
{{ join('engine/m%d_axi' % q, 'hbm/SAXI_%02d_8HI' % banks[q]) }}
{%- endfor %}
{{ join('xdma/M_AXI', 'host/S00_AXI') }}
{%- if shared >= 0 %}
{{ join('engine/m%d_axi' % shared, 'host/S01_AXI') }}
{%- endif %}
{{ join('host/M00_AXI', 'hbm/SAXI_%02d_8HI' % host) -}}
make_bd_intf_pins_external -name pcie [get_bd_intf_pins xdma/pcie_mgt]
make_bd_intf_pins_external -name pcie_clock [get_bd_intf_pins pcie_buffer/CLK_IN_D]
make_bd_intf_pins_external -name memory_clock [get_bd_intf_pins memory_buffer/CLK_IN_D]
make_bd_pins_external -name pcie_reset_n [get_bd_pins xdma/sys_rst_n]
make_bd_pins_external -name hbm_cattrip [get_bd_pins trip/Res]
{{ net('pcie_buffer/IBUF_OUT', 'xdma/sys_clk_gt') }}
{{- net('pcie_buffer/IBUF_DS_ODIV2', 'xdma/sys_clk') }}
{{- net('memory_buffer/IBUF_OUT', 'hbm/HBM_REF_CLK_0', 'hbm/HBM_REF_CLK_1', 'hbm/APB_0_PCLK', 'hbm/APB_1_PCLK') -}}
connect_bd_net [get_bd_pins xdma/axi_aclk] [get_bd_pins engine/clk] [get_bd_pins control/aclk] [get_bd_pins host/aclk] [get_bd_pins resets/slowest_sync_clk]
{%- for q in used|unique|sort %} [get_bd_pins hbm/AXI_{{ '%02d' % q }}_ACLK]{% endfor %}

{{ net('xdma/axi_aresetn', 'resets/ext_reset_in', 'hbm/APB_0_PRESET_N', 'hbm/APB_1_PRESET_N') }}
{{- net('resets/peripheral_reset', 'engine/rst') -}}
connect_bd_net [get_bd_pins resets/peripheral_aresetn] [get_bd_pins control/aresetn] [get_bd_pins host/aresetn]
{%- for q in used|unique|sort %} [get_bd_pins hbm/AXI_{{ '%02d' % q }}_ARESET_N]{% endfor %}

{{ net('hbm/DRAM_0_STAT_CATTRIP', 'trip/Op1') }}
{{- net('hbm/DRAM_1_STAT_CATTRIP', 'trip/Op2') -}}
assign_bd_address
validate_bd_design
make_wrapper -files [get_files shell.bd] -top -import
set_property top shell_wrapper [current_fileset]
