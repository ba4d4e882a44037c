// The cases of `vectors/`: L1, every command and reply as bytes, and L2, the scripts of the recorder.

import commandVectors from "../../../vectors/commands.json" with { type: "json" };
import interfaceVectors from "../../../vectors/interface.json" with { type: "json" };
import malformedVectors from "../../../vectors/malformed.json" with { type: "json" };
import compounds from "../../../vectors/recorder/compounds.json" with { type: "json" };
import failures from "../../../vectors/recorder/failures.json" with { type: "json" };
import frees from "../../../vectors/recorder/frees.json" with { type: "json" };
import limits from "../../../vectors/recorder/limits.json" with { type: "json" };
import numbers from "../../../vectors/recorder/numbers.json" with { type: "json" };
import overlap from "../../../vectors/recorder/overlap.json" with { type: "json" };
import procedures from "../../../vectors/recorder/procedures.json" with { type: "json" };
import profiles from "../../../vectors/recorder/profiles.json" with { type: "json" };
import replies from "../../../vectors/recorder/replies.json" with { type: "json" };
import rows from "../../../vectors/recorder/rows.json" with { type: "json" };
import seen from "../../../vectors/recorder/seen.json" with { type: "json" };
import structures from "../../../vectors/recorder/structures.json" with { type: "json" };
import transactions from "../../../vectors/recorder/transactions.json" with { type: "json" };
import values from "../../../vectors/recorder/values.json" with { type: "json" };
import randomLines from "../../../vectors/random.jsonl";
import replyVectors from "../../../vectors/replies.json" with { type: "json" };
import { decodeReply } from "../src/recorder/reply.js";
import { commands, hex, type Json, Malformed, reply, unhex, wordsOf } from "./commands.js";
import { type Fields, reply as encodeReply } from "./encode.js";
import { Client, type Cut, Machine, type Moved } from "./script.js";

/** A case: its name, and the function that throws if it fails. */
export interface Case {
  readonly name: string;
  readonly run: () => void;
}

const OUTPUTS = ["crossings", "results", "known", "history", "history_omitted", "counters", "closed"];

/** The most bytes of a reply at which it is cut in two, and of a case's replies that are changed. */
const CUT_BYTES_MAX = 64;
const CHANGED_BYTES_MAX = 300;

/** Fails where two values are not equal as JSON. Keys may have any order. */
export function same(found: unknown, expected: unknown, path: string): void {
  if (Object.is(found, expected)) return;
  const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null;
  if (found instanceof Uint8Array && expected instanceof Uint8Array) {
    const differs = found.findIndex((byte, at) => byte !== expected[at]);
    if (found.length === expected.length && differs < 0) return;
    throw new Error(`${path} has ${found.length} bytes, not ${expected.length}, and differs at ${differs}`);
  }
  if (!isObject(found) || !isObject(expected)) {
    throw new Error(`${path} is ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`);
  }
  for (const key of new Set([...Object.keys(found), ...Object.keys(expected)])) {
    same(found[key], expected[key], `${path}.${key}`);
  }
}

const FILES = {
  compounds,
  failures,
  frees,
  limits,
  numbers,
  overlap,
  procedures,
  profiles,
  replies,
  rows,
  seen,
  structures,
  transactions,
  values,
} as unknown as Record<string, Fields[]>;

const digestOf = (): string => {
  const [hello] = commandVectors as unknown as [{ commands: [{ hello: { digest: string } }] }];
  return hello.commands[0].hello.digest;
};

