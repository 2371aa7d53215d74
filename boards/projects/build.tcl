# vivado -mode batch -source build.tcl : makes {{ board.name }}/ and the bitstream. Not run by Penstock.
create_project {{ board.name }} {{ board.name }} -part {{ board.device.tool }} -force
add_files [list penstock.v top.v]
add_files -fileset constrs_1 board.xdc
{% include kind ~ '.tcl' %}
update_compile_order -fileset sources_1
launch_runs impl_1 -to_step write_bitstream -jobs 2
wait_on_run impl_1
open_run impl_1
report_utilization -file utilization.txt
report_timing_summary -file timing.txt
