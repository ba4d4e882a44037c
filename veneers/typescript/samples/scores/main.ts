// A live view of `examples/scores/scores.theta`: one session watches while another adds points.

import * as bf from "bifrost-veneer";

import { connect, Scores } from "./bifrost_stubs.js";

const address = process.env["BIFROST_URL"] ?? "";
await using viewer = await connect(address);
await using player = await connect(address);
const [shown, scores] = [viewer, player].map((s) => s.lookup("scores", Scores)) as [Scores, Scores];

const points = [
  ["bob", 2],
  ["zoe", 5],
] as const;
let round = 0;

// The batch is run again by the server whenever others have changed what it has read.
for await (const rows of viewer.live(() =>
  bf.collect(shown.leaders(0), [bf.Str, bf.Int], (p) => [p.name(), p.points()]),
)) {
  console.log(rows.map(([name, points]) => `${name} ${points}`).join(", "));
  const next = points[round++];
  if (!next) break;
  scores.score(next[0], next[1]);
  await player.commit();
}
