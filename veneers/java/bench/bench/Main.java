package bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.bifrost.veneer.Int;
import org.bifrost.veneer.Rows;
import org.bifrost.veneer.Session;
import org.bifrost.veneer.Str;
import org.bifrost.veneer.conformance.Conformance;
import org.bifrost.veneer.conformance.Conformance.Probe;

/**
 * The measured client of {@code bifrost bench veneers} in Java.
 *
 * <p>It connects to {@code BIFROST_URL}, a server of the conformance program, and answers lines
 * {@code CASE N} by the nanoseconds and the result of N steps ({@code bench/veneers/README.md}).
 */
public final class Main {
  /** The bytes of a call with one integer and its flush. */
  private static final int PING_BYTES = 40;

  /** The runs of each case before the first line, so that its code is compiled. */
  private static final int WARM_RUNS = 60;

  private final Session session;
  private final Probe probe;
  private final SocketChannel raw;
  private final ByteBuffer ping = ByteBuffer.allocateDirect(PING_BYTES);
  private long result;
  private long end;

  private Main(Session session, SocketChannel raw) {
    this.session = session;
    this.raw = raw;
    probe = session.lookup("probe", Probe.TYPE);
    probe.await();
  }

  private void record(int count) {
    session.batch(
        () -> {
          for (int n = 0; n < count; n++) {
            probe.sameInt(n);
          }
          end = System.nanoTime();
        });
    result = (long) count * (count - 1) / 2;
  }

  private void batch(int count) {
    List<Int> all = new ArrayList<>(count);
    for (int n = 0; n < count; n++) {
      all.add(probe.sameInt(n));
    }
    all.get(count - 1).claim();
    end = System.nanoTime();
    for (Int one : all) {
      result += one.claim();
    }
  }

  private void table(int count) {
    Rows rows = session.rows(Int.TYPE, Str.TYPE);
    session.foreach(probe.pairs(count), (n, text) -> rows.push(n, text));
    for (Rows.Row row : rows.claim()) {
      long number = row.get(0);
      String text = row.get(1);
      result += number + text.length();
    }
  }

  private void raw(int count) throws IOException {
    for (int n = 0; n < count; n++) {
      ping.clear();
      raw.write(ping);
      ping.clear();
      while (ping.hasRemaining() && raw.read(ping) >= 0) {}
      result++;
    }
  }

  /** Runs a case. Returns the nanoseconds. */
  private long run(String name, int count) throws IOException {
    result = 0;
    end = 0;
    long begin = System.nanoTime();
    switch (name) {
      case "record" -> record(count);
      case "batch" -> batch(count);
      case "null" -> {
        for (int n = 0; n < count; n++, result++) {
          probe.nothing().claim();
        }
      }
      case "pair" -> {
        for (int n = 0; n < count; n++) {
          result += probe.sameInt(n).claim();
        }
      }
      case "two" -> {
        for (int n = 0; n < count; n++) {
          result += probe.itself().sameInt(n).claim();
        }
      }
      case "table" -> table(count);
      case "raw" -> raw(count);
      default -> throw new IllegalArgumentException("no case " + name);
    }
    return (end == 0 ? System.nanoTime() : end) - begin;
  }

  /** Sends back all bytes that come. */
  private static void echo(ServerSocketChannel listener) {
    try (SocketChannel peer = listener.accept()) {
      ByteBuffer bytes = ByteBuffer.allocateDirect(PING_BYTES);
      while (peer.read(bytes) >= 0) {
        bytes.flip();
        while (bytes.hasRemaining()) {
          peer.write(bytes);
        }
        bytes.clear();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Runs the cases that standard input names. */
  public static void main(String[] arguments) throws IOException {
    Path folder = Files.createTempDirectory("bifrost-bench-");
    UnixDomainSocketAddress place = UnixDomainSocketAddress.of(folder.resolve("raw"));
    try (ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
      listener.bind(place);
      Thread echo = new Thread(() -> echo(listener), "echo");
      echo.setDaemon(true);
      echo.start();
      try (SocketChannel raw = SocketChannel.open(place);
          Session session = Conformance.connect(System.getenv("BIFROST_URL"))) {
        Main main = new Main(session, raw);
        for (String name : List.of("record", "null", "pair", "two", "batch", "table", "raw")) {
          for (int i = 0; i < WARM_RUNS; i++) {
            main.run(name, 1000);
          }
        }
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          List<String> words = List.of(line.split(" "));
          long took = main.run(words.get(0), Integer.parseInt(words.get(1)));
          System.out.println(took + " " + main.result);
        }
      }
    } finally {
      Files.deleteIfExists(folder.resolve("raw"));
      Files.delete(folder);
    }
  }
}
