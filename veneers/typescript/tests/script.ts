// An interpreter of the scripts in `vectors/recorder/`: untyped operations of a recorder. The format
// is described in `vectors/recorder/README.md`.

import { Accounts } from "../src/explain/accounts.js";
import * as call from "../src/recorder/call.js";
import * as compounds from "../src/recorder/compounds.js";
import * as crossing from "../src/recorder/crossing.js";
import * as ends from "../src/recorder/ends.js";
import { Failure, misuse, type CallName, type Plain } from "../src/recorder/failure.js";
import { Greeting } from "../src/recorder/greeting.js";
import { type InterfaceJson, numbersBy, parseInterface } from "../src/recorder/mapping.js";
import type { Stubs } from "../src/recorder/numbers.js";
import * as procedure from "../src/recorder/procedure.js";
import { profile, profileDue } from "../src/recorder/profile.js";
import * as rec from "../src/recorder/recorder.js";
import * as rows from "../src/recorder/rows.js";
import * as seen from "../src/recorder/seen.js";
import * as slots from "../src/recorder/slots.js";
import { Slot } from "../src/recorder/slots.js";
import * as structures from "../src/recorder/structures.js";
import * as t from "../src/tables.js";
import * as transaction from "../src/recorder/transaction.js";
import { bigintOf, type Items, itemReaders } from "../src/recorder/words.js";
import { commands, hex, type Json, profileJson, value } from "./commands.js";
import { type Fields, flushed, interfaceReply, reply, valueOf, welcome } from "./encode.js";

itemReaders[t.TAG_ROWS] = rows.readRows;

/** A value that is an argument, as operands are untyped here. */
class Given {
  readonly plain: Plain;
  constructor(plain: Plain) {
    this.plain = plain;
  }
}

type Argument = Slot | Given | Failure | Argument[];

/** Writes any argument by what it is. */
const UNTYPED: call.Encoder = {
  put(r, value, argument) {
    const operand = value as Argument;
    if (operand instanceof Failure) throw operand;
    if (operand instanceof Slot) return call.putStub(r, operand, argument);
    if (operand instanceof Given) return call.putPlain(r.batch, operand.plain);
    return compounds.putItems(r, operand.length, (index) => UNTYPED.put(r, operand[index], argument));
  },
};

/** The number of a step; the place of its calls. */
class Step {
  readonly number: number;
  constructor(number: number) {
    this.number = number;
  }
  toString(): string {
    return `step ${this.number}`;
  }
}

/** The pieces in which replies come: of so many bytes, in two, or with one byte changed. */
export type Cut = { every: number } | { at: number } | { changed: number } | null;

/** The interface that the stubs of all scripts were made from. */
export class Client {
  readonly interface: InterfaceJson;
  readonly stubs: Stubs;
  private readonly types = new Map<string, number>();
  private readonly methods = new Map<string, number>();

  constructor(json: string, digest: string) {
    this.interface = parseInterface(json);
    let next = 0;
    this.interface.types.forEach((type, number) => {
      if (!this.types.has(type.name)) this.types.set(type.name, number);
      for (const method of type.methods ?? []) this.methods.set(`${type.name}.${method.name}`, next++);
    });
    this.interface.types.forEach((type, number) => {
      for (const name of type.names ?? []) if (!this.types.has(name)) this.types.set(name, number);
    });
    const operators = t.OPERATORS.map(([, kind, method]) => this.methods.get(`${kind}.${method}`) ?? t.NO_NUMBER);
    this.stubs = {
      digest,
      json: () => json,
      types: this.interface.types.map((type) => [type.name, ...(type.methods ?? []).map((m) => m.name)].join("|")),
      routines: this.interface.routines.map((routine) => routine.name),
      basic: [],
      builtin: [],
      operators,
    };
  }

  method(name: string): number {
    const number = this.methods.get(name);
    if (number === undefined) throw new Error(`there is no method ${name}`);
    return number;
  }

