package org.bifrost.veneer;

import java.io.IOException;

/** The opening of sessions. */
final class Connecting {
  private static final int READ_BYTES = 64 << 10;

  private Connecting() {}

  /** Opens a session. A server asks for the token by refusing a client without. */
  static Link open(String address, Options options) {
    try {
      return open(address, options, "");
    } catch (ClosedException refused) {
      boolean isAsked =
          refused.ending() instanceof Failure.ByServer why
              && why.number() == Tables.ERROR_BAD_TOKEN
              && Transports.mayAskForToken(address)
              && !options.token().isEmpty();
      if (isAsked) {
        return open(address, options, options.token());
      }
      throw refused;
    }
  }

  private static Link open(String address, Options options, String token) {
    long timeout = options.timeout().toNanos();
    long deadline = System.nanoTime() + timeout;
    Connection connection = null;
    Link link = null;
    try {
      connection = Transports.connect(address, options.files(), deadline);
      Greeting greeting = new Greeting(options.stubs(), token, options.name(), options.settings());
      link = new Link(greet(connection, greeting, deadline), connection, timeout);
      return link;
    } catch (IOException failed) {
      throw new ClosedException(new Failure.Ended(new Failure.ByConnection(failed)));
    } finally {
      if (link == null && connection != null) {
        connection.close();
      }
    }
  }

  private static Recorder greet(Connection connection, Greeting greeting, long deadline)
      throws IOException {
    byte[] buffer = new byte[READ_BYTES];
    Recorder greeted = null;
    while (greeted == null) {
      byte[] questions = greeting.takeBytes();
      if (questions.length > 0) {
        connection.send(questions, 0, questions.length, deadline);
      }
      int count = connection.receive(buffer, deadline);
      if (count < 0) {
        throw new IOException("the server has closed the connection");
      }
      greeted = greeting.handleBytes(buffer, count);
    }
    return greeted;
  }
}
