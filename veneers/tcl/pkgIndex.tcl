package ifneeded bifrost 0.1.0 [list source -encoding utf-8 [file join $dir bifrost.tcl]]
