// A small page: a session, calls, a loop, handlers, a batch, typed exceptions. Its size is measured.

import * as bf from "bifrost-veneer";

import { connect, DataBase, DataElem, NotFound } from "../../samples/database/bifrost_stubs.js";

const s = await connect(`wss://${location.host}/`);
const db = s.lookup("database", DataBase);
const total = s.cell(bf.Int, 0);
s.foreach(db.users(), (e) => {
  s.if(e.visits().gt(0), () => total.put(total.get().add(e.visits())));
});
const found = s.cell(DataElem);
s.except(() => found.put(db.fetch("zoe"))).when(NotFound, () => found.put(db.newUser("zoe")));
const [name, visits] = await s.batch(() => [found.get().name(), total.get()] as const);
document.body.textContent = `${name}: ${visits}`;
try {
  await db.fetch("nobody").name();
} catch (error) {
  if (!(error instanceof NotFound)) throw error;
  document.body.append(error.signal);
}
await s.commit();
