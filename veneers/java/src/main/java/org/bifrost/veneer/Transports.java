package org.bifrost.veneer;

import java.io.IOException;

/** The transports, by the scheme of an address. */
final class Transports {
  private Transports() {}

  /**
   * Connects to a server.
   *
   * @throws IllegalArgumentException if the text is no address
   */
  static Connection connect(String address, long deadline) throws IOException {
    Address place = Address.parse(address);
    return switch (place.scheme()) {
      case "unix", "tcp" -> new SocketConnection(place, deadline);
      default ->
          throw new IllegalArgumentException(
              "`" + place.scheme() + "` is no transport of this library yet");
    };
  }

  /** True where a server may ask for a token: over unix sockets the kernel tells it the user. */
  static boolean mayAskForToken(String address) {
    return Address.parse(address).mayAskForToken();
  }
}
