// Imports a Debian package index into the objects of `packages.theta`, and asks them.
//
// `bifrost veneer --lang typescript examples/packages/packages.theta -o examples/packages/typescript` made the stubs.

import { readFile } from "node:fs/promises";

import * as bf from "bifrost-veneer";

import { connect, Exists, type Package, packageList, PackageIndex, packageSet, Unmet } from "./bifrost_stubs.js";

/** How many packages are imported in one transaction. */
const AT_ONCE = 250;

const USAGE =
  "packages-client import FILE | closure NAME | dependents NAME, with BIFROST_URL set to a server of packages.theta";

/** The used part of a paragraph. */
interface Paragraph {
  name: string;
  version: string;
  section: string;
  /** Installed, in KiB. */
  size: bigint;
  /** Names that the package stands for. */
  provides: string[];
  /** For each need the names of which any will do. */
  needs: string[][];
}

/** Returns the name in `libc6:any (>= 2.34)`. */
const nameIn = (relation: string): string => relation.trim().split(/[\s:]/)[0] ?? "";

/** Returns the names in a list. */
const namesIn = (list: string, separator: string): string[] =>
  list
    .split(separator)
    .map(nameIn)
    .filter((name) => name !== "");

/** Returns the packages of an index. Paragraphs without a name, and fields that are not used, are passed over. */
function paragraphs(text: string): Paragraph[] {
  const all = text.split("\n\n").map((paragraph) => {
    const found: Paragraph = {
      name: "",
      version: "",
      section: "",
      size: 0n,
      provides: [],
      needs: [],
    };
    for (const line of paragraph.split("\n")) {
      // A line that begins with a blank goes on with the field before.
      const [, field, rest] = /^([^ \t:][^:]*):(.*)$/.exec(line) ?? [];
      const value = rest?.trim() ?? "";
      if (field === "Package") found.name = value;
      else if (field === "Version") found.version = value;
      else if (field === "Section") found.section = value;
      else if (field === "Installed-Size") found.size = /^\d+$/.test(value) ? BigInt(value) : 0n;
      else if (field === "Provides") found.provides = namesIn(value, ",");
      else if (field === "Depends" || field === "Pre-Depends") {
        const needs = value.split(",").map((need) => namesIn(need, "|"));
        found.needs.push(...needs.filter((need) => need.length > 0));
      }
    }
    return found;
  });
  return all.filter(({ name }) => name !== "");
}

/** Imports an index, a few hundred packages in each transaction and each crossing. */
async function importIndex(s: bf.Session, packages: PackageIndex, text: string): Promise<void> {
  const all = paragraphs(text);
  for (let first = 0; first < all.length; first += AT_ONCE) {
    await s.transaction(() => {
      for (const one of all.slice(first, first + AT_ONCE)) {
        // One name may stand twice, for two architectures: the first is taken.
        s.except(() => {
          const p = packages.add(one.name, one.version, one.section, one.size);
          for (const name of one.provides) packages.provide(p, name);
          for (const need of one.needs) packages.need(p, need.join(" "));
        }).when(Exists, () => undefined);
      }
    });
  }
  const length = await packages.length();
  console.log(`${length} packages, ${s.counters.calls} calls in ${s.counters.crossings} crossings`);
}

/** Prints the packages of a loop: one crossing, whatever their number. */
async function list(s: bf.Session, title: string, found: bf.Iter<readonly [Package]>): Promise<void> {
  const before = s.counters.crossings;
  const rows = await bf.collect(found, [bf.Str, bf.Int], (p) => [p.name(), p.size()]);
  const names = rows.map(([name]) => name).sort();
  const size = rows.reduce((sum, [, size]) => sum + size, 0n);
  console.log(`${title}: ${names.join(" ")}`);
  console.log(`${rows.length} packages, ${size} KiB, ${s.counters.crossings - before} crossing`);
}

/** The closure once more, by a client that has no method for it: the same walk as a batch, over the graph where it is. */
async function byHand(s: bf.Session, p: Package): Promise<void> {
  const before = s.counters.crossings;
  const [work, seen, unmet] = [packageList(s), packageSet(s), s.cell(bf.Int, 0)];
  seen.store(p.name(), p);
  work.append(p);
  s.while(
    () => work.length().gt(0),
    () => {
      const next = work.remove();
      s.foreach(next.needs(), (need) => {
        s.except(() => {
          const q = need.choice();
          s.if(seen.contains(q.name()), () => undefined).else(() => {
            seen.store(q.name(), q);
            work.append(q);
          });
        }).when(Unmet, () => unmet.put(unmet.get().add(1)));
      });
    },
  );
  const [count, missing] = await Promise.all([seen.length(), unmet.get()]);
  const crossings = s.counters.crossings - before;
  console.log(`as structures: ${count} packages, ${missing} needs unmet, ${crossings} crossing`);
}

/** Does the command of the arguments; false if it is none. */
async function main(url: string, command: string, argument: string): Promise<boolean> {
  const s = await connect(url);
  const packages = s.lookup("packages", PackageIndex);
  switch (command) {
    case "import":
      await importIndex(s, packages, await readFile(argument, "utf8"));
      break;
    case "closure": {
      const p = packages.package_(argument);
      await list(s, `${argument} needs`, packages.closure(p));
      await byHand(s, p);
      break;
    }
    case "dependents":
      await list(s, `not without ${argument}`, packages.dependents(packages.package_(argument)));
      break;
    default:
      s[Symbol.dispose]();
      return false;
  }
  await s.close();
  return true;
}

const [command, argument, ...more] = process.argv.slice(2);
const url = process.env["BIFROST_URL"];
const isRight = url && command && argument && more.length === 0;
if (!isRight || !(await main(url, command, argument))) {
  console.error(USAGE);
  process.exitCode = 1;
}
