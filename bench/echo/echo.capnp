# The echo as an interface of Cap'n Proto.
@0xb6f1c0d53a7e9248;

interface Echo {
  exchange @0 (sent :Data, wanted :UInt32) -> (data :Data);
}
