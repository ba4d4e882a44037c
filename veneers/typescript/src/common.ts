// The part of the package that Node and browsers have in common.

export type { Connection, ConnectionOptions, Dial, Listener } from "./connection.js";
export type { SessionOptions, SignalType, Stubs } from "./core.js";
export { type Options, over } from "./connect.js";
export {
  BifrostError,
  ClosedError,
  MissingError,
  MisuseError,
  NotRunError,
  RefusedError,
  SignalError,
  UnseenError,
} from "./errors.js";
export { Any, Cell, cellOf, Contents, Copied, Directory, Got, Procedure, Rows, type Shape } from "./objects.js";
export type { BatchName } from "./recorder/transaction.js";
export type { Failure, FailurePlace, Misuse } from "./recorder/failure.js";
export type { CellNumbers } from "./recorder/numbers.js";
export {
  type Claimable,
  type Claimed,
  Except,
  If,
  type Recordable,
  Session,
  type TransactionOptions,
} from "./session.js";
export {
  type Arg,
  type Args,
  type Numbers,
  callOf,
  callsOf,
  Iter,
  iterOf,
  type Plain,
  type Plains,
  Remote,
  Stub,
  type Type,
  type Types,
} from "./stub.js";
export { Bool, Bytes, Char, type ClaimOptions, Done, Int, Nil, NotClaimedError, Real, Str, Value } from "./values.js";
export type { BoolArg, BytesArg, CharArg, Input, IntArg, NilArg, RealArg, StrArg } from "./values.js";
