// A stream of bytes to a server.

/** The user of a connection. */
export interface Listener {
  /** Bytes have come. They are valid during the call. */
  bytes(bytes: Uint8Array): void;
  /** The stream has ended; with an error if there is one. Called once. */
  ended(error: Error | null): void;
}

/** A stream of bytes, in both directions. */
export interface Connection {
  /** Sends bytes, which are not changed any more. */
  write(bytes: Uint8Array): void;
  /** Ends the stream behind the bytes that were written. */
  close(): void;
  /** Sets the user, once. Bytes that came before are passed on. */
  listen(listener: Listener): void;
}

/** Options of connections. */
export interface ConnectionOptions {
  /** The authorities, in PEM, that may sign the certificates of servers. Node only. */
  readonly authorities?: string | undefined;
  /** The client's own certificate and key, in PEM. Node only. */
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}

/** Opens a connection. Rejects if there is none, or the signal has fired. */
export type Dial = (address: string, options: ConnectionOptions, signal: AbortSignal) => Promise<Connection>;

/** The longest message of a websocket, in bytes. */
const MESSAGE_BYTES_MAX = 1 << 20;

/** The part of the standard `WebSocket` that is used; the package `ws` has it, too. */
export interface Socket {
  binaryType: string;
  readyState: number;
  send(bytes: Uint8Array): void;
  close(): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
}

/** Makes a connection of a websocket that is being opened with the subprotocol `bifrost.1`. */
export function overSocket(socket: Socket, signal: AbortSignal): Promise<Connection> {
  return new Promise((resolve, reject) => {
    let listener: Listener | null = null;
    const early: Uint8Array[] = [];
    let failure: Error | null = null;
    let over = false;
    socket.binaryType = "arraybuffer";
    const end = (error: Error | null): void => {
      if (over) return;
      over = true;
      signal.removeEventListener("abort", abort);
      reject(error ?? new Error("the websocket was closed"));
      listener?.ended(error);
    };
    const abort = (): void => {
      end(signal.reason as Error);
      socket.close();
    };
    signal.addEventListener("abort", abort);
    socket.onopen = () => {
      signal.removeEventListener("abort", abort);
      resolve({
        write(bytes) {
          if (over) return;
          for (let at = 0; at < bytes.length; at += MESSAGE_BYTES_MAX) {
            socket.send(bytes.subarray(at, at + MESSAGE_BYTES_MAX));
          }
        },
        close() {
          socket.close();
        },
        listen(user) {
          listener = user;
          for (const bytes of early.splice(0)) user.bytes(bytes);
          if (over) user.ended(failure);
        },
      });
    };
    socket.onmessage = ({ data }: { data: unknown }) => {
      if (!(data instanceof ArrayBuffer)) {
        end(new Error("the server has sent text"));
        socket.close();
      } else if (listener) listener.bytes(new Uint8Array(data));
      else early.push(new Uint8Array(data));
    };
    socket.onerror = (event: { message?: string; error?: unknown }) => {
      failure = event.error instanceof Error ? event.error : new Error(event.message ?? "the websocket has failed");
    };
    socket.onclose = () => {
      end(failure);
    };
  });
}
