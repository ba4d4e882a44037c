// Failures as text for people. Loaded with the first failure of a page.

import { nameOfCall } from "./errors.js";
import { errorName } from "./recorder/crossing.js";
import type { Failure, Misuse, Plain } from "./recorder/failure.js";
import { bigintOf, realOf } from "./recorder/words.js";
import * as t from "./tables.js";

/** Returns the text of a misuse. */
export function misuseText(misuse: Misuse): string {
  const [number] = Object.entries(t.MISUSE_NAMES).find(([, name]) => name === misuse) ?? [];
  return t.MISUSE_TEXTS[Number(number) as keyof typeof t.MISUSE_TEXTS];
}

/** Returns a value of an exception as text. */
function textOfValue({ tag, lo, hi, data }: Plain): string {
  switch (tag) {
    case t.TAG_NIL:
      return "nil";
    case t.TAG_BOOL:
      return String(lo !== 0);
    case t.TAG_INT:
      return String(bigintOf(lo, hi));
    case t.TAG_REAL:
      return String(realOf(lo, hi));
    case t.TAG_CHAR:
      return JSON.stringify(String.fromCodePoint(lo));
    case t.TAG_STRING:
      return JSON.stringify(data);
    case t.TAG_BYTES:
      return `${(data as Uint8Array).length} bytes`;
    default:
      return "an object";
  }
}

/** Returns a failure as text for people. */
export function textOf(failure: Failure): string {
  const { kind, of, cause } = failure;
  const call = nameOfCall(of.call);
  const because = cause ? `: ${textOf(cause)}` : "";
  switch (kind) {
    case "signal": {
      const values = (of.values ?? []).map(textOfValue).join(", ");
      return `${call} signalled ${of.name as string}${values && `(${values})`}`;
    }
    case "unhandled":
      return `${call} was not run because its ${of.argument ? `argument ${of.argument}` : "receiver"} failed${because}`;
    case "refused":
      return `${call} was refused: ${of.text as string} (${errorName(of.number as number)}, ${of.number as number})`;
    case "not_reached":
      return `${call} was not reached${because}`;
    case "not_sent":
      return `${call} was not sent${because}`;
    case "unseen": {
      const failures = of.failures ?? [];
      const count = failures.length + (of.omitted as number);
      const prevented = call && `${call} was refused, and the transaction is undone: `;
      const list = failures.map((one) => textOf(one)).join("; ");
      return `${prevented}${count === 1 ? "a failure was not seen" : `${count} failures were not seen`}${list && `: ${list}`}`;
    }
    case "misuse":
      return misuseText(of.misuse as Misuse);
    case "missing":
      return `the server has no ${of.name as string} with the heading of the stub`;
    case "closed":
      return of.ending?.text ?? "the session was closed";
  }
}
