package org.bifrost.veneer;

import java.io.IOException;

/** The transports, by the scheme of an address. */
final class Transports {
  private Transports() {}

  /**
   * Connects to a server.
   *
   * @throws IllegalArgumentException if the text is no address, or the files cannot be used
   */
  static Connection connect(String address, TlsFiles files, long deadline) throws IOException {
    Address place = Address.parse(address);
    return switch (place.scheme()) {
      case "shm" -> SharedMemory.connect(place.path(), deadline);
      case "tls" -> new TlsConnection(place, files, deadline);
      case "ws", "wss" -> new WebSocketConnection(place, files, deadline);
      default -> new SocketConnection(place, deadline);
    };
  }

  /** True where a server may ask for a token: on one machine the kernel tells it the user. */
  static boolean mayAskForToken(String address) {
    return Address.parse(address).mayAskForToken();
  }
}
