package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The transports below sessions: lines of the text form go to a server and come back. */
@Timeout(20)
class TransportsTest {
  private static final String DATABASE = "examples/database/database.theta";
  private static Server server;

  @BeforeAll
  static void serve() throws IOException {
    List<String> arguments = new ArrayList<>(List.of("--anonymous-loopback"));
    for (String scheme : List.of("tcp", "tls", "ws", "wss")) {
      arguments.addAll(List.of("--listen", scheme + "://127.0.0.1:0"));
    }
    server = Server.serve(DATABASE, arguments.toArray(new String[0]));
  }

  @AfterAll
  static void end() {
    server.close();
  }

  private static long in(long millis) {
    return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
  }

  private static Connection connect(String url) throws IOException {
    return Transports.connect(url, TlsFiles.NONE, in(5000));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** Reads until lines have come. */
  private static String lines(Connection connection, int count) throws IOException {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    byte[] buffer = new byte[1000];
    while (all.toString(StandardCharsets.UTF_8).lines().count() < count
        || !all.toString(StandardCharsets.UTF_8).endsWith("\n")) {
      int came = connection.receive(buffer, in(5000));
      if (came < 0) {
        break;
      }
      all.write(buffer, 0, came);
    }
    return all.toString(StandardCharsets.UTF_8);
  }

  private static String visits(Connection connection, String hello) throws IOException {
    byte[] sent =
        bytes(hello + "\n$d := lookup database: DataBase\n? $d.fetch(\"bob\").visits()\n");
    connection.send(sent, 0, sent.length, in(5000));
    return lines(connection, 2);
  }

  @ParameterizedTest
  @ValueSource(strings = {"unix", "tcp", "tls", "ws", "wss"})
  void carriesBytes(String scheme) throws Exception {
    try (Connection connection = connect(server.at(scheme))) {
      String answer = visits(connection, "hello 2 json");
      assertTrue(answer.contains("\"welcome\":2"), answer);
      assertTrue(answer.contains("\"value\":0"), answer);
      byte[] buffer = new byte[10];
      assertEquals(0, connection.tryReceive(buffer));
      byte[] bye = bytes("xbye\n");
      connection.send(bye, 1, bye.length - 1, in(5000));
      String last = lines(connection, 1);
      assertTrue(last.contains("bye"), last);
      assertEquals(-1, connection.receive(buffer, in(5000)));
    }
  }

  /** A server that nobody reads from takes no more bytes: answers are taken meanwhile. */
  @ParameterizedTest
  @ValueSource(strings = {"unix", "tcp", "tls", "ws", "wss"})
  void sendsWhileAnswersCome(String scheme) throws Exception {
    String line = "? \"" + "x".repeat(8000) + "\"\n";
    int count = 2000;
    try (Connection connection = connect(server.at(scheme))) {
      byte[] hello = bytes("hello 2 json\n");
      connection.send(hello, 0, hello.length, in(5000));
      byte[] sent = bytes(line.repeat(count));
      long[] ends = {0};
      connection.send(
          sent, 0, sent.length, in(50_000), (came, length) -> ends[0] += ends(came, length));
      byte[] buffer = new byte[1 << 16];
      while (ends[0] <= count) {
        int came = connection.receive(buffer, in(5000));
        assertTrue(came > 0, () -> "the end after " + ends[0]);
        ends[0] += ends(buffer, came);
      }
      assertEquals(1 + count, ends[0]);
    }
  }

  private static long ends(byte[] bytes, int length) {
    return IntStream.range(0, length).filter(at -> bytes[at] == '\n').count();
  }

  @ParameterizedTest
  @ValueSource(strings = {"unix", "tcp", "tls", "ws", "wss"})
  void waitsNoLongerThanItShould(String scheme) throws Exception {
    try (Connection connection = connect(server.at(scheme))) {
      visits(connection, "hello 2 json");
      long begin = System.nanoTime();
      byte[] buffer = new byte[10];
      assertThrows(SocketTimeoutException.class, () -> connection.receive(buffer, in(300)));
      long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
      assertTrue(took >= 300 && took < 1300, () -> took + " ms");
      assertThrows(IOException.class, () -> connection.receive(buffer, in(300)));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"unix", "tls", "ws"})
  void anInterruptionEndsAWait(String scheme) throws Exception {
    try (Connection connection = connect(server.at(scheme))) {
      Thread waiting = Thread.currentThread();
      Thread interrupter =
          new Thread(
              () -> {
                try {
                  Thread.sleep(200);
                } catch (InterruptedException e) {
                  throw new IllegalStateException(e);
                }
                waiting.interrupt();
              });
      interrupter.start();
      assertThrows(
          InterruptedIOException.class, () -> connection.receive(new byte[10], in(10_000)));
      assertTrue(Thread.interrupted());
      interrupter.join();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"unix", "tcp", "tls", "ws", "wss"})
  void aKilledServerIsToldAtOnce(String scheme) throws Exception {
    try (Server other =
        Server.serve(
            DATABASE,
            "--listen",
            scheme.equals("unix") ? "tcp://127.0.0.1:0" : scheme + "://127.0.0.1:0",
            "--anonymous-loopback")) {
      try (Connection connection = connect(other.at(scheme))) {
        visits(connection, "hello 2 json");
        other.kill();
        long begin = System.nanoTime();
        int came;
        try {
          came = connection.receive(new byte[10], in(10_000));
        } catch (SocketTimeoutException e) {
          throw e;
        } catch (IOException e) {
          came = -1;
        }
        assertEquals(-1, came);
        assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(1));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"tls", "wss"})
  void serversAreTrustedByTheirPin(String scheme) throws Exception {
    String url = server.at(scheme);
    String place = url.substring(0, url.indexOf('#'));
    String pin = url.substring(url.indexOf('#') + 1);
    IOException unknown = assertThrows(IOException.class, () -> connect(place).close());
    assertTrue(texts(unknown).contains(pin), () -> "the error has the pin: " + texts(unknown));
    String wrong = pin.substring(0, 10) + (pin.charAt(10) == 'A' ? 'B' : 'A') + pin.substring(11);
    IOException other = assertThrows(IOException.class, () -> connect(place + "#" + wrong).close());
    assertTrue(texts(other).contains("another key"), () -> texts(other));
    TlsFiles both = new TlsFiles(Path.of("/etc/hosts"), null, null);
    assertThrows(
        IllegalArgumentException.class, () -> Transports.connect(url, both, in(5000)).close());
  }

  private static String texts(Throwable error) {
    StringBuilder all = new StringBuilder();
    for (Throwable one = error; one != null; one = one.getCause()) {
      all.append(one.getMessage()).append("; ");
    }
    return all.toString();
  }

  @Test
  void authoritiesAndCertificatesOfClients(@TempDir Path folder) throws Exception {
    Server.run(folder, "certificate", "--name", "localhost", "-o", "made");
    Server.run(
        folder, "certificate", "--client", "--name", "me", "--ca", "made/ca.pem", "-o", "made");
    Server.run(folder, "certificate", "--name", "other", "-o", "strange");
    Path made = folder.resolve("made");
    Files.writeString(
        folder.resolve("bifrost.toml"),
        "[tls]\ncertificate = \"%s/localhost.pem\"\nkey = \"%s/localhost-key.pem\"\nclients = \"%s/ca.pem\"\nrequired = true\n"
            .replace("%s", made.toString()));
    TlsFiles good =
        new TlsFiles(made.resolve("ca.pem"), made.resolve("me.pem"), made.resolve("me-key.pem"));
    TlsFiles none = new TlsFiles(made.resolve("ca.pem"), null, null);
    TlsFiles strange =
        new TlsFiles(folder.resolve("strange/ca.pem"), good.certificate(), good.key());
    try (Server other =
        Server.serve(
            DATABASE,
            "--config",
            folder.resolve("bifrost.toml").toString(),
            "--listen",
            "tls://127.0.0.1:0",
            "--listen",
            "wss://127.0.0.1:0",
            "--anonymous-loopback")) {
      for (String scheme : List.of("tls", "wss")) {
        String url = other.at(scheme).replaceAll("#.*", "").replace("127.0.0.1", "localhost");
        try (Connection connection = Transports.connect(url, good, in(5000))) {
          assertTrue(visits(connection, "hello 2 json").contains("\"value\":0"));
        }
        String noName = url.replace("localhost", "127.0.0.1");
        assertThrows(IOException.class, () -> Transports.connect(noName, good, in(5000)).close());
        assertThrows(IOException.class, () -> Transports.connect(url, strange, in(5000)).close());
        assertThrows(
            IOException.class,
            () -> {
              try (Connection connection = Transports.connect(url, none, in(5000))) {
                visits(connection, "hello 2 json");
                throw new AssertionError("a client without a certificate");
              }
            });
      }
    }
  }

  @Test
  void filesThatCannotBeUsed(@TempDir Path folder) throws Exception {
    Server.run(folder, "certificate", "--name", "localhost", "-o", ".");
    Path ca = folder.resolve("ca.pem");
    Path empty = Files.writeString(folder.resolve("empty"), "");
    Path old =
        Files.writeString(
            folder.resolve("old"),
            "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n");
    Path wrong =
        Files.writeString(
            folder.resolve("wrong"),
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    for (TlsFiles files :
        List.of(
            new TlsFiles(folder.resolve("missing"), null, null),
            new TlsFiles(empty, null, null),
            new TlsFiles(wrong, null, null),
            new TlsFiles(ca, ca, null),
            new TlsFiles(ca, ca, empty),
            new TlsFiles(ca, ca, old),
            new TlsFiles(ca, ca, wrong))) {
      IllegalArgumentException told =
          assertThrows(
              IllegalArgumentException.class,
              () -> Transports.connect("tls://localhost:1", files, in(5000)).close());
      assertTrue(told.getMessage() != null && !told.getMessage().isEmpty());
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "unix:///nowhere/socket",
        "tcp://127.0.0.1:1",
        "tls://127.0.0.1:1",
        "ws://127.0.0.1:1/x",
        "wss://127.0.0.1:1/x",
        "tcp://no.such.host.invalid:1",
      })
  void nobodyIsThere(String url) {
    assertThrows(IOException.class, () -> connect(url).close());
  }

  /** A peer that answers with bytes, once it was asked, and closes. */
  private static Thread peer(ServerSocket listener, byte[] answer, boolean isSilent) {
    Thread thread =
        new Thread(
            () -> {
              try (Socket client = listener.accept()) {
                client.setSoTimeout(3000);
                int asked = client.getInputStream().read(new byte[4096]);
                if (asked > 0) {
                  client.getOutputStream().write(answer);
                }
                if (isSilent) {
                  while (client.getInputStream().read(new byte[4096]) >= 0) {}
                }
              } catch (IOException e) {
                // The client has gone.
              }
            });
    thread.start();
    return thread;
  }

  private static final String ACCEPTED =
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";

  @ParameterizedTest
  @CsvSource({
    "tls, HTTP/1.1 400 Bad Request",
    "ws, HTTP/1.1 200 OK",
    "ws, HTTP/1.1 403 Forbidden",
    "ws, nonsense",
    "wss, nonsense",
    "tls, ''",
    "ws, ''",
    "wss, ''",
  })
  void otherServersAreNone(String scheme, String answer) throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Thread peer = peer(listener, bytes(answer + "\r\n\r\n"), false);
      String url = scheme + "://127.0.0.1:" + listener.getLocalPort();
      long begin = System.nanoTime();
      IOException told = assertThrows(IOException.class, () -> connect(url).close());
      // The JDK's websocket may not notice that a handshake of TLS has ended: then the time limit
      // does.
      boolean isInTime = !(told instanceof SocketTimeoutException) || scheme.equals("wss");
      assertTrue(isInTime, told::toString);
      assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(8));
      peer.join();
    }
  }

  @Test
  void anAcceptanceThatIsWrongIsNone() throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Thread peer = peer(listener, bytes(ACCEPTED + "Sec-WebSocket-Accept: AAAA\r\n\r\n"), true);
      String url = "ws://127.0.0.1:" + listener.getLocalPort();
      assertThrows(IOException.class, () -> connect(url).close());
      peer.join();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"tls", "ws", "wss"})
  void aServerThatSaysNothingHasATimeLimit(String scheme) throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Thread peer = peer(listener, new byte[0], true);
      String url = scheme + "://127.0.0.1:" + listener.getLocalPort();
      long begin = System.nanoTime();
      IOException told =
          assertThrows(
              IOException.class, () -> Transports.connect(url, TlsFiles.NONE, in(400)).close());
      assertInstanceOf(SocketTimeoutException.class, told);
      assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(2));
      peer.join();
    }
  }

  /** A way to a server that is cut after so many bytes of its answers, or has one changed. */
  private static Thread way(ServerSocket listener, int port, int cutAfter, int changedAt) {
    Thread thread =
        new Thread(
            () -> {
              try (Socket client = listener.accept();
                  Socket there = new Socket(InetAddress.getLoopbackAddress(), port)) {
                Thread back =
                    new Thread(
                        () -> {
                          try {
                            client.getInputStream().transferTo(there.getOutputStream());
                            there.shutdownOutput();
                          } catch (IOException e) {
                            // It was cut.
                          }
                        });
                back.start();
                byte[] one = new byte[1];
                for (int at = 0; at < cutAfter && there.getInputStream().read(one) > 0; at++) {
                  if (at == changedAt) {
                    one[0] ^= 1;
                  }
                  client.getOutputStream().write(one);
                }
              } catch (IOException e) {
                // The client has gone.
              }
            });
    thread.start();
    return thread;
  }

  @ParameterizedTest
  @CsvSource({
    "tls, 10, -1",
    "tls, 700, -1",
    "tls, 1500, -1",
    "tls, 100000, 10",
    "tls, 100000, 300",
    "tls, 100000, 900",
    "wss, 500, -1",
    "wss, 100000, 300",
    "ws, 100, -1",
    "ws, 200, -1",
    "ws, 100000, 150",
  })
  void connectionsThatAreCutOrChangedFail(String scheme, int cutAfter, int changedAt)
      throws Exception {
    String url = server.at(scheme);
    String port = url.replaceAll("^.*:([0-9]+).*$", "$1");
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Thread way = way(listener, Integer.parseInt(port), cutAfter, changedAt);
      String place = url.replace(":" + port, ":" + listener.getLocalPort());
      long begin = System.nanoTime();
      assertThrows(
          IOException.class,
          () -> {
            try (Connection connection = Transports.connect(place, TlsFiles.NONE, in(1000))) {
              visits(connection, "hello 2 json");
              byte[] more = bytes("? 1\n");
              byte[] buffer = new byte[1000];
              for (int i = 0; i < 5000; i++) {
                connection.send(more, 0, more.length, in(1000));
                if (connection.receive(buffer, in(1000)) < 0) {
                  throw new IOException("the end");
                }
              }
            }
          });
      assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(5));
      way.join();
    }
  }

  @Test
  void theTimeOfASendIsLimited() throws Exception {
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
        Connection connection = connect("tcp://127.0.0.1:" + listener.getLocalPort())) {
      byte[] much = new byte[32 << 20];
      Arrays.fill(much, (byte) 'x');
      assertThrows(
          SocketTimeoutException.class, () -> connection.send(much, 0, much.length, in(300)));
    }
    try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
        Connection connection = connect("tcp://127.0.0.1:" + listener.getLocalPort())) {
      byte[] much = new byte[32 << 20];
      assertThrows(
          SocketTimeoutException.class,
          () -> connection.send(much, 0, much.length, in(300), (came, count) -> {}));
    }
  }
}
