package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.bifrost.veneer.database.Database;
import org.bifrost.veneer.database.Database.DataBase;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The opening of sessions over each transport, and their end when the server is lost. */
@Timeout(30)
class OpeningTest {
  private static final String DATABASE = "examples/database/database.theta";

  private static String[] listening(String scheme, String... more) {
    List<String> all =
        scheme.equals("unix") ? List.of() : List.of("--listen", scheme + "://127.0.0.1:0");
    return java.util.stream.Stream.concat(all.stream(), java.util.Arrays.stream(more))
        .toArray(String[]::new);
  }

  private static long visits(Session session) {
    return session.lookup("database", DataBase.TYPE).fetch("bob").visits().claim();
  }

  private static Failure.ByServer refusal(String url, Options options) {
    ClosedException told =
        assertThrows(ClosedException.class, () -> Session.connect(url, options).close());
    return assertInstanceOf(Failure.ByServer.class, told.ending(), told::toString);
  }

  @ParameterizedTest
  @ValueSource(strings = {"tcp", "tls", "ws", "wss"})
  void aTokenIsShownToAServerThatAsks(String scheme) throws Exception {
    try (Server server = Server.serve(DATABASE, listening(scheme, "--token", "right"))) {
      String url = server.at(scheme);
      for (String wrong : List.of("", "wrong")) {
        long begin = System.nanoTime();
        Failure.ByServer why = refusal(url, Database.options().withToken(wrong));
        assertEquals(Tables.ERROR_BAD_TOKEN, why.number());
        assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(1));
      }
      try (Session session = Session.connect(url, Database.options().withToken("right"))) {
        assertEquals(0, visits(session));
      }
      // The kernel tells the user.
      try (Session session = Session.connect(server.url(), Database.options().withToken("wrong"))) {
        assertEquals(0, visits(session));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"unix", "tcp", "tls", "ws"})
  void aFullServerSaysSo(String scheme) throws Exception {
    String[] arguments = listening(scheme, "--anonymous-loopback", "--set", "sessions_max=1");
    try (Server server = Server.serve(DATABASE, arguments)) {
      String url = server.at(scheme);
      try (Session session = Database.connect(url)) {
        assertEquals(0, visits(session));
        Failure.ByServer why = refusal(url, Database.options());
        assertTrue(why.toString().contains("session"), why::toString);
        assertEquals(0, visits(session));
      }
    }
  }

  @Test
  void clientsWithAuthoritiesAndCertificates(@TempDir Path folder) throws Exception {
    Server.run(folder, "certificate", "--name", "localhost", "-o", "made");
    Path made = folder.resolve("made");
    Server.run(
        folder, "certificate", "--client", "--name", "me", "--ca", "made/ca.pem", "-o", "made");
    String[] arguments =
        listening(
            "tls",
            "--anonymous-loopback",
            "--set",
            "tls.certificate=" + made.resolve("localhost.pem"),
            "--set",
            "tls.key=" + made.resolve("localhost-key.pem"),
            "--set",
            "tls.clients=" + made.resolve("ca.pem"),
            "--set",
            "tls.required=true");
    try (Server server = Server.serve(DATABASE, arguments)) {
      String url = server.at("tls").replaceAll("#.*", "").replace("127.0.0.1", "localhost");
      Options trusting = Database.options().withAuthorities(made.resolve("ca.pem"));
      Options known = trusting.withCertificate(made.resolve("me.pem"), made.resolve("me-key.pem"));
      try (Session session = Session.connect(url, known)) {
        assertEquals(0, visits(session));
      }
      assertThrows(ClosedException.class, () -> Session.connect(url, trusting).close());
      String pinned = url + "#sha256-" + "A".repeat(43);
      assertThrows(IllegalArgumentException.class, () -> Session.connect(pinned, known).close());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"unix", "tcp", "tls", "ws", "wss"})
  void aKilledServerIsToldAtOnce(String scheme) throws Exception {
    try (Server server = Server.serve(DATABASE, listening(scheme, "--anonymous-loopback"));
        Session session = Database.connect(server.at(scheme))) {
      assertEquals(0, visits(session));
      server.kill();
      long begin = System.nanoTime();
      assertThrows(ClosedException.class, () -> visits(session));
      assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(1));
      assertTrue(session.isClosed());
      assertThrows(ClosedException.class, () -> visits(session));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"unix", "tcp", "tls", "ws"})
  void aStoppedServerHasATimeLimit(String scheme) throws Exception {
    try (Server server = Server.serve(DATABASE, listening(scheme, "--anonymous-loopback"))) {
      Options options = Database.options().withTimeout(Duration.ofMillis(400));
      try (Session session = Session.connect(server.at(scheme), options)) {
        assertEquals(0, visits(session));
        server.stop();
        long begin = System.nanoTime();
        ClosedException told = assertThrows(ClosedException.class, () -> visits(session));
        assertInstanceOf(SocketTimeoutException.class, told.getCause(), told::toString);
        long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
        assertTrue(took >= 400 && took < 1500, () -> took + " ms");
        assertThrows(
            ClosedException.class, () -> Session.connect(server.at(scheme), options).close());
      } finally {
        server.resume();
      }
    }
  }

  /** Bytes that are no reply, in hexadecimal digits, and half a reply. */
  @ParameterizedTest
  @CsvSource({
    "485454502f312e3120323030204f4b0d0a0d0a",
    "c000000000000000ffffffffffffffff",
    "00000000000000000000000000000000",
    "ffffffffffffffffffffffffffffffff",
    "81",
    "''",
  })
  void bytesThatAreNoReplyOpenNoSession(String hex) throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Thread peer =
          new Thread(
              () -> {
                try (Socket client = listener.accept()) {
                  if (client.getInputStream().read(new byte[4096]) > 0) {
                    client.getOutputStream().write(HexFormat.of().parseHex(hex));
                  }
                } catch (IOException e) {
                  // The client has gone.
                }
              });
      peer.start();
      String url = "tcp://127.0.0.1:" + listener.getLocalPort();
      assertThrows(ClosedException.class, () -> Database.connect(url).close());
      peer.join();
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "unix:///nowhere/socket",
        "tcp://127.0.0.1:1",
        "tls://127.0.0.1:1",
        "ws://127.0.0.1:1"
      })
  void nobodyIsThere(String url) {
    ClosedException told = assertThrows(ClosedException.class, () -> Database.connect(url).close());
    assertInstanceOf(Failure.ByConnection.class, told.ending());
  }
}
