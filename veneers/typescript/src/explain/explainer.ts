// Commands as lines of the text form, for people who ask what was recorded.
//
// A result is named by its place in its batch, as in `@2 := @1.fetch("eve")`, and variables of
// structures as `$x5`. Lines can be given to a server in the text form again; what that has no words
// for is in comments: handles given back, futures that are wanted, results of earlier batches
// (`@3^1` is the third of the last one). `crates/wire/src/text/explain.rs` writes the same lines.

import type { Items } from "../recorder/words.js";
import type { Plain } from "../recorder/failure.js";
import type { InterfaceJson, MethodJson, TypeJson } from "../recorder/mapping.js";
import type { Profile, ProfileEntry } from "../recorder/profile.js";
import { bigintOf, Incomplete, Malformed, Reader, realOf } from "../recorder/words.js";
import * as t from "../tables.js";
import { type Bare, type Command, readCommand } from "./commands.js";
import { costText } from "./costs.js";

/** The most bytes of a batch that are kept to be explained. */
export const EXPLAINED_BYTES = 65_536;

/** The begin of a batch, at most `EXPLAINED_BYTES` of it. */
export class Kept {
  private bytes = new Uint8Array(0);
  /** The number of bytes behind them. */
  private more = 0;

  /** Adds bytes of the batch. */
  keep(bytes: Uint8Array): this {
    const some = bytes.subarray(0, EXPLAINED_BYTES - this.bytes.length);
    const all = new Uint8Array(this.bytes.length + some.length);
    all.set(this.bytes);
    all.set(some, this.bytes.length);
    this.bytes = all;
    this.more += bytes.length - some.length;
    return this;
  }

  copy(): Kept {
    const copy = new Kept();
    copy.bytes = this.bytes;
    copy.more = this.more;
    return copy;
  }

  /** Returns its lines, and the number of bytes that are not kept; with a profile the costs, too. */
  explain(explainer: Explainer, profile: Profile | null = null): string {
    const [lines, left] = explainer.whole(this.bytes, profile?.entries);
    const more = left + this.more;
    const rest = profile?.rest;
    return (
      lines +
      (more > 0 ? `# ${more} more bytes, which are not kept\n` : "") +
      (rest ? `# ${rest.omitted} more: ${costText(rest)}\n` : "")
    );
  }
}

/** Returns a text in quotes, without characters that could move the cursor of a terminal. */
export function quoted(text: string, quote: string): string {
  const escaped: Record<string, string> = {
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\\": "\\\\",
    [quote]: `\\${quote}`,
  };
  const inner = Array.from(text, (c) => {
    const known = escaped[c];
    return known ?? (/\p{Cc}/u.test(c) ? `\\u{${(c.codePointAt(0) as number).toString(16)}}` : c);
  });
  return quote + inner.join("") + quote;
}

/** Returns a real as the text form reads it. */
export function realText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const size = Math.abs(value);
  if (size >= 1e16 || (size > 0 && size < 1e-4)) return value.toExponential().replace("e+", "e");
  const text = String(value);
  return text.includes(".") ? text : `${text}.0`;
}

/** The numbers of an interface, by which commands name types, methods and routines. */
export class Names {
  readonly routines: readonly MethodJson[];
  private readonly types: readonly TypeJson[];
  private readonly methods: MethodJson[] = [];

  constructor(of: InterfaceJson) {
    this.types = of.types;
    this.routines = of.routines;
    for (const type of of.types) this.methods.push(...(type.methods ?? []));
  }

  method(number: number): MethodJson | undefined {
    return this.methods[number];
  }

  type(number: number): TypeJson | undefined {
    return this.types[number];
  }
}

/** The number of results of a call, at least one. */
const count = ({ yields, results }: MethodJson): number => Math.max(1, (yields ?? results ?? []).length);

const OPENING = ["while", "if", "except", "procedure"];
const MIDDLE = ["do", "then", "else", "when", "others"];

/** Writes the commands of a batch as lines, indented by structures. */
export class Explainer {
  private readonly names: Names;
  /** The names of the session's procedures, by number. */
  private readonly procedures: string[];
  /** The results of the batch so far. */
  private futures: number;

  /** The number of results of the batch up to now. */
  get results(): number {
    return this.futures;
  }

  /** The results that are variables of structures. */
  private readonly variables = new Set<number>();
  /** The blocks that are open. */
  private depth = 0;
  /** True if the next call is that of a `foreach`. */
  private iterates = false;
  /** The entries of the batch's profile whose commands have not come yet. */
  private entries: readonly ProfileEntry[] = [];

  /** Begins a batch of a session that has defined these procedures; so many results came before. */
  constructor(names: Names, procedures: readonly string[], futures = 0) {
    this.names = names;
    this.procedures = [...procedures];
    this.futures = futures;
  }

  /** Returns the lines of whole commands. What is no command ends them with a comment. */
  lines(bytes: Uint8Array): string {
    const [lines, rest] = this.whole(bytes);
    return rest > 0 ? `${lines}# ${rest} bytes that are no whole command\n` : lines;
  }