  operator(name: string): number {
    return this.stubs.operators[t.OPERATORS.findIndex(([known]) => known === name)] ?? t.NO_NUMBER;
  }

  type(name: string): number {
    const number = this.types.get(name);
    if (number === undefined) throw new Error(`there is no type ${name}`);
    return number;
  }

  routine(name: string): number {
    return this.interface.routines.findIndex((routine) => routine.name === name);
  }
}

/** The description of a server's interface: the client's with changes. */
function serverInterface(json: string, changes: Fields): string {
  const all = JSON.parse(json) as { types: { name: string; methods: { name: string; params?: Json[] }[] }[] };
  for (const [name, change] of Object.entries(changes)) {
    const [, type, method] = /^(.*)\.([^.]*)$/.exec(name) as unknown as [string, string, string];
    const { methods } = all.types.find((one) => one.name === type) as { methods: { name: string; params?: Json[] }[] };
    const at = methods.findIndex((one) => one.name === method);
    const [found] = methods.splice(at, 1) as [{ name: string; params?: Json[] }];
    if (change === "without parameters") delete found.params;
    else if (change !== "removed" && change !== "last") found.name = change as string;
    if (change === "last") methods.push(found);
    else if (change !== "removed") methods.splice(at, 0, found);
  }
  return JSON.stringify(all);
}

// Errors as JSON.

const callJson = ({ name, number, place, rounds }: CallName): Json => ({
  name,
  number,
  place: place instanceof Step ? place.number : null,
  rounds: [...rounds],
});

function alone(failure: Failure): Fields {
  const { kind, of } = failure;
  const named = of.call ? { call: callJson(of.call) } : {};
  switch (kind) {
    case "signal": {
      const values = (of.values ?? []).map((one) => (one.tag === t.TAG_REF ? "object" : value(one)));
      const json: Fields = { kind, name: of.name as string, values, ...named };
      const places = of.places ?? [];
      if (places.length > 0) {
        json["places"] = places.map(({ routine, file, line }) => ({ routine, file, line }));
        json["more_places"] = of.more as number;
      }
      return json;
    }
    case "unhandled":
      return { kind, argument: of.argument as number, ...named };
    case "refused":
      return { kind, number: of.number as number, text: of.text as string, ...named };
    case "not_reached":
    case "not_sent":
      return { kind, ...named };
    case "unseen": {
      const failures = (of.failures ?? []).map(errorJson);
      return { kind, failures, omitted: of.omitted as number, call: of.call ? callJson(of.call) : null };
    }
    case "misuse":
      return { kind, misuse: of.misuse as string };
    case "missing":
      return { kind, name: of.name as string };
    case "closed": {
      const { by, number, position, cause } = of.ending as NonNullable<typeof of.ending>;
      if (by === "server") {
        return { kind, by, number: number as number, position: position as number, text: cause as string };
      }
      return by === "bad_reply"
        ? { kind, by, error: t.ERROR_NAMES[number as keyof typeof t.ERROR_NAMES] }
        : { kind, by };
    }
  }
}

function errorJson(failure: Failure): Json {
  const out = alone(failure);
  const chain = failure.chain().slice(1);
  const root = chain.pop();
  if (root && failure.kind !== "unseen") {
    out["via"] = chain.map(alone);
    out["root"] = alone(root);
  }
  return out;
}

const OPERATIONS =
  "lookup call send operator routine call_procedure value cell rows emit read_rows get cast test_type drop clone open condition foreach jump end reopen abandon procedure return end_procedure find_procedure reply lose flush begin_flush finish_flush claim commit abort wait wait_ms is_same transaction_ends transaction end_transaction abandon_transaction exceptions clear_exceptions profile read_profile leave transmit ship".split(
    " ",
  );

/** The end of a name that has the number of its round in a loop. */
const NUMBERED = "_n";

