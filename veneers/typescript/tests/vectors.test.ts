import { test } from "node:test";

import { cases } from "./vectors.js";

for (const one of cases()) test(one.name, one.run);
