package org.bifrost.veneer;

import java.net.InetAddress;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The place where a server listens: {@code unix:///path}, {@code shm:///path}, {@code
 * tcp://host:port}, {@code tls://host:port}, {@code ws://host:port/path} or {@code
 * wss://host:port/path}.
 *
 * <p>An address of {@code tls} or {@code wss} may end with a pin, {@code #sha256-...}: the key that
 * the server must have.
 *
 * @param scheme the transport
 * @param path the path of a socket's file, or of the URL of a websocket; else empty
 * @param host the host without brackets; empty for a socket's file
 * @param port the port; 0 for a socket's file
 * @param pin the pin, {@code sha256-} and 43 characters, or null
 */
record Address(String scheme, String path, String host, int port, @Nullable String pin) {
  /** The most bytes of the path of a unix socket. */
  static final int PATH_BYTES_MAX = 107;

  private static final String FORMS =
      "`unix:///path`, `shm:///path`, `tcp://host:port`, `tls://host:port`, `ws://host:port` or"
          + " `wss://host:port`";
  private static final int PORT_MAX = 0xFFFF;
  private static final Pattern HOST = Pattern.compile("[A-Za-z0-9._-]+");
  private static final Pattern PATH = Pattern.compile("[A-Za-z0-9\\-._~!$&'()*+,;=:@%/]*");
  private static final Pattern PIN = Pattern.compile("sha256-([A-Za-z0-9_-]{43})");
  private static final Pattern PORT = Pattern.compile("0*([0-9]{1,5})");
  private static final Pattern PLACE =
      Pattern.compile("(?:\\[([^\\]]*)\\]|([^\\[\\]]*?))(?::([^:]*))?");

  /** Reads an address. Throws {@link IllegalArgumentException} if the text is none. */
  static Address parse(String text) {
    int colon = text.indexOf("://");
    if (colon < 0) {
      throw wrong(text, "add a scheme, as in " + FORMS);
    }
    String scheme = text.substring(0, colon);
    String rest = text.substring(colon + 3);
    return switch (scheme) {
      case "unix", "shm" -> socket(text, scheme, rest);
      case "tcp", "tls", "ws", "wss" -> internet(text, scheme, rest);
      case "quic" ->
          throw wrong(
              text, "this library has no QUIC: connect to `tls://host:port` or `wss://host:port`");
      default -> throw wrong(text, "`" + scheme + "` is not a transport: write " + FORMS);
    };
  }

  private static Address socket(String text, String scheme, String path) {
    if (!path.startsWith("/")) {
      throw wrong(
          text,
          "the path is not absolute: write three slashes, as in `" + scheme + ":///run/main`");
    }
    if (path.endsWith("/")) {
      throw wrong(text, "the path names no file: write that of a socket");
    }
    if (path.getBytes(StandardCharsets.UTF_8).length > PATH_BYTES_MAX) {
      throw wrong(text, "the path of a socket has at most " + PATH_BYTES_MAX + " bytes");
    }
    return new Address(scheme, path, "", 0, null);
  }

  private static Address internet(String text, String scheme, String rest) {
    boolean isTls = scheme.equals("tls") || scheme.equals("wss");
    boolean isWeb = scheme.startsWith("ws");
    String place = rest;
    String pin = null;
    int hash = place.indexOf('#');
    if (isTls && hash >= 0) {
      pin = pin(text, scheme, place.substring(hash + 1));
      place = place.substring(0, hash);
    }
    String path = "";
    if (isWeb) {
      int slash = place.indexOf('/');
      path = slash < 0 ? "/" : place.substring(slash);
      place = slash < 0 ? place : place.substring(0, slash);
      if (!PATH.matcher(path).matches()) {
        throw wrong(text, "`" + path + "` is not the path of a URL");
      }
    }
    Matcher parts = PLACE.matcher(place);
    if (!parts.matches()) {
      throw wrong(text, "`" + place + "` is not a host and a port");
    }
    return new Address(scheme, path, host(text, parts), port(text, scheme, parts.group(3)), pin);
  }

  private static String host(String text, Matcher parts) {
    String bracketed = parts.group(1);
    if (bracketed != null) {
      if (!isIpv6(bracketed)) {
        throw wrong(text, "`" + bracketed + "` is not an IPv6 address");
      }
      return bracketed;
    }
    String host = parts.group(2);
    if (host.indexOf(':') >= 0) {
      throw wrong(text, "an IPv6 address needs brackets, as in `tcp://[::1]:7447`");
    }
    if (!HOST.matcher(host).matches()) {
      throw wrong(
          text, "`" + host + "` is not a host: write a name, an IPv4 address or [an IPv6 address]");
    }
    return host;
  }

  private static int port(String text, String scheme, @Nullable String digits) {
    if (digits == null) {
      return switch (scheme) {
        case "ws" -> 80;
        case "wss" -> 443;
        default -> throw wrong(text, "a port is missing: write `" + scheme + "://host:port`");
      };
    }
    Matcher matcher = PORT.matcher(digits);
    int port = matcher.matches() ? Integer.parseInt(matcher.group(1)) : -1;
    if (port < 0 || port > PORT_MAX) {
      throw wrong(text, "`" + digits + "` is not a port: write a number from 0 to 65535");
    }
    return port;
  }

  private static String pin(String text, String scheme, String fragment) {
    Matcher matcher = PIN.matcher(fragment);
    if (!matcher.matches() || Base64.getUrlDecoder().decode(matcher.group(1)).length != 32) {
      throw wrong(
          text,
          "`"
              + fragment
              + "` cannot follow `#` in an address of "
              + scheme
              + ": a pin is `sha256-` and 43 characters");
    }
    return fragment;
  }

  private static boolean isIpv6(String host) {
    try {
      // The parser of URIs takes literals alone, and asks no name server. A zone is none.
      return host.indexOf(':') >= 0
          && host.indexOf('%') < 0
          && new URI("tcp://[" + host + "]:1").getHost() != null;
    } catch (URISyntaxException e) {
      return false;
    }
  }

  private static IllegalArgumentException wrong(String text, String why) {
    return new IllegalArgumentException("`" + text + "` is not an address: " + why);
  }

  /** True if bytes go through TLS. */
  boolean isTls() {
    return scheme.equals("tls") || scheme.equals("wss");
  }

  /** True if it is that of a websocket. */
  boolean isWeb() {
    return scheme.startsWith("ws");
  }

  /** True if the server is on this machine, at a unix socket. */
  private boolean isLocal() {
    return scheme.equals("unix") || scheme.equals("shm");
  }

  /** True if a server there may ask for a token: over unix sockets the kernel tells it the user. */
  boolean mayAskForToken() {
    return !isLocal();
  }

  /** True if bytes are encrypted, or do not leave the machine. */
  boolean isPrivate() {
    return isLocal() || isTls() || isLoopback();
  }

  private boolean isLoopback() {
    try {
      for (InetAddress one : InetAddress.getAllByName(host)) {
        if (!one.isLoopbackAddress()) {
          return false;
        }
      }
      return true;
    } catch (UnknownHostException e) {
      return false;
    }
  }

  /** The URI of a websocket. */
  URI uri() {
    return URI.create(scheme + "://" + bracketedHost() + ":" + port + path);
  }

  private String bracketedHost() {
    return host.indexOf(':') >= 0 ? "[" + host + "]" : host;
  }

  @Override
  public String toString() {
    if (isLocal()) {
      return scheme + "://" + path;
    }
    String end = pin == null ? "" : "#" + pin;
    return scheme + "://" + bracketedHost() + ":" + port + path + end;
  }
}
