# The interface of `capnp.cpp`: the part of cases/programs/conformance.theta that is measured.
@0xe2b7a5f0c4d19a36;

struct Row {
  number @0 :Int64;
  text @1 :Text;
}

interface Probe {
  nothing @0 ();
  sameInt @1 (number :Int64) -> (number :Int64);
  itself @2 () -> (probe :Probe);
  pairs @3 (limit :Int64) -> (rows :List(Row));
}