/** Returns a step with the number of a round in its names. */
function numbered(json: Json, round: number): Json {
  if (typeof json === "string") {
    return json.startsWith("$") && json.endsWith(NUMBERED) ? `${json.slice(0, -1)}${round}` : json;
  }
  if (typeof json !== "object" || json === null) return json;
  if (Array.isArray(json)) return json.map((one) => numbered(one, round));
  return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, numbered(value, round)]));
}

/** A piece that a machine sends, or the answer that it gets; null is the end of the stream. */
export type Moved = { readonly sent: Uint8Array } | { readonly answered: Uint8Array | null };

const namesOf = (json: Json | undefined): string[] =>
  json === undefined ? [] : Array.isArray(json) ? (json as string[]) : [json as string];

/** Returns the bytes of pieces. */
function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

const CONNECTION = { by: "connection", text: "the stream ended" } as const;

/** A script that is being run. */
export class Machine {
  private readonly client: Client;
  private readonly r: rec.Recorder;
  /** Keeps the profile of the last batch. */
  private readonly accounts: Accounts;
  private readonly cut: Cut;
  private place = new Step(0);
  private readonly stubs = new Map<string, Slot>();
  /** The number of names of stubs that have had several. */
  private readonly holders = new Map<Slot, number>();
  private readonly ended = new Map<string, structures.Ended>();
  private readonly procedures = new Map<string, [number, Failure | null]>();
  private readonly replies: (Uint8Array | null)[] = [];
  /** Sends bytes to a server, and returns its answer. */
  private exchange: ((bytes: Uint8Array) => Uint8Array) | null = null;
  private answered = 0;
  /** True if the answers are those of a session that was. */
  private isReplay = false;
  /** True if its crossings are long: they are written down as bytes. */
  private isLong = false;
  private watch: (moved: Moved) => void = () => undefined;
  private shipped: [Failure[], Failure | null] | null = null;
  private sent: Uint8Array[] = [];
  private readonly wanted: number[] = [];
  private readonly crossings: Json[] = [];
  private readonly results: Json[] = [];

  constructor(client: Client, script: Fields, cut: Cut) {
    this.client = client;
    this.cut = cut;
    const settings = {
      remapFutures: (script["remap_futures"] ?? t.REMAP_FUTURES) as number,
      replyBytesMax: (script["reply_bytes_max"] ?? t.REPLY_BYTES_MAX) as number,
    };
    const limits = Object.entries((script["limits"] ?? {}) as Record<string, number>).map(([name, value]) => {
      const row = Object.entries(t.LIMIT_NAMES).find(([, known]) => known === name);
      if (!row) throw new Error(`there is no limit ${name}`);
      return [Number(row[0]), value] as [number, number];
    });
    const json = client.stubs.json() as string;
    const changes = script["server"] as Fields | undefined;
    const other = script["server_interface"] as string | undefined;
    const server = changes ? serverInterface(json, changes) : other;
    const greeting = new Greeting(client.stubs, "", "", settings);
    greeting.numbersBy = numbersBy(client.stubs, client.interface);
    let recorder = greeting.handleBytes(welcome(server ? "11".repeat(32) : client.stubs.digest, limits));
    if (server) recorder = greeting.handleBytes(interfaceReply(server));
    if (!recorder) throw new Error("the greeting is not over");
    this.r = recorder;
    this.accounts = new Accounts(recorder);
    recorder.watcher = this.accounts;
  }

  /** Has the answers of a case's crossings given, one after the other; null is the end of the stream. */
  answeredBy(answers: readonly (Uint8Array | null)[], isLong: boolean): this {
    this.replies.push(...answers);
    this.isReplay = true;
    this.isLong = isLong;
    return this;
  }

  /** Has a function called for all that moves between it and the server. */
  watchedBy(watch: (moved: Moved) => void): this {
    this.watch = watch;
    return this;
  }

  /** Has the answers of a server given, to which a function sends. */
  exchangedBy(exchange: (bytes: Uint8Array) => Uint8Array): this {
    this.exchange = exchange;
    return this;
  }

