// The program that packs the library, in a module of its own: its packages are no dependencies of the library.
module bifrost.dev/veneer/packaging

go 1.23

require golang.org/x/mod v0.22.0
