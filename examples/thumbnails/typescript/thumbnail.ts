// Makes thumbnails of pictures by the servers that a trader knows: `thumbnail -o DIR PICTURE...`.
//
// `thumbnail-server veneer --lang typescript examples/thumbnails/thumbnails.theta -o examples/thumbnails/typescript`
// made the stubs.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, parse } from "node:path";
import { parseArgs } from "node:util";

import { LostError, Service } from "bifrost-veneer/service";

import { type Thumbnail, Thumbnails } from "./bifrost_stubs.js";

const USAGE = `thumbnail [OPTIONS] PICTURE...

  -o, --output DIR     the folder for the copies, which is made if it does not exist [thumbnails]
      --side PIXELS    the longer side of a copy [128]
      --at-once COUNT  pictures that are under way at the same time, 1 to 64 [4]
      --service URL    the service; without a host the traders are those in BIFROST_TRADER
                       [trader:///Thumbnails?prefer=spread]`;

/** The tries of a picture: to make a copy twice does no harm, so a server may be lost on the way. */
const TRIES = 5;

/** Makes a copy of a picture. */
async function make(service: Service<Thumbnails>, picture: Uint8Array, side: number): Promise<Thumbnail> {
  for (let tries = 1; ; tries++) {
    try {
      // One crossing: a struct comes with all its parts.
      return await service.run((_, thumbnails) => thumbnails.shrink(picture, side).get());
    } catch (error) {
      if (!(error instanceof LostError) || tries === TRIES) throw error;
    }
  }
}

/** Returns a number of the arguments; undefined if it is none from 1 to this one. */
function numberOf(text: string, most: number): number | undefined {
  return /^[1-9]\d*$/.test(text) && Number(text) <= most ? Number(text) : undefined;
}

/** Makes all copies. Returns the number of those that failed; nothing if the arguments are wrong. */
async function main(): Promise<number | undefined> {
  const { values, positionals: pictures } = parseArgs({
    allowPositionals: true,
    options: {
      output: { type: "string", short: "o", default: "thumbnails" },
      side: { type: "string", default: "128" },
      "at-once": { type: "string", default: "4" },
      service: {
        type: "string",
        default: "trader:///Thumbnails?prefer=spread",
      },
    },
  });
  const [side, atOnce] = [numberOf(values.side, 65_536), numberOf(values["at-once"], 64)];
  if (pictures.length === 0 || side === undefined || atOnce === undefined) return undefined;
  await mkdir(values.output, { recursive: true });
  const made = new Map<string, number>();
  const left = pictures.values();
  let failed = 0;

  // Each has a server of its own choice.
  const work = async (): Promise<void> => {
    let service: Service<Thumbnails> | undefined;
    for (const picture of left) {
      try {
        service ??= new Service(values.service, Thumbnails);
        const { width, height, png } = await make(service, await readFile(picture), side);
        const file = join(values.output, `${parse(picture).name}.png`);
        await writeFile(file, png);
        const server = service.server?.address ?? "";
        made.set(server, (made.get(server) ?? 0) + 1);
        console.log(`${picture}: ${width} x ${height}, ${file}`);
      } catch (error) {
        failed += 1;
        console.log(`${picture}: error: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    await service?.close();
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, pictures.length) }, work));
  for (const [server, count] of [...made].sort()) console.error(`${count} by ${server}`);
  return failed;
}

const failed = await main().catch((error: unknown) => {
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`);
  return 1;
});
if (failed === undefined) console.error(USAGE);
process.exitCode = failed === 0 ? 0 : 1;