  /** Runs steps with a flush after each, where one is possible; returns the results of claims. */
  runEvaluated(steps: Json[]): [number, Json][] {
    const found: [number, Json][] = [];
    steps.forEach((step, index) => {
      this.place = new Step(index + 1);
      const result = this.step(step as Fields);
      if (result !== undefined) found.push([index + 1, result]);
      // A further block follows its structure directly.
      const next = steps[index + 1] as Fields | undefined;
      const outside = this.r.scopes.length === 0 && !this.r.shipping && !this.r.broken;
      // Nobody is told of failures.
      if (outside && next?.["reopen"] === undefined) this.flush();
    });
    return found;
  }

  run(steps: Json[]): Fields {
    steps.forEach((step, index) => {
      this.takeStep(index + 1, step as Fields);
    });
    return this.finish();
  }

  /** Runs the step with this number. */
  takeStep(number: number, step: Fields): void {
    this.place = new Step(number);
    if (step["loop"] === undefined) {
      this.note(this.step(step));
      return;
    }
    const steps = (step["steps"] as Json[]).map((inner) => {
      const isNumbered = JSON.stringify(numbered(inner, 0)) !== JSON.stringify(inner);
      return [inner as Fields, isNumbered] as const;
    });
    for (let round = 1; round <= (step["loop"] as number); round++) {
      for (const [inner, isNumbered] of steps) {
        this.note(this.step(isNumbered ? (numbered(inner, round) as Fields) : inner));
      }
    }
  }

  /** Notes the result of a step, if it has one. Equal ones of a loop are counted. */
  private note(result: Json | undefined): void {
    if (result === undefined) return;
    const last = this.results.at(-1) as Json[] | undefined;
    if (last?.[0] === this.place.number && JSON.stringify(last[1]) === JSON.stringify(result)) {
      last[2] = ((last[2] ?? 1) as number) + 1;
    } else this.results.push([this.place.number, result]);
  }

  /** Returns the outputs of the steps that were run. */
  finish(): Fields {
    if (this.replies.length > 0 && !this.isReplay && !(this.cut && "changed" in this.cut))
      throw new Error("replies that nobody asked for");
    if (this.sent.length > 0) this.cross(null);
    const known: Fields = {};
    for (const [name, slot] of this.stubs) known[name] = this.known(slot);
    const { crossings, calls } = this.r.counters;
    const closed = this.r.broken !== null;
    const omitted = this.r.historyOmitted;
    const history = rec.exceptions(this.r).map(({ batch, failure }) => ({ batch, error: errorJson(failure) }));
    return {
      crossings: this.crossings,
      results: this.results,
      known,
      history,
      history_omitted: omitted,
      counters: { crossings, calls },
      closed,
    };
  }

  // Bytes.

  private cross(answered: Uint8Array | null): void {
    this.watch({ answered });
    if (this.isLong) {
      this.crossings.push({ sent: this.sent, answered } as unknown as Json);
      this.sent = [];
      return;
    }
    const all = joined(this.sent);
    this.crossings.push({ sent: this.sent.map(hex), commands: commands(all), answered: answered && hex(answered) });
    this.sent = [];
  }

  private send(flushedOnly: boolean): void {
    for (;;) {
      const bytes = flushedOnly ? this.r.unsent : crossing.bytesToSend(this.r);
      if (bytes.length === 0) return;
      // Replies that are there already need not be made.
      for (const command of this.isReplay ? [] : commands(bytes)) {
        const flush = (command as Fields)["flush"] as { wanted: [number, number][] } | undefined;
        if (flush) this.wanted.push(flush.wanted.reduce((sum, [, count]) => sum + count, 0));
      }
      this.watch({ sent: bytes });
      this.sent.push(bytes);
      crossing.sent(this.r);
    }
  }

  private admit(): rec.Admission {
    if (rec.isReady(this.r)) return null;
    const work = rec.due(this.r);
    if (work instanceof Failure) return work;
    if (work === "send") this.send(false);
    return work === "flush" ? this.flush() : null;
  }