/** Returns all cases. */
export function cases(): Case[] {
  const all: Case[] = [];
  const client = new Client(JSON.stringify(interfaceVectors), digestOf());
  for (const vector of commandVectors as unknown as { hex: string; commands: Json }[]) {
    all.push({
      name: `commands: ${vector.hex.slice(0, 40)}`,
      run: () => {
        same(commands(unhex(vector.hex)), vector.commands, "commands");
      },
    });
  }
  for (const vector of replyVectors as unknown as { hex: string; reply: Json }[]) {
    all.push({
      name: `replies: ${vector.hex.slice(0, 40)}`,
      run: () => {
        const bytes = unhex(vector.hex);
        const words = wordsOf(bytes);
        const [read, length] = decodeReply(words, words.length, 1 << 26);
        same(length, words.length, "length");
        same(reply(read), vector.reply, "reply");
        same(hex(encodeReply(vector.reply)), vector.hex, "bytes");
        // Half a reply is none.
        for (let end = 0; end < words.length; end += 2) {
          let error: unknown = null;
          try {
            decodeReply(words.slice(0, end), end, 1 << 26);
          } catch (thrown) {
            error = thrown;
          }
          if (error === null || error instanceof Malformed) throw new Error(`${end} words are not incomplete`);
        }
      },
    });
  }
  for (const vector of malformedVectors as { hex: string; error: string; offset: number; what: string }[]) {
    all.push({
      name: `malformed: ${vector.what}`,
      run: () => {
        let found: unknown = "a command";
        try {
          commands(unhex(vector.hex));
        } catch (error) {
          if (!(error instanceof Malformed)) throw error;
          found = [error.number, error.offset];
        }
        const numbers: Record<string, number> = { BadWord: 32, BadText: 33, FrameTooLong: 34 };
        same(found, [numbers[vector.error], vector.offset], vector.what);
      },
    });
  }
  all.push({
    name: "interface",
    run: () => {
      for (const command of commandVectors.flatMap((vector) => vector.commands as Json[])) {
        const { method, args } = ((command as Fields)["call"] ?? { args: [] }) as { method?: number; args: Json[] };
        if (method === undefined || args.length > 3) continue;
        if (client.stubs.types.length < 10 || client.method("DataBase.fetch") !== 121)
          throw new Error("numbers differ");
      }
    },
  });
  for (const [file, list] of Object.entries(FILES)) {
    for (const one of list) {
      const run = (cut: Cut): Fields => new Machine(client, one, cut).run(one["script"] as Json[]);
      all.push({
        name: `${file}: ${String(one["case"])}`,
        run: () => {
          const outputs = run(null);
          for (const name of OUTPUTS) same(outputs[name], one[name], name);
        },
      });
      all.push({
        name: `${file}: ${String(one["case"])}, cut and changed`,
        run: () => {
          const lengths = (one["crossings"] as { answered: string | null }[]).map(
            ({ answered }) => (answered ?? "").replaceAll(" ", "").length / 2,
          );
          const most = one["server"] ? 16 : CUT_BYTES_MAX;
          const cuts: Cut[] = [{ every: 1 }, { every: 5 }];
          for (let at = 0; at < Math.min(Math.max(0, ...lengths), most); at++) cuts.push({ at });
          for (const cut of cuts) {
            const outputs = run(cut);
            for (const name of OUTPUTS) same(outputs[name], one[name], `${JSON.stringify(cut)}: ${name}`);
          }
          if (one["server"]) return;
          const length = lengths.reduce((sum, bytes) => sum + bytes, 0);
          // No other error than those of sessions is thrown.
          for (let changed = 0; changed < Math.min(length, CHANGED_BYTES_MAX); changed += 3) run({ changed });
        },
      });
    }
  }
  for (const line of randomLines.split("\n").filter((text) => text !== "")) {
    const one = JSON.parse(line) as Fields;
    all.push({
      name: `random: ${String(one["case"])}`,
      run: () => {
        for (const cut of [null, { every: 7 }] as Cut[]) {
          const outputs = new Machine(client, one, cut).run(one["script"] as Json[]);
          // The file has only the bytes that were sent.
          outputs["crossings"] = (outputs["crossings"] as Fields[]).map(({ sent }) => ({ sent: sent as Json }));
          for (const name of OUTPUTS) same(outputs[name], one[name], name);
        }
      },
    });
  }
  return all;
}

/** A file of `cases/generated/`: its name and its text. */
export type CaseFile = readonly [name: string, text: string];

/** A case of `cases/generated/`, as its file has it. */
export interface Generated {
  readonly case: string;
  readonly program: string;
  readonly set?: readonly string[];
  readonly script: readonly Fields[];
  /** The outputs of each session by its name; of a single one they are those of the case. */
  readonly sessions?: Record<string, Fields>;
}

/** A piece or answer, with the name of its session. */
export type MovedIn = Moved & { readonly session: string };

