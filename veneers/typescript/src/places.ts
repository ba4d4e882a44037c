// The places of calls in the program, for messages; loaded for sessions with the option `debug`.

/** Returns the place from which the library was called; `stubs` is the address of the stubs' module. */
export function placeOf(stubs = import.meta.url): unknown {
  const lines = (new Error().stack ?? "").split("\n").slice(1);
  const folder = import.meta.url.replace(/[^/]*$/, "");
  const found = lines.find((line) => !line.includes(stubs) && !line.includes(folder));
  return /(?:file:\/\/)?([^\s(]*:\d+):\d+\)?$/.exec(found ?? "")?.[1];
}