  private caught(run: () => void): Failure | null {
    try {
      run();
      return null;
    } catch (error) {
      if (error instanceof Failure) return error;
      throw error;
    }
  }

  private flush(): Failure | null {
    return this.caught(() => {
      crossing.beginFlush(this.r, false);
      this.answerAll();
    });
  }

  /** Ends a batch that is a transaction: its calls that were refused, and the failure of its end. */
  private ship(): [Failure[], Failure | null] {
    const refusals = transaction.endTransactionBatch(this.r);
    const begun = this.caught(() => {
      crossing.beginFlush(this.r, false);
    });
    return [refusals, begun];
  }

  private synchronize(name: string): void {
    crossing.beginFlushFor(this.r, name, false, this.place);
    this.answerAll();
  }

  private answerAll(): void {
    while (this.r.underWay.length > 0) this.answer();
  }

  private answer(): void {
    this.send(true);
    const wanted = this.wanted.shift() ?? 0;
    const queued = this.exchange ? this.exchange(joined(this.sent)) : this.replies.shift();
    if (queued === null) {
      this.cross(null);
      throw crossing.close(this.r, CONNECTION);
    }
    const bytes = (queued ?? flushed(Array.from({ length: wanted }, () => ({ nil: null })))).slice();
    const { cut } = this;
    if (cut && "changed" in cut) {
      const at = cut.changed - this.answered;
      if (at >= 0 && at < bytes.length) bytes[at] = (bytes[at] as number) ^ (1 << (cut.changed % 8));
    }
    this.answered += bytes.length;
    this.cross(bytes);
    const size = cut && "every" in cut ? cut.every : bytes.length;
    const pieces: Uint8Array[] = [];
    if (cut && "at" in cut) pieces.push(bytes.subarray(0, cut.at), bytes.subarray(cut.at));
    else for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
    if (crossing.handleBytes(this.r, new Uint8Array(0))) throw new Error("nothing has come");
    for (const piece of pieces) if (crossing.handleBytes(this.r, piece)) return;
    throw crossing.close(this.r, CONNECTION);
  }

  // Stubs.

  private slot(name: Json | undefined): Slot {
    const slot = this.stubs.get(name as string);
    if (!slot) throw new Error(`there is no stub ${String(name)} at ${this.place}`);
    return slot;
  }

  private name(name: string, slot: Slot): void {
    const old = this.stubs.get(name);
    this.stubs.set(name, slot);
    if (old) this.release(old);
  }

  /** Takes a name from a stub; the last one gives it back. */
  private release(slot: Slot): void {
    const holders = this.holders.get(slot) ?? 1;
    this.holders.set(slot, holders - 1);
    if (holders === 1) slots.release(this.r, slot);
  }

  private known(slot: Slot): Json {
    switch (slot.$tag) {
      case slots.FUTURE:
        return { future: slot.$lo };
      case slots.UNDER_WAY:
        return { under_way: slot.$hi };
      case slots.HANDLE:
        return { handle: Number(bigintOf(slot.$lo, slot.$hi)) };
      case slots.FAILED:
        return { failed: errorJson(slot.$data as Failure) };
      case t.TAG_ROWS:
        return { rows: (slot.$data as rows.Rows).count };
      case slots.FREE:
        return "free";
      default:
        return { value: value(call.plainOf(slot)) };
    }
  }

  private take(step: Fields, recorded: rec.Recorded): void {
    const names = namesOf(step["as"]);
    for (const name of names.length > 0 ? names : [null]) {
      const slot = new Slot();
      if (recorded instanceof Failure) slots.newFailed(this.r, slot, recorded);
      else slots.newResult(this.r, slot, recorded, this.place);
      if (name === null) slots.release(this.r, slot);
      else this.name(name, slot);
    }
  }

  private variables(step: Fields): void {
    for (const name of namesOf(step["as"])) this.name(name, structures.variable(this.r, new Slot(), this.place));
  }