/** Returns the bytes that the file of a case with a loop has in few words. */
function bytesOf(folded: Json): Uint8Array {
  if (typeof folded === "string") return unhex(folded);
  if (Array.isArray(folded)) return concat(folded.map(bytesOf));
  const { words, plus, times } = folded as { words: string; plus?: number[]; times: number };
  const block = unhex(words);
  const out = new Uint8Array(block.length * times);
  const view = new DataView(block.buffer, block.byteOffset, block.length);
  for (let round = 0; round < times; round++) {
    out.set(block, round * block.length);
    plus?.forEach((by, word) => {
      view.setBigUint64(word * 8, view.getBigUint64(word * 8, true) + BigInt(by), true);
    });
  }
  return out;
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Returns the crossings of a case with a loop, as bytes. */
function unfolded(crossings: readonly Fields[]): { sent: Uint8Array[]; answered: Uint8Array }[] {
  return crossings.flatMap(({ sent, answered, times }) => {
    const pieces = (sent as Json[]).flatMap((piece) => {
      const several = typeof piece === "object" && piece !== null && "sent" in piece;
      const bytes = bytesOf(several ? (piece["sent"] as Json) : piece);
      return Array.from({ length: several ? (piece["times"] as number) : 1 }, () => bytes);
    });
    const one = { sent: pieces, answered: bytesOf(answered as Json) };
    return Array.from({ length: (times ?? 1) as number }, () => one);
  });
}

/** Runs a case with the answers of its file, and compares all outputs. */
function replay(one: Generated, interfaces: Map<string, string>, cut: Cut, watch: (moved: MovedIn) => void): void {
  const fields = one as unknown as Fields;
  const client = new Client(interfaces.get(fields["interface"] as string) as string, "00".repeat(32));
  const other = fields["server_interface"];
  const script = { ...fields, ...(other ? { server_interface: interfaces.get(other as string) as string } : {}) };
  const isLong = hasLoops(one);
  const sessions = Object.entries(one.sessions ?? { "": fields }).map(([session, outputs]) => {
    const crossings = outputs["crossings"] as Fields[];
    const expected = { ...outputs, ...(isLong ? { crossings: unfolded(crossings) as unknown as Json } : {}) } as Fields;
    const answers = (expected["crossings"] as Fields[]).map(({ answered }) =>
      isLong ? (answered as unknown as Uint8Array) : answered === null ? null : unhex(answered as string),
    );
    const machine = new Machine(client, script, cut).answeredBy(answers, isLong).watchedBy((moved) => {
      watch({ ...moved, session });
    });
    return { session, machine, expected };
  });
  one.script.forEach((step, index) => {
    const taking = sessions.find(({ session }) => session === (step["session"] ?? ""));
    taking?.machine.takeStep(index + 1, step);
  });
  for (const { session, machine, expected } of sessions) {
    const outputs = machine.finish();
    for (const output of OUTPUTS) same(outputs[output], expected[output], `${session}.${output}`);
  }
}

/** True if steps of a case are repeated: its crossings are long. */
const hasLoops = (one: Generated): boolean => one.script.some((step) => step["loop"] !== undefined);

const ENDING = ".interface.json";

function read(files: readonly CaseFile[]): [Map<string, string>, readonly CaseFile[]] {
  const interfaces = files.filter(([name]) => name.endsWith(ENDING));
  return [
    new Map(interfaces.map(([name, text]) => [name.slice(0, -ENDING.length), text])),
    files.filter(([name]) => !name.endsWith(ENDING)),
  ];
}

/** Returns the cases of `cases/generated/`, with the answers that the files have. */
export function replays(files: readonly CaseFile[]): Case[] {
  const [interfaces, all] = read(files);
  return all.map(([name, text]) => ({
    name: `cases: ${name}`,
    run: () => {
      const one = JSON.parse(text) as Generated;
      const cuts: Cut[] = hasLoops(one) ? [null] : [null, { every: 7 }];
      for (const cut of cuts) replay(one, interfaces, cut, () => undefined);
    },
  }));
}

/** Returns the cases of `cases/generated/`, each with all that moves between its sessions and the server. */
export function moves(files: readonly CaseFile[]): { one: Generated; run: () => MovedIn[] }[] {
  const [interfaces, all] = read(files);
  return all.map(([, text]) => {
    const one = JSON.parse(text) as Generated;
    const run = (): MovedIn[] => {
      const moved: MovedIn[] = [];
      replay(one, interfaces, null, (next) => moved.push(next));
      return moved;
    };
    return { one, run };
  });
}
