package org.bifrost.veneer;

import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.foreign.MemorySegment;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.bifrost.veneer.database.Database;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Shared memory: with a server, and with one that the test plays. */
@Timeout(30)
class SharedMemoryTest {
  private static final String DATABASE = "examples/database/database.theta";

  private static long in(long millis) {
    return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static Server serve() throws IOException {
    return Server.serve(DATABASE, "--listen", "shm://FOLDER/shm");
  }

  /** A connection whose other side is the test. */
  private record Pair(ShmPeer peer, Connection client, MemorySegment memory, int socket, int bell)
      implements AutoCloseable {
    static Pair open() throws IOException {
      ShmPeer peer = new ShmPeer();
      int memory = peer.memory(ShmPeer.TOTAL, ShmPeer.ALL_SEALS);
      int bell = peer.bell();
      int[] socket = {-1};
      Thread server =
          new Thread(
              () -> {
                try {
                  socket[0] = peer.accept();
                  peer.hand(socket[0], ShmPeer.head(ShmPeer.RING, 2), memory, bell);
                } catch (IOException e) {
                  throw new IllegalStateException(e);
                }
              });
      server.start();
      Connection client = SharedMemory.connect(peer.path(), in(5000));
      MemorySegment mapped = peer.map(memory, ShmPeer.TOTAL);
      Libc.close(memory);
      return new Pair(peer, client, mapped, socket[0], bell);
    }

    ShmRing.Producer producer() {
      return new ShmRing.Producer(memory, 1);
    }

    ShmRing.Consumer consumer() {
      return new ShmRing.Consumer(memory, 0);
    }

    @Override
    public void close() throws IOException {
      client.close();
      Libc.close(socket);
      Libc.close(bell);
      peer.close();
    }
  }

  private interface Action {
    void run() throws Exception;
  }

  private static Thread later(long millis, Action action) {
    Thread thread =
        new Thread(
            () -> {
              try {
                Thread.sleep(millis);
                action.run();
              } catch (Exception e) {
                throw new IllegalStateException(e);
              }
            });
    thread.start();
    return thread;
  }

  @Test
  void carriesBytes() throws Exception {
    try (Server server = serve();
        Connection connection = Transports.connect(server.at("shm"), TlsFiles.NONE, in(5000))) {
      byte[] hello = bytes("hello 2 json\n");
      connection.send(hello, 0, hello.length, in(5000));
      byte[] buffer = new byte[1 << 16];
      int came = connection.receive(buffer, in(5000));
      assertTrue(new String(buffer, 0, came, StandardCharsets.UTF_8).contains("\"welcome\":2"));
      assertEquals(0, connection.tryReceive(buffer));
      // A server that nobody reads from takes no more bytes: answers are taken meanwhile.
      int count = 2000;
      byte[] sent = bytes(("? \"" + "x".repeat(8000) + "\"\n").repeat(count));
      long[] ends = {0};
      connection.send(
          sent, 0, sent.length, in(20_000), (some, length) -> ends[0] += ends(some, length));
      while (ends[0] < count) {
        came = connection.receive(buffer, in(5000));
        assertTrue(came > 0, () -> "the end after " + ends[0]);
        ends[0] += ends(buffer, came);
      }
      assertEquals(count, ends[0]);
    }
  }

  private static long ends(byte[] bytes, int length) {
    long count = 0;
    for (int i = 0; i < length; i++) {
      count += bytes[i] == '\n' ? 1 : 0;
    }
    return count;
  }

  @Test
  void aServerThatIsKilledIsNoticed() throws Exception {
    try (Server server = serve();
        Connection connection = Transports.connect(server.at("shm"), TlsFiles.NONE, in(5000))) {
      long[] killed = {0};
      Thread killer =
          later(
              100,
              () -> {
                server.kill();
                killed[0] = System.nanoTime();
              });
      assertEquals(-1, connection.receive(new byte[10], in(10_000)));
      long ended = System.nanoTime();
      killer.join();
      assertTrue(ended - killed[0] < TimeUnit.SECONDS.toNanos(1));
      assertThrows(IOException.class, () -> connection.send(new byte[1], 0, 1, in(1000)));
    }
  }

  @ParameterizedTest
  @CsvSource({
    "no descriptors, sent no memory",
    "no bell, sent no memory",
    "no seal, is not sealed",
    "short memory, size of the server's memory",
    "long memory, size of the server's memory",
    "another header, header of the server's memory",
    "a file, is not sealed",
    "another version, another version",
    "no power of two, rings is invalid",
    "a small ring, rings is invalid",
    "a huge ring, rings is invalid",
    "a part of a word, is not that of a listener",
    "another magic, is not that of a listener",
    "nothing, has closed the connection",
  })
  void falseHandoversAreRefused(String name, String why) throws Exception {
    try (ShmPeer peer = new ShmPeer()) {
      byte[] head = ShmPeer.head(ShmPeer.RING, 2);
      int size = ShmPeer.TOTAL;
      int memory =
          switch (name) {
            case "no seal" -> peer.memory(size, 0);
            case "short memory" -> peer.memory(size - 1, ShmPeer.ALL_SEALS);
            case "long memory" -> peer.memory(size + 1, ShmPeer.ALL_SEALS);
            case "a file" -> ShmPeer.call("open", peer.arena.allocateFrom("/proc/self/maps"), 0);
            default -> peer.memory(size, ShmPeer.ALL_SEALS);
          };
      if (name.equals("another header")) {
        peer.map(memory, size).set(JAVA_LONG, 16, 1);
      }
      byte[] message =
          switch (name) {
            case "another version" -> ShmPeer.head(ShmPeer.RING, 3);
            case "no power of two" -> ShmPeer.head(ShmPeer.RING + 8, 2);
            case "a small ring" -> ShmPeer.head(2048, 2);
            case "a huge ring" -> ShmPeer.head(1L << 31, 2);
            case "a part of a word" -> Arrays.copyOf(head, 23);
            case "another magic" -> bytes("HTTP/1.1 400 Bad Request");
            default -> head;
          };
      int bell = peer.bell();
      int[] descriptors =
          switch (name) {
            case "no descriptors" -> new int[0];
            case "no bell" -> new int[] {memory};
            default -> new int[] {memory, bell};
          };
      long before = descriptors();
      Thread server =
          later(
              0,
              () -> {
                int socket = peer.accept();
                if (!name.equals("nothing")) {
                  peer.hand(socket, message, descriptors);
                }
                Libc.close(socket);
              });
      IOException told =
          assertThrows(
              IOException.class, () -> SharedMemory.connect(peer.path(), in(5000)).close());
      assertTrue(told.getMessage().contains(why), told.getMessage());
      server.join();
      assertEquals(before, descriptors());
      Libc.close(memory);
      Libc.close(bell);
    }
  }

  @Test
  void aSilentListenerAndNone() throws Exception {
    try (ShmPeer peer = new ShmPeer()) {
      assertThrows(
          SocketTimeoutException.class, () -> SharedMemory.connect(peer.path(), in(50)).close());
      Thread waiting = Thread.currentThread();
      Thread interrupter = later(50, waiting::interrupt);
      assertThrows(
          InterruptedIOException.class,
          () -> SharedMemory.connect(peer.path(), in(10_000)).close());
      assertTrue(Thread.interrupted());
      interrupter.join();
    }
    IOException none =
        assertThrows(
            IOException.class, () -> SharedMemory.connect("/no/such/file", in(50)).close());
    assertTrue(none.getMessage().contains("no socket"), none.getMessage());
  }

  private static long descriptors() throws IOException {
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      return all.filter(one -> !target(one).contains("/") || target(one).contains("memfd")).count();
    }
  }

