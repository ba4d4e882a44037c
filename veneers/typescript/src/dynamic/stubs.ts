// Stubs at run time: classes that are made from the description of a server's interface.

import { Any } from "../any.js";
import { Bytes } from "../bytes.js";
import { cellOf } from "../cells.js";
import { Contents, Copied, type Shape } from "../contents.js";
import type { SignalType, Stubs } from "../core.js";
import { Directory } from "../directory.js";
import { SignalError } from "../errors.js";
import type { InterfaceJson, MethodJson, TypeJson } from "../recorder/mapping.js";
import type { CellNumbers } from "../recorder/numbers.js";
import type { Session } from "../session.js";
import { callOf, callsOf, iterOf, Remote, type Stub, type Type } from "../stub.js";
import * as t from "../tables.js";
import { Bool, Char, Done, Int, Nil, Real, Str } from "../values.js";
import { classNames, free, lower, NESTING_MAX, upper } from "./naming.js";

/** The classes of a server's types and exceptions, and the functions of its routines. */
export type DynamicNames = Readonly<Record<string, unknown>>;

/** The stubs of a server. */
export interface DynamicStubs extends Stubs {
  readonly names: DynamicNames;
  /** The class of each type. */
  readonly classes: readonly Type[];
}

const BASIC: readonly (readonly [kind: string, type: Type])[] = [
  ["null", Nil],
  ["bool", Bool],
  ["int", Int],
  ["real", Real],
  ["char", Char],
  ["string", Str],
];
const BUILTIN: readonly Type[] = [Any, Directory, Bytes];
const NO_CELL: CellNumbers = [t.NO_NUMBER, t.NO_NUMBER, t.NO_NUMBER, t.NO_NUMBER];
const KINDS: Readonly<Record<string, Shape["kind"]>> = {
  sequence: "elements",
  array: "elements",
  vector: "elements",
  list: "elements",
  map: "pairs",
  struct: "fields",
  record: "fields",
  oneof: "choice",
  maybe: "maybe",
};
/** The kinds of objects that cross by value. */
const COPIED = ["sequence", "struct", "oneof", "maybe"];

/** Makes the classes of an interface. */
class Builder {
  readonly names: Record<string, unknown> = {};
  readonly classes: Type[] = [];
  private readonly of: InterfaceJson;
  /** The numbers of the first methods of types. */
  private readonly firsts: number[] = [];
  private readonly cells = new Map<number, number>();
  private readonly builtins: readonly number[];

  constructor(of: InterfaceJson) {
    this.of = of;
    let next = 0;
    of.types.forEach(({ kind, element, methods }, number) => {
      this.firsts.push(next);
      next += methods?.length ?? 0;
      if (kind === "cell" && element !== undefined) this.cells.set(element, number);
    });
    this.builtins = t.BUILTIN_NAMES.map((name) => {
      const number = of.types.findIndex((type) => type.name === name);
      const headings = (of.types[number]?.methods ?? []).map((method) => this.heading(method));
      return headings.join("\n") === t.BUILTIN_METHODS[name].join("\n") ? number : -1;
    });
  }

  build(json: string, digest: string): DynamicStubs {
    const { of } = this;
    const basicOf = (kind: string): number => of.types.findIndex((type) => type.kind === kind);
    const basics = BASIC.map(([kind]) => basicOf(kind));
    if (basics.includes(-1)) throw new SyntaxError("the interface has no basic types");
    const own = (number: number): boolean =>
      basics.includes(number) || this.builtins.includes(number) || of.types[number]?.kind === "cell";
    const names = classNames(of, own);
    of.types.forEach((type, number) => {
      const basic = basics.indexOf(number);
      const builtin = this.builtins.indexOf(number);
      if (basic >= 0) this.classes[number] = (BASIC[basic] as (typeof BASIC)[number])[1];
      else if (builtin >= 0) this.classes[number] = BUILTIN[builtin] as Type;
      else if (type.kind !== "cell") this.classes[number] = this.makeClass(names[number] as string, number, type);
    });
    of.types.forEach(({ kind }, number) => kind === "cell" && this.makeCell(number));
    const stubs: DynamicStubs = {
      digest,
      json: () => json,
      types: of.types.map(({ name, methods }) => [name, ...(methods ?? []).map((method) => method.name)].join("|")),
      routines: of.routines.map(({ name }) => name),
      basic: basics.map((number) => [number, this.cell(number)] as const),
      builtin: this.builtins.map((number) =>
        number < 0
          ? ([t.NO_NUMBER, NO_CELL, t.NO_NUMBER] as const)
          : ([number, this.cell(number), this.firsts[number] as number] as const),
      ),
      operators: t.OPERATORS.map(([, kind, method]) => {
        const type = basicOf(kind);
        const at = (of.types[type]?.methods ?? []).findIndex(({ name }) => name === method);
        return at < 0 ? t.NO_NUMBER : (this.firsts[type] as number) + at;
      }),
      signals: () => signals,
      names: this.names,
      classes: this.classes,
    };
    const signals = this.makeSignals();
    this.makeRoutines(stubs);
    return stubs;
  }

