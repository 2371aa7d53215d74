// The top is the wrapper of the block design that build.tcl makes; the engine is the module penstock in penstock.v.