  private argument(json: Json): Argument {
    if (typeof json === "string") return this.slot(json);
    const fields = json as Fields;
    if ("foreign" in fields) return misuse("OtherSession");
    if ("nested" in fields) {
      let nested: Argument = [];
      for (let depth = 1; depth < (fields["nested"] as number); depth++) nested = [nested];
      return nested;
    }
    if ("items" in fields) return (fields["items"] as Json[]).map((item) => this.argument(item));
    return new Given(valueOf(json));
  }

  private args(step: Fields): unknown[] {
    return ((step["args"] ?? []) as Json[]).flatMap((json) => [UNTYPED, this.argument(json)]);
  }

  private operand(json: Json | undefined): call.Operand {
    const argument = this.argument(json as Json);
    if (argument instanceof Given) return argument.plain;
    return Array.isArray(argument) ? { tag: t.TAG_COMPOUND, lo: 0, hi: 0, data: undefined } : argument;
  }

  // Steps.

  private step(step: Fields): Json | undefined {
    const { r, place, client } = this;
    const args = this.args(step);
    const ops = Object.keys(step).filter((key) => OPERATIONS.includes(key));
    if (ops.length !== 1) throw new Error(`${JSON.stringify(step)} has no operation, or several`);
    const op = ops[0] as string;
    const what = step[op] as Json;
    const text = what as string;
    switch (op) {
      case "lookup": {
        const type = step["type"] as string;
        this.take(step, call.lookup(r, this.admit(), client.stubs, text, client.type(type), type, place));
        return;
      }
      case "call":
      case "operator": {
        const method = op === "call" ? client.method(text) : client.operator(text);
        this.take(step, call.call(r, this.admit(), this.slot(step["on"]), method, args, place));
        return;
      }
      case "send":
        this.take(step, call.call(r, this.admit(), this.slot(step["on"]), client.method(text), args, place, t.OP_SEND));
        return;
      case "routine":
        this.take(step, call.callRoutine(r, this.admit(), client.stubs, client.routine(text), args, place));
        return;
      case "call_procedure": {
        const admitted = this.admit();
        const [number, refused] = this.procedures.get(text) as [number, Failure | null];
        this.take(step, procedure.callProcedure(r, admitted, number, refused, args, place));
        return;
      }
      case "value": {
        const slot = new Slot();
        slots.settleValue(r, slot, valueOf(what));
        this.name(step["as"] as string, slot);
        return;
      }
      case "cell":
        this.take(step, call.cell(r, this.admit(), client.type(text), text, place));
        return;
      case "rows": {
        const types = namesOf(what).map((name) => [client.type(name), name] as const);
        this.take(step, rows.rows(r, this.admit(), types, place));
        return;
      }
      case "emit":
        this.take(step, rows.emit(r, this.admit(), this.slot(what), args, place));
        return;
      case "get":
        this.take(step, compounds.get(r, this.admit(), this.slot(what), place));
        return;
      case "cast":
      case "test_type": {
        const code = op === "cast" ? t.OP_AS : t.OP_IS;
        this.take(step, call.withType(r, this.admit(), code, this.slot(step["on"]), client.type(text), text, place));
        return;
      }
      case "read_rows":
        return this.readRows(step, this.slot(what));
      case "drop":
        for (const name of namesOf(what)) {
          this.release(this.slot(name));
          this.stubs.delete(name);
        }
        return;
      case "clone": {
        const slot = this.slot(what);
        this.holders.set(slot, (this.holders.get(slot) ?? 1) + 1);
        this.name(step["as"] as string, slot);
        return;
      }
      case "reply":
        this.replies.push(reply(what));
        return;
      case "lose":
        if (!this.isReplay) this.replies.push(null);
        return;
      case "procedure":
      case "return":
      case "end_procedure":
      case "find_procedure":
        return this.procedure(step, op, what);
      case "wait":
        this.take(step, ends.wait(r, this.admit(), what as number, place));
        return;
      case "wait_ms":
        return crossing.waitMs(r);
      case "is_same": {
        const [one, other] = (what as string[]).map((name) => this.slot(name)) as [Slot, Slot];
        return slots.isSame(one, other);
      }
      case "transaction_ends":
        return r.ends;
      case "open":
      case "condition":
      case "foreach":
      case "jump":
      case "end":
      case "reopen":
      case "abandon":
        this.structure(step, op, what, args);
        return;
      default:
        return this.crossing(step, op, what);
    }
  }