  /**
   * Returns the lines of whole commands, and the number of bytes behind them. A line ends with the cost
   * of its command, if that has an entry.
   */
  whole(bytes: Uint8Array, entries: readonly ProfileEntry[] = []): [lines: string, rest: number] {
    this.entries = entries.filter(({ call }) => call > this.futures);
    const words = new Int32Array(2 * (bytes.length >> 3));
    new Uint8Array(words.buffer).set(bytes.subarray(0, 4 * words.length));
    let lines = "";
    let at = 0;
    try {
      while (at < words.length) {
        const reader = new Reader(words, at, words.length, at + t.FRAME_BYTES_MAX / 4);
        const command = readCommand(reader);
        at = reader.at;
        lines += this.command(command);
      }
    } catch (error) {
      if (!(error instanceof Incomplete || error instanceof Malformed)) throw error;
    }
    return [lines, bytes.length - 4 * at];
  }

  private command(command: Command | Bare): string {
    const name = typeof command === "string" ? command : (Object.keys(command)[0] as string);
    if (name === "foreach") {
      this.iterates = true;
      return "";
    }
    // Markers of blocks stand at the depth of their structure.
    const isMiddle = MIDDLE.includes(name);
    const begins = OPENING.includes(name) || this.iterates;
    const isOutermost = this.depth === 0;
    if (isMiddle || name.startsWith("end_")) this.depth = Math.max(0, this.depth - 1);
    const indent = "  ".repeat(this.depth);
    const first = this.futures + 1;
    const text = typeof command === "string" ? this.bare(command) : this.text(command);
    if (isMiddle || begins) this.depth += 1;
    const hasCost = isOutermost && (begins || this.futures >= first);
    return `${indent}${text}${hasCost ? this.cost(begins, first) : ""}\n`;
  }

  /** Returns the cost of a command or structure as a comment, if it has the next entry of the profile. */
  private cost(structure: boolean, call: number): string {
    const [entry, ...rest] = this.entries;
    if (entry?.structure !== structure || entry.call !== call) return "";
    this.entries = rest;
    return `  # ${costText(entry)}`;
  }

  private bare(command: Bare): string {
    if (command.startsWith("end_")) return "end";
    if (command === "clear_history") return "clear";
    return command === "commit" || command === "abort" ? this.made(1, command) : command;
  }

  private text(command: Command): string {
    const { names } = this;
    if ("hello" in command) return `hello ${command.hello.version} name ${quoted(command.hello.client, '"')}`;
    if ("call" in command) {
      const { method, receiver, args } = command.call;
      const found = names.method(method);
      if (!found) return this.made(1, `${this.reference(receiver)}.? # method ${method} is none`);
      return this.made(count(found), `${this.reference(receiver)}.${this.call(found.name, found, args)}`);
    }
    if ("send" in command) {
      const { method, receiver, args } = command.send;
      const found = names.method(method);
      this.futures += 1;
      return found
        ? `send ${this.reference(receiver)}.${this.call(found.name, found, args)}`
        : `# send of method ${method}, which is none`;
    }
    if ("call_routine" in command) {
      const { routine, args } = command.call_routine;
      const found = names.routines[routine];
      return found
        ? this.made(count(found), this.call(found.name, found, args))
        : this.made(1, `? # routine ${routine} is none`);
    }
    if ("call_procedure" in command) {
      const { procedure, args } = command.call_procedure;
      return this.made(1, this.call(this.procedures[procedure] ?? "?", undefined, args));
    }
    if ("lookup" in command) {
      const { name, expected } = command.lookup;
      const word = /^[A-Za-z]\w*$/.test(name) ? name : quoted(name, '"');
      return this.made(1, `lookup ${word}${expected === null ? "" : `: ${this.type(expected)}`}`);
    }
    if ("constant" in command) return this.made(1, this.constant(command.constant));
    if ("cell" in command) return this.made(1, `cell ${this.type(command.cell.element)}`);
    if ("rows" in command) return this.made(1, `rows ${this.listed(command.rows.columns)}`);
    if ("emit" in command) {
      const { rows, values } = command.emit;
      this.futures += 1;
      return `emit ${[this.reference(rows), ...values.map((value) => this.argument(value, -1))].join(", ")}`;
    }
    if ("as" in command) {
      return this.made(1, `${this.reference(command.as.object)} as ${this.type(command.as.type)}`);
    }
    if ("is" in command) {
      return this.made(1, `${this.reference(command.is.object)} is ${this.type(command.is.type)}`);
    }
    if ("get" in command) return this.made(1, `get ${this.reference(command.get.object)}`);
    return this.marker(command);
  }

