// URLs that name a trader and a question: `trader://host/DataBase?region=eu&prefer=min(load)`.
//
//   trader://HOST[:PORT]/SERVICE[?QUERY][#PIN]          a trader over TLS
//   trader+tcp://HOST[:PORT]/SERVICE[?QUERY]            over TCP
//   trader+unix:///PATH?service=SERVICE[&QUERY]         at a socket of this machine
//   trader:///SERVICE[?QUERY]                           the traders that the program knows
//
// The rules are those of `crates/trader/src/url.rs`. A mistake is a `TypeError` with the form of a
// right URL.

import { bytesOf, type Prefer, readQuery, shown, unescape } from "./query.js";

/** The port of a trader, if a URL names none. */
export const PORT = 7450;

/** The most bytes of a URL. */
export const URL_BYTES_MAX = 4096;

/** The most bytes of the name of a service. */
export const SERVICE_BYTES_MAX = 256;

/** A URL of a service at a trader. */
export interface TraderUrl {
  /** The address of the trader; empty if the URL names none. */
  readonly trader: string;
  /** The name of the service: a type of Theta. */
  readonly service: string;
  /** The query, as the trader takes it. */
  readonly query: string;
  /** The order that the query names. */
  readonly prefer: Prefer;
}

/** True if a text has the scheme of a trader's URL. */
export const isTrader = (url: string): boolean => /^trader(\+[^/]*)?:\/\//.test(url);

/** Returns the addresses in a list that spaces or commas separate. */
export const addressList = (list: string): string[] => list.split(/[\p{White_Space},]/u).filter((one) => one !== "");

const fail = (text: string): never => {
  throw new TypeError(text);
};

const withPort = (host: string): string => (/:[^\]]*$/.test(host) ? host : `${host}:${PORT}`);

function readService(service: string): string {
  const name = unescape(service);
  const isName = typeof name === "string" && !/\p{Cc}/u.test(name) && !service.includes("/");
  return isName && bytesOf(name) <= SERVICE_BYTES_MAX
    ? name
    : fail(`\`${shown(service)}\` is no name of a type: write it as the program has it, with \`%25\` for \`%\``);
}

/** Splits the place of a URL into a host, which may be empty, and the name of a service. */
function splitHost(text: string, place: string): [host: string, service: string] {
  const slash = place.indexOf("/");
  const service = slash < 0 ? "" : place.slice(slash + 1);
  if (service === "") return noService(text, "trader://host/DataBase");
  return [place.slice(0, slash), readService(service)];
}

const noService = (text: string, form: string): never =>
  fail(`\`${shown(text)}\` names no service: write the type of the object, as in \`${form}\``);

/** Takes the service out of a query. */
function takeService(text: string, query: string): [service: string, query: string] {
  const parts = query.split("&");
  const named = parts.filter((part) => part.startsWith("service="));
  const service = named[0]?.slice("service=".length) ?? "";
  if (service === "") return noService(text, "trader+unix:///run/trader?service=DataBase");
  if (named.length > 1) fail("`service` is there twice; leave one out");
  return [readService(service), parts.filter((part) => !part.startsWith("service=")).join("&")];
}

/** Cuts a text at the first separator. */
function cut(text: string, separator: string): [before: string, behind: string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + separator.length)];
}

/** Reads a URL. Throws a `TypeError` that says what a right one looks like. */
export function parseTraderUrl(text: string): TraderUrl {
  const bytes = bytesOf(text);
  if (bytes > URL_BYTES_MAX) fail(`the URL has ${bytes} bytes; it may have ${URL_BYTES_MAX}`);
  const character = text.search(/[\p{White_Space}\p{Cc}]/u);
  if (character >= 0) {
    const at = bytesOf(text.slice(0, character));
    fail(`the URL has a space or a control character at byte ${at}; write \`%20\` for a space`);
  }
  const [scheme, behind] = cut(text, "://");
  const [rest, pin] = cut(behind ?? "", "#");
  const [place, question] = cut(rest, "?");
  let [trader, query] = ["", question ?? ""];
  let service: string;
  if (behind === undefined || !["trader", "trader+quic", "trader+tcp", "trader+unix"].includes(scheme)) {
    const forms =
      "`trader://host/Service?query`, `trader+quic://host/Service?query`, `trader+tcp://host/Service?query` or";
    return fail(
      `\`${shown(text)}\` is no URL of a trader: write ${forms} \`trader+unix:///path?service=Service&query\``,
    );
  }
  if (pin !== undefined && scheme !== "trader" && scheme !== "trader+quic") {
    const others = "which `trader://` and `trader+quic://` have: other traders have no certificate";
    fail(`\`#${shown(pin)}\` is a pin, ${others}`);
  }
  if (scheme === "trader+unix") {
    const path = unescape(place);
    if (typeof path === "number" || !path.startsWith("/") || /\p{Cc}/u.test(path)) {
      const form = "write three slashes, as in `trader+unix:///run/trader?service=DataBase`";
      return fail(`\`${shown(place)}\` is no absolute path: ${form}`);
    }
    trader = `unix://${path}`;
    [service, query] = takeService(text, query);
  } else {
    let host: string;
    [host, service] = splitHost(text, place);
    if (host !== "") trader = `${scheme === "trader" ? "tls" : scheme.slice("trader+".length)}://${withPort(host)}`;
    else if (scheme !== "trader") fail(`\`${shown(text)}\` names no host: write \`${scheme}://host:port/Service\``);
    if (pin !== undefined) {
      if (host === "") {
        const remedy = "write pins where the traders are named";
        fail(`\`#${shown(pin)}\` is a pin, and the URL names no trader: ${remedy}`);
      }
      trader += `#${pin}`;
    }
  }
  return { trader, service, query, prefer: readQuery(query) };
}
