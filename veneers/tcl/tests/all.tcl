# Runs all tests, each file in its own process, and prints the totals; fails if a test has failed.

package require tcltest 2.5
namespace import ::tcltest::*
configure -testdir [file dirname [file normalize [info script]]] -tmpdir [exec mktemp -d] \
    -verbose {body error skip} {*}$argv

# The counts of all files, before tcltest forgets them.
proc ::tcltest::cleanupTestsHook {} {
    array set ::totals [array get ::tcltest::numTests]
}
set failed [runAllTests]
file delete -force [temporaryDirectory]
if {$failed && !$totals(Failed)} {
    # A file that is no program.
    incr totals(Failed)
}
puts "$totals(Passed) passed, $totals(Failed) failed"
exit [expr {$totals(Failed) || $totals(Skipped) || !$totals(Passed)}]