  /** Returns the lines of the commands that make no values. */
  private marker(command: Command): string {
    if ("free" in command) {
      return `# gives back ${command.free.handles.map((handle) => this.reference(handle)).join(", ")}`;
    }
    if ("flush" in command) {
      const ranges = command.flush.wanted.map(([first, count]) =>
        count === 1 ? `@${first}` : `@${first} to @${first + count - 1}`,
      );
      this.futures = this.depth = 0;
      this.variables.clear();
      return ranges.length === 0 ? "flush" : `flush # wants ${ranges.join(", ")}`;
    }
    if ("transaction" in command) {
      const { tries, batch } = command.transaction;
      // The client's bits of the name are a secret.
      const named = batch ? ` # batch ${batch.number}` : "";
      return this.made(1, `transaction${tries === 0 ? "" : ` ${tries}`}${named}`);
    }
    if ("wait" in command) return this.made(1, `wait ${command.wait.ms}`);
    if ("profile" in command) return `profile ${command.profile.on ? "on" : "off"}`;
    if ("do" in command) return `do ${this.reference(command.do.test)}`;
    if ("then" in command) return `then ${this.reference(command.then.test)}`;
    if ("when" in command) return `when ${command.when.name}${this.typed(command.when.values)}`;
    if ("others" in command) return command.others.named ? `others ${this.variable()}` : "others";
    if ("procedure" in command) {
      const { name, params, result } = command.procedure;
      if (!this.procedures.includes(name)) this.procedures.push(name);
      return `procedure ${name}${this.typed(params)}${result === null ? "" : ` returns ${this.type(result)}`}`;
    }
    if (!("return" in command)) return "";
    return command.return === null ? "return" : `return ${this.argument(command.return, -1)}`;
  }

  private type(number: number): string {
    return this.names.type(number)?.name ?? "?";
  }

  private listed(types: readonly number[]): string {
    return types.map((type) => this.type(type)).join(", ");
  }

  /** Returns a line that makes so many results, or the head of a loop over them. */
  private made(count: number, text: string): string {
    if (this.iterates) {
      this.iterates = false;
      return `foreach ${Array.from({ length: count }, () => this.variable()).join(", ")} in ${text} do`;
    }
    return `${Array.from({ length: count }, () => `@${++this.futures}`).join(", ")} := ${text}`;
  }

  /** Names the next result as a variable. */
  private variable(): string {
    this.variables.add(++this.futures);
    return `$x${this.futures}`;
  }

  private typed(types: readonly number[]): string {
    const typed = types.map((type) => `${this.variable()}: ${this.type(type)}`);
    return typed.length === 0 ? "" : ` (${typed.join(", ")})`;
  }

  private call(name: string, heading: MethodJson | undefined, args: readonly Plain[]): string {
    return `${name}(${args.map((arg, at) => this.argument(arg, heading?.params?.[at]?.type ?? -1)).join(", ")})`;
  }

  private reference(reference: bigint): string {
    // It stands for a stub whose call was refused or has failed.
    if (reference === 0n) return "@0";
    if (reference > 0n) return `h${reference}`;
    const position = Number(-reference & 0xffffffffn);
    const back = -reference >> 32n;
    if (back > 0n) return `@${position}^${back}`;
    return this.variables.has(position) ? `$x${position}` : `@${position}`;
  }

  private constant(value: Plain): string {
    if (value.tag !== t.TAG_COMPOUND) return this.value(value);
    const type = (value.data as { readonly type: number }).type;
    return `value ${this.type(type)} ${this.compound(value.data as Typed, type)}`;
  }

  /** Returns an argument for a place of a type. */
  private argument(value: Plain, type: number): string {
    if (value.tag === t.TAG_REF) return this.reference(bigintOf(value.lo, value.hi));
    return value.tag === t.TAG_COMPOUND ? this.compound(value.data as Typed, type) : this.value(value);
  }

  private value({ tag, lo, hi, data }: Plain): string {
    switch (tag) {
      case t.TAG_BOOL:
        return String(lo !== 0);
      case t.TAG_INT:
        return String(bigintOf(lo, hi));
      case t.TAG_REAL:
        return realText(realOf(lo, hi));
      case t.TAG_CHAR:
        return quoted(String.fromCodePoint(lo), "'");
      case t.TAG_STRING:
        return quoted(data as string, '"');
      case t.TAG_BYTES:
        return `x"${Array.from(data as Uint8Array, (byte) => byte.toString(16).padStart(2, "0")).join("")}"`;
      default:
        return "nil";
    }
  }

  /** Returns a compound of its own type, or else of that of its place. */
  private compound(compound: Typed, place: number): string {
    const type = this.names.type(compound.type) ?? this.names.type(place);
    const items: Plain[] = [];
    compound.each((tag, lo, hi, data) => items.push({ tag, lo, hi, data }));
    const labelled = (at: number, item: Plain): string => {
      const field = type?.fields?.[at];
      return field ? `${field.name}: ${this.argument(item, field.type)}` : this.argument(item, -1);
    };
    const [first, second] = items;
    if (["oneof", "maybe"].includes(type?.kind ?? "") && items.length === 2 && first?.tag === t.TAG_INT && second) {
      return `{${labelled(Number(bigintOf(first.lo, first.hi)), second)}}`;
    }
    const isLabelled = ["record", "struct"].includes(type?.kind ?? "");
    const texts = items.map((item, at) => (isLabelled ? labelled(at, item) : this.argument(item, type?.element ?? -1)));
    return `{${texts.join(", ")}}`;
  }
}

/** A compound with the number of its type. */
interface Typed extends Items {
  readonly type: number;
}
