// The costs of profiles in words; `crates/wire/src/profile.rs` writes the same.

import type { Cost, Totals } from "../recorder/profile.js";

/** Returns a time in tenths of a microsecond, rounded. */
function timeText(nanoseconds: number): string {
  const tenths = Math.round(nanoseconds / 100);
  return `${Math.floor(tenths / 10)}.${tenths % 10} us`;
}

const fetchesText = ({ fetches, objects }: Pick<Cost, "fetches" | "objects">): string =>
  (fetches > 0 ? `, ${fetches} fetches` : "") + (objects > 0 ? `, ${objects} objects` : "");

/** Returns `61.0 us, 1 calls, fuel 1, 2 fetches, 9 objects`, without counts that are 0. */
export function costText(cost: Cost): string {
  const { nanoseconds, calls, fuel } = cost;
  const ran = (calls > 0 ? `, ${calls} calls` : "") + (fuel > 0 ? `, fuel ${fuel}` : "");
  return timeText(nanoseconds) + ran + fetchesText(cost);
}

/** Returns `84.2 us, 2 fetches, 9 objects, 3 runs`, without counts that are 0 and without one run. */
export const totalsText = (totals: Totals): string =>
  timeText(totals.nanoseconds) + fetchesText(totals) + (totals.runs > 1 ? `, ${totals.runs} runs` : "");
