// The part of `bifrost-veneer/service` that Node and browsers have in common.

export { type Imported, serverOf, type ServiceType } from "./dial.js";
export { type Attempt, ATTEMPTS_MAX, ImportError, LostError } from "./errors.js";
export type { ImportFailure, Ran } from "./importer.js";
export type { Offer } from "./offer.js";
export type { Property } from "./query.js";
export { RUNS_MAX } from "./service.js";
export { TRADERS_MAX } from "./search.js";
export { URL_BYTES_MAX } from "./url.js";