  /** Returns a heading as Theta writes it. */
  private heading({ name, params, results, yields, signals }: MethodJson): string {
    const type = (number: number): string => this.of.types[number]?.name ?? "?";
    const list = (types: readonly number[]): string => types.map(type).join(", ");
    let text = `${name} (${(params ?? []).map((param) => `${param.name}: ${type(param.type)}`).join(", ")})`;
    if (yields) text += ` yields (${list(yields)})`;
    if (results && results.length > 0) text += ` returns (${list(results)})`;
    const raised = (signals ?? []).map((one) => `${one.name}${one.values?.length ? ` (${list(one.values)})` : ""}`);
    return raised.length > 0 ? `${text} signals (${raised.join(", ")})` : text;
  }

  private cell(element: number): CellNumbers {
    const number = this.cells.get(element);
    const methods = this.of.types[number ?? -1]?.methods ?? [];
    const method = (name: string): number => {
      const at = methods.findIndex((one) => one.name === name);
      return at < 0 ? t.NO_NUMBER : (this.firsts[number as number] as number) + at;
    };
    return number === undefined ? NO_CELL : [number, method("put"), method("full"), method("get")];
  }

  /** Makes the class of a cell, whose element may be a cell, too. */
  private makeCell(number: number, depth = 0): Type {
    const known = this.classes[number];
    if (known) return known;
    const element = this.of.types[number]?.element ?? -1;
    const isCell = this.of.types[element]?.kind === "cell" && depth < NESTING_MAX;
    const made = cellOf(isCell ? this.makeCell(element, depth + 1) : this.class(element)) as Type;
    this.classes[number] = made;
    return made;
  }

  private class(number: number): Type {
    return this.classes[number] ?? Any;
  }

  private makeClass(name: string, number: number, type: TypeJson): Type {
    const numbers = [number, this.cell(number)] as const;
    const shape = this.shape(type);
    const Base = shape ? (COPIED.includes(type.kind ?? "") ? Copied : Contents) : Remote;
    const made = class extends Base {
      static override readonly theta = type.name;
      static override readonly numbers = numbers;
      static readonly shape = shape;
    };
    Object.defineProperty(made, "name", { value: name });
    const taken = new Set<string>();
    if (type.actor) taken.add("send");
    if (shape) taken.add("get");
    const sends: Record<string, unknown> = {};
    (type.methods ?? []).forEach((method, at) => {
      const name = free(lower(method.name), taken);
      const number = (this.firsts[numbers[0]] as number) + at;
      Object.defineProperty(made.prototype, name, this.method(name, number, method));
      sends[name] = (stub: Stub, values: readonly unknown[]) => {
        stub.$send(number, ...this.pairs(method, values));
      };
    });
    if (type.actor) {
      Object.defineProperty(made.prototype, "send", {
        get(this: Stub) {
          const send = (name: string, one: unknown): readonly [string, unknown] => [
            name,
            (...values: unknown[]) => {
              (one as (stub: Stub, values: readonly unknown[]) => void)(this, values);
            },
          ];
          return Object.fromEntries(Object.entries(sends).map(([name, one]) => send(name, one)));
        },
      });
    }
    this.names[name] = made;
    return made;
  }

