// L1, L2 and L4: the vectors, and the replay of the cases with the answers that their files have.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "./server.js";
import { type CaseFile, cases, replays } from "./vectors.js";

const folder = join(ROOT, "cases/generated");
const files = readdirSync(folder).map((name): CaseFile => [name, readFileSync(join(folder, name), "utf8")]);

for (const one of [...cases(), ...replays(files)]) test(one.name, one.run);
