// Opening a session: an address, a connection, the greeting.

import type { Connection, ConnectionOptions, Dial } from "./connection.js";
import { ConnectError } from "./errors.js";
import { limit, type Limit } from "./limit.js";
import { Failure, type Ending } from "./recorder/failure.js";
import { Greeting, Refusal } from "./recorder/greeting.js";
import type { Recorder } from "./recorder/recorder.js";
import type { SessionOptions, Stubs } from "./core.js";
import { Session } from "./session.js";
import { ERROR_BAD_TOKEN, REMAP_FUTURES, REPLY_BYTES_MAX } from "./tables.js";

/** Settings with which a session is opened. */
export interface Options extends ConnectionOptions, SessionOptions {
  /** The token, shown to a server that asks for it; not over unix sockets. */
  readonly token?: string;
  /** The client's name in the server's logs. */
  readonly name?: string;
  /** The longest reply that is read, in bytes. Default: 64 MiB. */
  readonly replyBytesMax?: number;
  /** The number of results after which a batch is flushed by itself. Default: 16384. */
  readonly remapFutures?: number;
  /** The token for traders; in Node by default that of BIFROST_TRADER_TOKEN. */
  readonly traderToken?: string;
  /** The addresses of the traders that `trader:///Service` asks; in Node by default those in BIFROST_TRADER. */
  readonly traders?: readonly string[];
  /** Ends the attempt to connect when it fires. */
  readonly signal?: AbortSignal;
}

const unable = (ending: Ending): ConnectError => new ConnectError(new Failure("closed", { ending }));

/** Exchanges greetings over a connection. */
async function greet(
  connection: Connection,
  stubs: Stubs,
  token: string,
  options: Options,
  signal: AbortSignal,
): Promise<Session> {
  const settings = {
    replyBytesMax: options.replyBytesMax ?? REPLY_BYTES_MAX,
    remapFutures: options.remapFutures ?? REMAP_FUTURES,
  };
  const greeting = new Greeting(stubs, token, options.name ?? "", settings);
  let resolve: (recorder: Recorder) => void;
  let reject: (error: unknown) => void;
  const greeted = new Promise<Recorder>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  let session: Session | null = null;
  const take = (bytes: Uint8Array): void => {
    const known = greeting.digest;
    const recorder = greeting.handleBytes(bytes);
    if (recorder) resolve(recorder);
    else if (greeting.digest && !known) {
      // The server has another interface: the description of the own one is needed now.
      const { numbersBy } = stubs;
      const ready = numbersBy
        ? Promise.resolve((server: Uint8Array) => numbersBy(server, greeting.digest))
        : Promise.all([import("./recorder/mapping.js"), stubs.json()]).then(([{ numbersBy, parseInterface }, json]) =>
            numbersBy(stubs, parseInterface(json)),
          );
      ready
        .then((numbersBy) => {
          greeting.numbersBy = numbersBy;
          connection.write(greeting.questions);
        })
        .catch(reject);
    }
  };
  const abort = (): void => {
    reject(signal.reason);
  };
  try {
    // Before the greeting: nothing of the connection may be missed between its end and the session.
    const places = options.debug ? await import("./places.js") : null;
    signal.throwIfAborted();
    signal.addEventListener("abort", abort);
    connection.listen({
      bytes(bytes) {
        if (session) session.$bytes(bytes);
        else {
          try {
            take(bytes);
          } catch (error) {
            reject(error instanceof Refusal ? unable(error.ending) : error);
          }
        }
      },
      ended(error) {
        if (session) session.$ended(error);
        const text = error?.message ?? "the server has closed the connection";
        reject(unable({ by: "connection", text, cause: error ?? undefined }));
      },
    });
    connection.write(greeting.questions);
    // A session takes the bytes that come from then on.
    session = new Session(await greeted, connection, options);
    session.$placeOf = places?.placeOf;
    return session;
  } catch (error) {
    connection.close();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Opens a session over a connection that is there already. The token is shown at once. */
export async function over(stubs: Stubs, connection: Connection, options: Options = {}): Promise<Session> {
  const late = timeLimit(options);
  try {
    return await greet(connection, stubs, options.token ?? "", options, late.signal);
  } catch (error) {
    throw errorOf(error, late, options);
  } finally {
    late.done();
  }
}

const timeLimit = ({ signal, timeout = 30_000 }: Options): Limit =>
  limit(timeout, `the server has not answered within ${timeout} ms`, signal);

/** Returns the error of an attempt to connect: that of the time limit, unless the program's own signal has fired. */
const errorOf = (error: unknown, { signal }: Limit, options: Options): unknown =>
  error instanceof Error && error === signal.reason && !options.signal?.aborted
    ? unable({ by: "connection", text: error.message, cause: error })
    : error;

/** Returns the function that opens sessions over a kind of connections. */
export const connectWith =
  (dial: Dial) =>
  async (stubs: Stubs, address: string, options: Options = {}): Promise<Session> => {
    const late = timeLimit(options);
    const { signal } = late;
    const open = async (token: string): Promise<Session> => {
      let connection: Connection;
      try {
        connection = await dial(address, options, signal);
      } catch (error) {
        if (error instanceof TypeError || signal.aborted) throw error;
        const text = error instanceof Error ? error.message : String(error);
        throw unable({ by: "connection", text: `${address}: ${text}`, cause: error });
      }
      return greet(connection, stubs, token, options, signal);
    };
    try {
      return await open("").catch((error: unknown) => {
        // A server asks for the token by refusing a client without.
        const asked = error instanceof ConnectError && error.number === ERROR_BAD_TOKEN;
        if (!asked || !options.token || address.startsWith("unix:")) throw error;
        return open(options.token);
      });
    } catch (error) {
      throw errorOf(error, late, options);
    } finally {
      late.done();
    }
  };
