// The addresses of servers.

/** An address in its parts. */
export interface Address {
  readonly scheme: string;
  /** The path of a socket, or the host. */
  readonly host: string;
  readonly port: number;
  readonly path: string;
  /** The digest of the key that the server must have; empty if there is none. */
  readonly pin: string;
}

/** Reads an address: `unix:///path`, `tcp://host:port`, `tls://host:port#sha256-PIN`, `ws://host/`. */
export function parseAddress(address: string): Address {
  const wrong = (why: string): never => {
    throw new TypeError(`${JSON.stringify(address)} is no address: ${why}`);
  };
  const [, scheme, rest] = /^(unix|tcp|tls|ws|wss):\/\/(.*)$/s.exec(address) ?? [];
  if (!scheme || rest === undefined) {
    if (address.startsWith("quic://"))
      return wrong("this package has no QUIC; have the server listen at tls:// or ws://");
    if (address.startsWith("shm://")) return wrong("this package has no shared memory; use the server's unix://");
    return wrong("unix://, tcp://, tls://, ws://, wss:// or trader:// was expected");
  }
  if (scheme === "unix") {
    return rest.startsWith("/")
      ? { scheme, host: rest, port: 0, path: "", pin: "" }
      : wrong("its path is not absolute");
  }
  const [, bracketed, plain, port, path, pin] =
    /^(?:\[([^\]]+)\]|([^:/#[\]]+))(?::(\d{1,5}))?(\/[^#]*)?(?:#(.*))?$/s.exec(rest) ?? [];
  const host = bracketed ?? plain;
  if (!host) return wrong("a host was expected");
  const number = port ? Number(port) : scheme === "ws" ? 80 : scheme === "wss" ? 443 : 0;
  if (number < 1 || number > 65535) return wrong("a port was expected");
  if (path !== undefined && !scheme.startsWith("ws")) return wrong("a path is allowed for ws:// and wss:// only");
  if (pin !== undefined && (!/^sha256-[\w-]{43}$/.test(pin) || !["tls", "wss"].includes(scheme))) {
    return wrong("a pin is sha256- and 43 characters, for tls:// and wss:// only");
  }
  return { scheme, host, port: number, path: path ?? "/", pin: pin ?? "" };
}