  private static String target(Path link) {
    try {
      return Files.readSymbolicLink(link).toString();
    } catch (IOException e) {
      // The descriptor of the list itself.
      return "/";
    }
  }

  private static long mappings() throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.filter(line -> line.contains("memfd:bifrost")).count();
    }
  }

  @Test
  void nothingIsLeft() throws Exception {
    Pair.open().close();
    Thread.sleep(100);
    long before = descriptors();
    for (int i = 0; i < 20; i++) {
      try (Pair pair = Pair.open()) {
        // The test has mapped it twice.
        assertEquals(3, mappings());
        assertEquals(0, pair.client.tryReceive(new byte[1]));
        pair.client.close();
        assertEquals(2, mappings());
        assertThrows(IOException.class, () -> pair.client.tryReceive(new byte[1]));
      }
    }
    // The thread that watches a socket closes it.
    long end = in(5000);
    while (descriptors() > before && System.nanoTime() < end) {
      Thread.sleep(10);
    }
    assertEquals(before, descriptors());
    assertEquals(0, mappings());
  }

  @Test
  void aRingIsAQueue() throws Exception {
    try (ShmPeer peer = new ShmPeer()) {
      for (int seed = 0; seed < 20; seed++) {
        Random random = new Random(seed);
        int descriptor = peer.memory(ShmPeer.TOTAL, ShmPeer.ALL_SEALS);
        MemorySegment memory = peer.map(descriptor, ShmPeer.TOTAL);
        Libc.close(descriptor);
        ShmRing.Producer producer = new ShmRing.Producer(memory, 0);
        ShmRing.Consumer consumer = new ShmRing.Consumer(memory, 0);
        byte[] model = new byte[0];
        for (int i = 0; i < 400; i++) {
          byte[] piece = new byte[1 + random.nextInt(random.nextBoolean() ? 70 : 1500)];
          if (random.nextBoolean()) {
            random.nextBytes(piece);
            int count = producer.push(piece, 0, piece.length);
            assertTrue(count > 0 || model.length > ShmPeer.RING * 7 / 8);
            int old = model.length;
            model = Arrays.copyOf(model, old + count);
            System.arraycopy(piece, 0, model, old, count);
          } else {
            int count = consumer.pull(piece);
            assertEquals(model.length == 0, count == 0);
            assertTrue(Arrays.equals(piece, 0, count, model, 0, count));
            model = Arrays.copyOfRange(model, count, model.length);
          }
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {99, 0, 100 + ShmPeer.RING + 1, -1, Long.MIN_VALUE})
  void positionsThatCannotBe(long position) throws Exception {
    try (Pair pair = Pair.open()) {
      ShmRing ring = pair.producer();
      ring.setProduced(100);
      assertEquals(100, pair.client.receive(new byte[200], in(5000)));
      ring.setProduced(position);
      for (int i = 0; i < 2; i++) {
        IOException told =
            assertThrows(IOException.class, () -> pair.client.receive(new byte[200], in(5000)));
        assertTrue(told.getMessage().contains("has broken"), told.getMessage());
      }
      assertThrows(IOException.class, () -> pair.client.send(new byte[1], 0, 1, in(1000)));
    }
    try (Pair pair = Pair.open()) {
      ShmRing ring = pair.consumer();
      pair.client.send(new byte[ShmPeer.RING], 0, ShmPeer.RING, in(5000));
      ring.setConsumed(1000);
      pair.client.send(new byte[1000], 0, 1000, in(5000));
      ring.setConsumed(position == 100 + ShmPeer.RING + 1 ? ShmPeer.RING + 1001 : position);
      IOException told =
          assertThrows(IOException.class, () -> pair.client.send(new byte[1], 0, 1, in(5000)));
      assertTrue(told.getMessage().contains("has broken"), told.getMessage());
    }
  }

  /** A server that writes anything anywhere makes errors, and no wait that does not end. */
  @Test
  void nonsenseInTheRings() throws Exception {
    int broken = 0;
    for (int seed = 0; seed < 30; seed++) {
      try (Pair pair = Pair.open()) {
        Random random = new Random(seed);
        boolean[] stop = {false};
        Object monitor = new Object();
        Thread writer =
            later(
                0,
                () -> {
                  while (true) {
                    synchronized (monitor) {
                      if (stop[0]) {
                        return;
                      }
                    }
                    ShmRing ring = random.nextBoolean() ? pair.producer() : pair.consumer();
                    switch (random.nextInt(4)) {
                      case 0 -> ring.setProduced(ring.produced() + random.nextInt(ShmPeer.RING));
                      case 1 -> ring.setConsumed(ring.consumed() + random.nextInt(ShmPeer.RING));
                      case 2 ->
                          ShmRing.setHalf(
                              ring.control.asSlice(4L * random.nextInt(128), 4), random.nextInt());
                      default -> {
                        ShmRing.setHalf(ring.consumerSleeps(), random.nextInt(4));
                        ShmRing.setHalf(ring.producerSleeps(), random.nextInt(4));
                      }
                    }
                  }
                });
        long begin = System.nanoTime();
        try {
          for (int i = 0; i < 200; i++) {
            pair.client.receive(new byte[1000], in(5));
            pair.client.send(new byte[1000], 0, 1000, in(5), (bytes, count) -> {});
          }
        } catch (SocketTimeoutException e) {
          // Nothing was written that could be believed.
        } catch (IOException e) {
          assertTrue(e.getMessage().contains("has broken"), e.getMessage());
          broken++;
        }
        assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(5));
        synchronized (monitor) {
          stop[0] = true;
        }
        writer.join();
      }
    }
    assertTrue(broken > 0);
  }

  @Test
  void timesAreLimited() throws Exception {
    try (Pair pair = Pair.open()) {
      long begin = System.nanoTime();
      assertThrows(SocketTimeoutException.class, () -> pair.client.receive(new byte[10], in(200)));
      long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
      assertTrue(took >= 200 && took < 1200, () -> took + " ms");
    }
    for (Connection.Taker taker : Arrays.asList(null, (Connection.Taker) (some, count) -> {})) {
      try (Pair pair = Pair.open()) {
        // Nobody reads: the ring is full.
        assertThrows(
            SocketTimeoutException.class,
            () -> {
              if (taker == null) {
                pair.client.send(new byte[10_000], 0, 10_000, in(50));
              } else {
                pair.client.send(new byte[10_000], 0, 10_000, in(50), taker);
              }
            });
        assertEquals(ShmPeer.RING, pair.consumer().produced());
      }
    }
  }

  private static void pushed(ShmRing.Producer producer, byte[] bytes) {
    try {
      producer.push(bytes, 0, bytes.length);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void answersWithoutEndDoNotPutTheDeadlineOff() throws Exception {
    try (Pair pair = Pair.open()) {
      ShmRing.Producer producer = pair.producer();
      byte[] one = new byte[100];
      producer.push(one, 0, one.length);
      long begin = System.nanoTime();
      assertThrows(
          SocketTimeoutException.class,
          () ->
              pair.client.send(
                  new byte[10_000], 0, 10_000, in(200), (some, count) -> pushed(producer, one)));
      assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(2));
    }
  }

  @Test
  void whatWasWrittenBeforeTheEndIsRead() throws Exception {
    try (Pair pair = Pair.open()) {
      byte[] last = bytes("last words");
      assertEquals(last.length, pair.producer().push(last, 0, last.length));
      Libc.shutdown(pair.socket);
      Thread.sleep(100);
      byte[] buffer = new byte[100];
      // Also after the deadline.
      assertEquals(last.length, pair.client.receive(buffer, in(-1)));
      assertEquals("last words", new String(buffer, 0, last.length, StandardCharsets.UTF_8));
      assertEquals(-1, pair.client.receive(buffer, in(5000)));
      assertEquals(-1, pair.client.tryReceive(buffer));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"shutdown", "bytes", "close", "interrupt"})
  void anEndWakesAReader(String how) throws Exception {
    try (Pair pair = Pair.open()) {
      Thread waiting = Thread.currentThread();
      Thread ender =
          later(
              100,
              () -> {
                switch (how) {
                  case "shutdown" -> Libc.shutdown(pair.socket);
                  case "bytes" -> pair.peer.hand(pair.socket, bytes("bytes"));
                  case "close" -> pair.client.close();
                  default -> waiting.interrupt();
                }
              });
      long begin = System.nanoTime();
      byte[] buffer = new byte[10];
      switch (how) {
        case "close" ->
            assertTrue(
                assertThrows(IOException.class, () -> pair.client.receive(buffer, in(10_000)))
                    .getMessage()
                    .contains("is closed"));
        case "interrupt" -> {
          assertThrows(InterruptedIOException.class, () -> pair.client.receive(buffer, in(10_000)));
          assertTrue(Thread.interrupted());
        }
        default -> assertEquals(-1, pair.client.receive(buffer, in(10_000)));
      }
      assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(2));
      ender.join();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void sleepersAreWoken(boolean isMissing) throws Exception {
    ShmConnection.waitvIsMissing = isMissing;
    try (Pair pair = Pair.open()) {
      ShmRing.Producer producer = pair.producer();
      byte[] woken = bytes("woken");
      int[] slept = {0};
      Thread server =
          later(
              100,
              () -> {
                producer.push(woken, 0, woken.length);
                slept[0] = ShmRing.swapHalf(producer.consumerSleeps(), 0);
                Libc.wake(producer.consumerSleeps(), 0);
              });
      assertEquals(woken.length, pair.client.receive(new byte[100], in(5000)));
      server.join();
      assertEquals(1, slept[0]);
      // The server rests, and its bell is rung, once.
      MemorySegment sleeps = pair.consumer().consumerSleeps();
      ShmRing.setHalf(sleeps, 2);
      for (int i = 0; i < 3; i++) {
        pair.client.send(woken, 0, woken.length, in(1000));
      }
      assertEquals(0, ShmRing.half(sleeps));
      MemorySegment count = pair.peer.arena.allocate(JAVA_LONG);
      assertEquals(8, ShmPeer.call("read", pair.bell, count, 8L));
      assertEquals(1, count.get(JAVA_LONG, 0));
    } finally {
      ShmConnection.waitvIsMissing = false;
    }
  }

  @Test
  void sessionsRunOverIt() throws Exception {
    try (Server server = serve()) {
      List<String> names = new ArrayList<>();
      Options options = Database.options().withTimeout(Duration.ofSeconds(10));
      try (Session session = Session.connect(server.at("shm"), options)) {
        var db = session.lookup("database", Database.DataBase.TYPE);
        Rows rows = session.rows(Str.TYPE);
        session.foreach(db.users(), user -> rows.push(user.name()));
        for (Rows.Row row : rows.claim()) {
          names.add(row.get(0));
        }
        var ann = db.fetch("ann");
        for (int i = 1; i <= 500; i++) {
          ann.touch();
          assertEquals((long) i, ann.visits().claim());
        }
      }
      assertEquals(List.of("ann", "bob", "eve"), names);
    }
  }
}