  private readRows(step: Fields, slot: Slot): Json {
    const { r } = this;
    const objects: Slot[] = [];
    const item = (tag: number, lo: number, hi: number, data: unknown): Json => {
      if (tag === t.TAG_REF) return { object: objects.push(slots.newObject(r, new Slot(), lo, hi)) };
      if (tag === t.TAG_COMPOUND) return items(data as Items);
      return value({ tag, lo, hi, data });
    };
    const items = (of: Items): Json[] => {
      const all: Json[] = [];
      of.each((tag, lo, hi, data) => all.push(item(tag, lo, hi, data)));
      return all;
    };
    let read: Json = null;
    if (slot.$tag === t.TAG_COMPOUND) read = items(slot.$data as Items);
    if (slot.$tag === t.TAG_ROWS) {
      const table = slot.$data as rows.Rows;
      const cells = items(table);
      read = Array.from({ length: table.count }, (_, at) =>
        cells.slice(at * table.columns.length, (at + 1) * table.columns.length),
      );
    }
    const names = namesOf(step["as"]);
    objects.forEach((object, at) => {
      const name = names[at];
      if (name === undefined) slots.release(r, object);
      else this.name(name, object);
    });
    for (const name of names.slice(objects.length)) {
      const none = new Slot();
      slots.settle(r, none, t.TAG_NIL, 0, 0, undefined);
      this.name(name, none);
    }
    return read;
  }

  private structure(step: Fields, op: string, what: Json, args: unknown[]): void {
    const { r, place, client } = this;
    const text = what as string;
    switch (op) {
      case "open":
        structures.open(r, this.admit(), text as "while" | "if" | "except", place);
        break;
      case "condition":
        structures.condition(r, this.operand(what), place);
        break;
      case "foreach": {
        const admitted = this.admit();
        const on = step["on"];
        let iteration: structures.Iteration;
        if (on === undefined) iteration = { stubs: client.stubs, routine: client.routine(text) };
        else {
          const foreign = typeof on === "object";
          iteration = {
            receiver: foreign ? misuse("OtherSession") : this.slot(on),
            method: text.includes(".") ? client.method(text) : client.operator(text),
          };
        }
        this.take(step, structures.foreach(r, admitted, iteration, args, place));
        break;
      }
      case "jump":
        structures.jump(r, text as "break" | "continue", place);
        break;
      case "end": {
        const ended = structures.end(r);
        if (step["as"] !== undefined) this.ended.set(step["as"] as string, ended);
        break;
      }
      case "reopen": {
        const block: structures.Block =
          text === "else"
            ? { kind: "else" }
            : text === "when"
              ? {
                  kind: "when",
                  name: step["name"] as string,
                  values: namesOf(step["types"]).map((name) => client.type(name)),
                }
              : { kind: "others", named: step["as"] !== undefined };
        structures.reopen(r, this.ended.get(step["of"] as string) as structures.Ended, block, place);
        this.variables(step);
        break;
      }
      default:
        structures.abandon(r);
    }
  }

  private procedure(step: Fields, op: string, what: Json): Json | undefined {
    const { r, place, client } = this;
    const name = what as string;
    const heading = (): rec.Heading => ({
      params: namesOf(step["params"]).map((type) => client.type(type)),
      result: step["result"] === undefined ? -1 : client.type(step["result"] as string),
    });
    switch (op) {
      case "procedure": {
        const number = procedure.openProcedure(r, this.admit(), name, heading(), place);
        this.procedures.set(name, [number, null]);
        this.variables(step);
        return;
      }
      case "return": {
        const argument = what === null ? null : this.argument(what);
        const isStub = argument === null || argument instanceof Slot || argument instanceof Failure;
        procedure.return_(r, isStub ? argument : [UNTYPED, argument], place);
        return;
      }
      case "end_procedure": {
        const known = this.procedures.get(name) as [number, Failure | null];
        known[1] = procedure.closeProcedure(r);
        return;
      }
      default:
        return procedure.findProcedure(r, name, heading());
    }
  }

