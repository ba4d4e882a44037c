// The names of stubs that are made at run time: those that `bifrost veneer --lang typescript` gives
// (`crates/veneergen/src/naming.rs`, `typescript.rs`). A test compares them.

import type { InterfaceJson } from "../recorder/mapping.js";

const KEYWORDS =
  "arguments await break case catch class const continue debugger default delete do else enum eval export extends " +
  "false finally for function if implements import in instanceof interface let new null package private protected " +
  "public return static super switch this throw true try typeof var void while with yield";
const TAKEN = "as bf connect constructor is isSame release resolve session then toJSON toString valueOf";
const NO_NAMES = new Set(`${KEYWORDS} ${TAKEN}`.split(" "));

/** The levels of types in each other that are spelled out. */
export const NESTING_MAX = 64;

/** The types that are spelled out in one name: those in each other may be many, as they share parts. */
const PARTS_MAX = 1024;

/** Returns a name that is not taken, and takes it: `_` stands behind one that was. */
export function free(name: string, taken: Set<string>): string {
  while (taken.has(name)) name += "_";
  taken.add(name);
  return name;
}

/** Returns the name of a method, routine or field, in mixed case. */
export function lower(theta: string): string {
  const [first = "", ...words] = theta
    .replaceAll(".", "_")
    .replace(/^_+/, "")
    .split("_")
    .map((word) => word.replace(/[^\p{Alphabetic}\p{N}]/gu, ""));
  const name = first + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  const whole = /^\p{Alphabetic}/u.test(name) ? name : `_${name}`;
  return NO_NAMES.has(whole) ? `${whole}_` : whole;
}

/** Returns the name of a class, of words. */
export function upper(words: readonly string[]): string {
  const clean = words.map((word) => word.replace(/[^\p{Alphabetic}\p{N}]/gu, ""));
  const name = clean.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  const whole = /^\p{Alphabetic}/u.test(name) ? name : `T${name}`;
  return ["INTERFACE", "Uint8Array"].includes(whole) ? `${whole}_` : whole;
}

/** Spells a type in words: the program's own name for it, or `array of int` for `array[int]`. */
export function spelled(of: InterfaceJson, number: number, depth = 0, left = { parts: PARTS_MAX }): string {
  const type = of.types[number];
  if (!type) return "unknown";
  if (type.names?.[0] !== undefined) return type.names[0];
  const family = type.name.split("[")[0] as string;
  const part = (number: number): string => spelled(of, number, depth + 1, left);
  const fields = type.fields ?? [];
  if (depth >= NESTING_MAX || left.parts-- <= 0) return family;
  if (type.element !== undefined) return `${family} of ${part(type.element)}`;
  const [key, value] = fields;
  if (type.kind === "map" && key && value) return `map of ${part(key.type)} to ${part(value.type)}`;
  if (fields.length > 0) return `${family} of ${fields.map(({ name, type }) => `${name} ${part(type)}`).join(" and ")}`;
  return type.name.replaceAll("[", " of ").replaceAll(", ", " and ").replaceAll("]", "");
}

/** Returns the name of the class of each type; empty for types whose classes the runtime has. */
export function classNames(of: InterfaceJson, own: (number: number) => boolean): string[] {
  const taken = new Set<string>();
  return of.types.map((type, number) => {
    if (own(number)) return "";
    const words = spelled(of, number)
      .split(/[ _.]/)
      .filter((word) => word !== "");
    // The name of a struct or oneof is that of its contents, the name of a record that of its stub.
    if (type.kind === "struct" || type.kind === "oneof") {
      free(upper(words), taken);
      return free(upper([...words, "ref"]), taken);
    }
    const name = free(upper(words), taken);
    if (type.kind === "record") free(upper([...words, "value"]), taken);
    return name;
  });
}
