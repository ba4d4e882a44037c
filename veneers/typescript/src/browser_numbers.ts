// The package `bifrost-veneer/numbers` for browsers: the same, with ints that are numbers.

export * from "./browser.js";
export { Bytes, type Input, Int, Real, Str } from "./number_values.js";
