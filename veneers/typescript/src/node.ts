// The transports of Node: unix sockets, TCP, TLS and websockets.

import { createHash, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { connect as connectNet, isIP, type Socket as NetSocket } from "node:net";
import { connect as connectTls, type ConnectionOptions as TlsOptions, type TLSSocket } from "node:tls";

import { type Address, parseAddress } from "./address.js";
import {
  type Connection,
  type ConnectionOptions,
  type Dial,
  type Listener,
  overSocket,
  type Socket,
} from "./connection.js";

/** The application protocol of TLS. */
const PROTOCOL = "bifrost/1";

/** The longest path of a unix socket, in bytes. */
const PATH_BYTES_MAX = 107;

/** The time for which a connection that was closed waits until the other side takes bytes or closes it. */
const LINGER_MS = 10_000;

/** Returns the pin of a certificate: the SHA-256 of its public key. */
const pinOf = (certificate: X509Certificate): string =>
  `sha256-${createHash("sha256")
    .update(certificate.publicKey.export({ type: "spki", format: "der" }))
    .digest("base64url")}`;

/** Makes a connection of a socket; `event` is the one at which it is open, `check` may refuse it. */
function overNet(socket: NetSocket, event: string, check: () => void, signal: AbortSignal): Promise<Connection> {
  return new Promise((resolve, reject) => {
    let listener: Listener | null = null;
    let failure: Error | null = null;
    let over = false;
    const end = (): void => {
      if (over) return;
      over = true;
      signal.removeEventListener("abort", abort);
      reject(failure ?? new Error("the connection was closed"));
      listener?.ended(failure);
    };
    const abort = (): void => {
      socket.destroy(signal.reason as Error);
    };
    signal.addEventListener("abort", abort);
    socket.on("error", (error) => (failure = error));
    socket.on("close", end);
    // An end of the server is the end: whole answers have come before.
    socket.on("end", () => socket.destroy());
    socket.once(event, () => {
      signal.removeEventListener("abort", abort);
      try {
        check();
      } catch (error) {
        socket.destroy(error as Error);
        return;
      }
      resolve({
        write(bytes) {
          if (!over) socket.write(bytes);
        },
        close() {
          socket.end();
          // The other side closes it then; one that hangs keeps no process, and no connection.
          socket.unref();
          socket.setTimeout(LINGER_MS, () => socket.destroy());
        },
        listen(user) {
          listener = user;
          socket.on("data", (bytes: Uint8Array) => {
            user.bytes(bytes);
          });
          if (over) user.ended(failure);
        },
      });
    });
    if (signal.aborted) abort();
  });
}

async function tlsOptions({ host, pin }: Address, options: ConnectionOptions): Promise<TlsOptions> {
  if (pin && options.authorities) {
    throw new TypeError("an address with a pin and options with authorities contradict each other");
  }
  const file = process.env["BIFROST_CA"];
  const ca = pin ? undefined : (options.authorities ?? (file ? await readFile(file, "utf8") : undefined));
  return {
    minVersion: "TLSv1.3",
    ...(isIP(host) ? {} : { servername: host }),
    ...(ca === undefined ? {} : { ca }),
    ...(options.certificate && options.key ? { cert: options.certificate, key: options.key } : {}),
    // The key is compared instead.
    ...(pin ? { rejectUnauthorized: false } : {}),
  };
}

/** Makes an error of TLS, with a code as Node's have. */
const distrust = (text: string): Error => Object.assign(new Error(text), { code: "ERR_TLS_BIFROST" });

/** Checks the key of a server. */
function checkPin(raw: Buffer | undefined, pin: string): void {
  const found = raw && pinOf(new X509Certificate(raw));
  if (found !== pin) throw distrust(`the server has another key than ${pin}: ${found ?? "none"}`);
}

async function dialWebsocket(url: Address, options: ConnectionOptions, signal: AbortSignal): Promise<Connection> {
  const host = url.host.includes(":") ? `[${url.host}]` : url.host;
  const address = `${url.scheme}://${host}:${url.port}${url.path}`;
  const plain = !url.pin && !options.authorities && !options.certificate && !process.env["BIFROST_CA"];
  const { WebSocket } = globalThis as { WebSocket?: new (address: string, protocols: string) => Socket };
  if (WebSocket && (plain || url.scheme === "ws")) return overSocket(new WebSocket(address, "bifrost.1"), signal);
  type Class = new (
    address: string,
    protocols: string,
    options: object,
  ) => Socket & {
    on(event: string, listen: (response: { socket: TLSSocket }) => void): void;
    terminate(): void;
  };
  const name = "ws";
  const { WebSocket: Ws } = (await import(name).catch((cause: unknown) => {
    throw new Error("the package `ws` is needed for this websocket: npm install ws", { cause });
  })) as { WebSocket: Class };
  const tls = url.scheme === "wss" ? await tlsOptions(url, options) : {};
  const socket = new Ws(address, "bifrost.1", { ...tls, perMessageDeflate: false, maxPayload: 1 << 26 });
  const opened = overSocket(socket, signal);
  let refused: Error | null = null;
  socket.on("upgrade", ({ socket: tls }) => {
    try {
      if (url.pin) checkPin(tls.getPeerCertificate().raw, url.pin);
    } catch (error) {
      refused = error as Error;
      socket.terminate();
    }
  });
  return opened.catch((error: unknown) => {
    throw refused ?? error;
  });
}

/** Opens a connection to a server at an address. */
export const dial: Dial = async (address, options, signal) => {
  const url = parseAddress(address);
  signal.throwIfAborted();
  const { scheme, host, port, pin } = url;
  if (scheme.startsWith("ws")) return dialWebsocket(url, options, signal);
  if (scheme === "unix") {
    if (Buffer.byteLength(host) > PATH_BYTES_MAX) throw new TypeError(`the path ${host} is too long for a socket`);
    return overNet(connectNet({ path: host }), "connect", () => undefined, signal);
  }
  if (scheme === "tcp") {
    return overNet(connectNet({ host, port, noDelay: true }), "connect", () => undefined, signal);
  }
  const socket = connectTls({ ...(await tlsOptions(url, options)), host, port, ALPNProtocols: [PROTOCOL] });
  socket.setNoDelay(true);
  const check = (): void => {
    if (socket.alpnProtocol !== PROTOCOL) throw distrust("the server is no Bifrost server");
    if (pin) checkPin(socket.getPeerCertificate().raw, pin);
  };
  return overNet(socket, "secureConnect", check, signal);
};
