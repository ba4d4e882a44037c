// The part of the package that Node and browsers have in common.

export type { Connection, ConnectionOptions, Dial, Listener } from "./connection.js";
export type { SessionOptions, SignalType, Stubs } from "./core.js";
export { type Options, over } from "./connect.js";
export {
  BifrostError,
  ClosedError,
  ConnectError,
  MissingError,
  MisuseError,
  NotRunError,
  RefusedError,
  SignalError,
  UnseenError,
} from "./errors.js";
export { Any } from "./any.js";
export { Bytes, type BytesArg } from "./bytes.js";
export { Cell, cellOf } from "./cells.js";
export { Contents, Copied, Got, type Shape } from "./contents.js";
export { Directory } from "./directory.js";
export { findProcedure, Procedure, procedure } from "./procedures.js";
export { collect, Rows, rows } from "./rows.js";
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
export { Bool, Char, type ClaimOptions, Done, Int, Nil, NotClaimedError, Real, Str, Value } from "./values.js";
export type { BoolArg, CharArg, Input, IntArg, NilArg, RealArg, StrArg } from "./values.js";
