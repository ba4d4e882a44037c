// The package `bifrost-veneer/numbers` for Node: the same, with ints that are numbers.

export * from "./index.js";
export { Bytes, type Input, Int, Real, Str } from "./number_values.js";