  private shape(type: TypeJson): Shape | undefined {
    const kind = KINDS[type.kind ?? ""];
    const fields = type.fields ?? [];
    const taken = new Set<string>();
    switch (kind) {
      case "elements": {
        const { element } = type;
        return element === undefined ? undefined : { kind, of: () => this.class(element) };
      }
      case "pairs": {
        const [key, value] = fields;
        return key && value && { kind, of: () => [this.class(key.type), this.class(value.type)] as const };
      }
      case "fields": {
        const names = fields.map(({ name }) => free(lower(name), taken));
        return {
          kind,
          of: () => Object.fromEntries(fields.map((field, at) => [names[at] as string, this.class(field.type)])),
        };
      }
      case "choice":
        return { kind, of: () => Object.fromEntries(fields.map((field) => [field.name, this.class(field.type)])) };
      case "maybe":
        return { kind, of: () => this.class(fields[1]?.type ?? -1) };
      default:
        return undefined;
    }
  }

  /** Returns the pairs of types and values of a call. */
  private pairs({ name, params = [] }: MethodJson, values: readonly unknown[]): unknown[] {
    if (values.length !== params.length) {
      throw new TypeError(`${name} has ${params.length} parameters, but got ${values.length} arguments`);
    }
    return params.flatMap((param, at) => [this.class(param.type), values[at]]);
  }

  private results({ yields, results }: MethodJson): Type[] {
    return (yields ?? results ?? []).map((number) => this.class(number));
  }

  private method(name: string, number: number, method: MethodJson): PropertyDescriptor {
    const record = (stub: Stub, values: readonly unknown[]): unknown => {
      const pairs = this.pairs(method, values);
      const types = this.results(method);
      if (method.yields) return stub.$iter(number, types, ...pairs);
      if (types.length > 1) return stub.$calls(number, types, ...pairs);
      return stub.$call(number, types[0] ?? (Done as Type), ...pairs);
    };
    const value = function (this: Stub, ...values: unknown[]): unknown {
      return record(this, values);
    };
    return this.described(name, method, value);
  }

  /** Gives a function its name, and its heading and comment as `theta`. */
  private described(name: string, method: MethodJson, value: object): PropertyDescriptor {
    const doc = method.doc ? `${method.doc}\n\n` : "";
    Object.defineProperties(value, {
      name: { value: name },
      theta: { value: doc + this.heading(method), enumerable: true },
    });
    return { value, configurable: true };
  }

  private makeRoutines(stubs: Stubs): void {
    const taken = new Set<string>();
    this.of.routines.forEach((routine, number) => {
      const types = this.results(routine);
      const call = (session: Session, ...values: unknown[]): unknown => {
        const pairs = this.pairs(routine, values);
        if (routine.yields) return iterOf(session, stubs, number, types, ...pairs);
        if (types.length > 1) return callsOf(session, stubs, number, types, ...pairs);
        return callOf(session, stubs, number, types[0] ?? (Done as Type), ...pairs);
      };
      const name = free(lower(routine.name), taken);
      this.described(name, routine, call);
      this.names[name] = call;
    });
  }

  private makeSignals(): SignalType[] {
    const headings = new Map<string, (readonly number[])[]>();
    const methods = [...this.of.types.flatMap((type) => type.methods ?? []), ...this.of.routines];
    for (const { name, values = [] } of methods.flatMap(({ signals }) => signals ?? [])) {
      const known = headings.get(name) ?? [];
      if (!known.some((one) => `${one}` === `${values}`)) known.push(values);
      headings.set(name, known);
    }
    const signals: SignalType[] = [];
    for (const theta of [...headings.keys()].sort()) {
      const all = headings.get(theta) as (readonly number[])[];
      const types = (): (readonly Type[])[] => all.map((values) => values.map((number) => this.class(number)));
      const withValues = all.filter((values) => values.length > 0);
      const handled = all.length === 1 ? all[0] : withValues.length === 1 ? withValues[0] : [];
      const classOf = (number: number): Type => this.class(number);
      const made = class extends SignalError {
        static readonly signal = theta;
        static readonly types = () => (handled ?? []).map(classOf);
        static readonly headings = types;
      };
      const name = upper(theta.split("_"));
      Object.defineProperty(made, "name", { value: name });
      // A type of that name keeps it.
      this.names[name in this.names ? `${name}_` : name] = made;
      signals.push(made);
    }
    return signals;
  }
}

/** Makes the stubs of an interface. Throws a `SyntaxError` if it makes no sense. */
export const makeStubs = (of: InterfaceJson, json: string, digest: string): DynamicStubs =>
  new Builder(of).build(json, digest);