  private crossing(step: Fields, op: string, what: Json): Json | undefined {
    const { r, place } = this;
    const throwing = (failure: Failure | null): void => {
      if (failure) throw failure;
    };
    let run: () => void;
    switch (op) {
      case "flush":
        run = () => {
          this.synchronize("flush");
          throwing(seen.surface(r, true));
        };
        break;
      case "begin_flush":
        run = () => crossing.beginFlushFor(r, "flush", what === "kept", place);
        break;
      case "finish_flush":
        run = () => {
          this.answer();
          throwing(seen.surface(r, true));
        };
        break;
      case "claim": {
        const slot = this.slot(what);
        const failed = this.caught(() => {
          if (slot.$tag === slots.FUTURE) this.synchronize("claim");
          else if (slot.$tag === slots.UNDER_WAY) {
            const batch = slot.$hi;
            while (crossing.isUnanswered(r, batch)) this.answer();
          }
          throwing(claim(r, slot));
        });
        return failed ? { error: errorJson(failed) } : this.known(slot);
      }
      case "commit":
      case "abort": {
        let admitted = this.admit();
        if (op === "commit" && !admitted) {
          const work = ends.commitDue(r);
          if (work instanceof Failure) admitted = work;
          else if (work === "flush") admitted = this.flush();
        }
        this.take(step, ends[op](r, admitted, place));
        return;
      }
      case "transaction": {
        const { tries, batch } = what as { tries?: number; batch?: { client: string; number: number } };
        const name = batch ? { client: BigInt(`0x${batch.client}`), number: BigInt(batch.number) } : null;
        run = () => {
          this.synchronize("transaction");
          const slot = new Slot();
          transaction.beginTransaction(r, slot, tries ?? 0, name, place);
          this.name(step["as"] as string, slot);
        };
        break;
      }
      case "end_transaction": {
        // There is none if its begin was refused.
        const slot = this.stubs.get(what as string);
        if (!slot) return;
        const [refusals, begun] = this.shipped ?? this.ship();
        this.shipped = null;
        run = () => {
          throwing(begun);
          this.answerAll();
          throwing(transaction.finishTransaction(r, claim(r, slot), refusals, place));
        };
        break;
      }
      case "ship":
        this.shipped = this.ship();
        this.send(true);
        return;
      case "transmit":
        this.send(true);
        return;
      case "abandon_transaction":
        run = () => {
          transaction.abandonTransaction(r);
          const failed = this.flush();
          transaction.tellTransaction(r);
          throwing(failed);
        };
        break;
      case "exceptions":
        return rec.exceptions(r).map(({ failure }) => errorJson(failure));
      case "clear_exceptions":
        if (rec.clearExceptions(r, place)) rec.clearServer(r, this.admit());
        return;
      case "profile":
        run = () => {
          if (profileDue(r, what as boolean)) profile(r, this.admit(), what as boolean);
        };
        break;
      case "read_profile":
        return profileJson(this.accounts.profile);
      case "leave":
        if (crossing.leave(r)) {
          this.send(false);
          crossing.close(r, { by: "client", text: "the session was closed" });
        }
        return;
      default:
        throw new Error(`there is no step ${op}`);
    }
    const failed = this.caught(run);
    return failed ? { error: errorJson(failed) } : "ok";
  }
}

/** Claims a stub whose knowledge is there: tells its failure, or those that no other claim can tell. */
function claim(r: rec.Recorder, slot: Slot): Failure | null {
  if (slot.$tag !== slots.FAILED) return seen.surface(r, false);
  const failure = slot.$data as Failure;
  seen.tell(r, failure);
  return failure;
}
