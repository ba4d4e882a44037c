// Queries: comparisons with the properties of offers, and their preferred order.
//
// A trader reads the query and finds the offers. A client reads it for its mistakes, which it tells
// at once, and for the order. The form is that of `crates/trader/src/query.rs`:
//
//   query = [ part { "&" part } ],  part = name op value | "prefer=" order,  op = = != < <= > >= ^=

/** The most bytes of a query. */
export const QUERY_BYTES_MAX = 1024;

/** The most comparisons of a query. */
export const QUERY_TERMS_MAX = 16;

/** The most characters of a text that a message shows. */
const SHOWN_CHARS_MAX = 40;

/** The order of the offers of an answer, as the query has it; empty if it names none. */
export type Prefer = "" | "first" | "random" | "spread" | `min(${string})` | `max(${string})`;

/** The value of a property. */
export type Property = bigint | number | boolean | string;

/** Returns the beginning of a text for a message. */
export function shown(text: string): string {
  const chars = Array.from(text);
  return chars.length <= SHOWN_CHARS_MAX ? text : `${chars.slice(0, SHOWN_CHARS_MAX).join("")}...`;
}

/** Returns the number of bytes of a text. */
export const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

/** Reads the percent-escapes of a text. Returns the place of the first wrong one as a number. */
export function unescape(text: string): string | number {
  const wrong = text.search(/%(?![0-9a-f]{2})/i);
  if (wrong >= 0) return wrong;
  try {
    return decodeURIComponent(text);
  } catch {
    // Its bytes are no text.
    return text.indexOf("%");
  }
}

const INT = /^(0|-?[1-9]\d*)$/;
const REAL = /^-?(0|[1-9]\d*)\.\d+([eE][-+]?\d+)?$/;
const I64_MAX = 2n ** 63n - 1n;

/** Reads a value without escapes; undefined for a quote without its second one, or a number out of range. */
export function readValue(text: string): Property | undefined {
  if (text.startsWith("'")) return text.length > 1 && text.endsWith("'") ? text.slice(1, -1) : undefined;
  if (text === "true" || text === "false") return text === "true";
  if (INT.test(text)) {
    const int = BigInt(text);
    return int >= -I64_MAX - 1n && int <= I64_MAX ? int : undefined;
  }
  if (!REAL.test(text)) return text;
  return Number.isFinite(Number(text)) ? Number(text) : undefined;
}

/** The mistake of a part, without its place. */
type Mistake = { readonly why: string };

function readOrder(part: string, op: string, value: string): Prefer | Mistake {
  const order = /^(?:first|random|spread|(?:min|max)\([A-Za-z_][\w.-]*\))$/;
  if (op === "=" && order.test(value)) return value as Prefer;
  const why = "is no order; write `prefer=` and `first`, `random`, `spread`, `min(name)` or `max(name)`";
  return { why: `\`${shown(part)}\` ${why}` };
}

/** Reads a part without escapes; returns an order, nothing for a comparison, or the mistake. */
function readPart(part: string): Prefer | null | Mistake {
  const [, name, op, value] = /^([A-Za-z_][\w.-]*)(!=|<=|>=|\^=|=|<|>)?(.*)$/s.exec(part) ?? [];
  if (name === undefined || value === undefined) {
    return { why: `\`${shown(part)}\` does not begin with the name of a property; write \`name=value\`` };
  }
  if (op === undefined) {
    const remedy = "write one of `= != < <= > >= ^=` behind the name, and a value";
    return { why: `\`${shown(part)}\` compares with nothing; ${remedy}` };
  }
  if (name === "prefer") return readOrder(part, op, value);
  if (readValue(value) !== undefined) return null;
  return {
    why: value.startsWith("'")
      ? `\`${shown(value)}\` begins with a quote and does not end with one; write a quote on both sides`
      : `\`${shown(value)}\` is beyond the numbers of its type; write it in single quotes if it is a text`,
  };
}

/** Checks a query, and returns its order. Throws a `TypeError` with the place of a mistake. */
export function readQuery(text: string): Prefer {
  const wrong = (at: number, why: string): never => {
    throw new TypeError(`at byte ${at} of the query: ${why}`);
  };
  const bytes = bytesOf(text);
  if (bytes > QUERY_BYTES_MAX) {
    const limit = `\`trader.query_bytes_max\` is ${QUERY_BYTES_MAX}`;
    return wrong(0, `it has ${bytes} bytes, and ${limit}; compare fewer properties`);
  }
  let [prefer, terms, at]: [Prefer, number, number] = ["", 0, 0];
  for (const part of text === "" ? [] : text.split("&")) {
    const plain = unescape(part);
    if (typeof plain === "number") {
      const place = at + bytesOf(part.slice(0, plain));
      return wrong(place, "the `%` begins no escape of a text; write `%25` for the sign itself");
    }
    const read = readPart(plain);
    if (read === null) terms += 1;
    else if (typeof read !== "string") return wrong(at, read.why);
    else if (prefer) return wrong(at, "`prefer` is there twice; leave one out");
    else prefer = read;
    if (terms > QUERY_TERMS_MAX) {
      return wrong(at, `\`trader.query_terms_max\` allows ${QUERY_TERMS_MAX} comparisons; leave some out`);
    }
    at += bytesOf(part) + 1;
  }
  return prefer;
}
