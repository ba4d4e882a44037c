package org.bifrost.veneer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A server under test as a child process: none outlives its test. */
final class Server implements AutoCloseable {
  /** The root of the repository; Maven runs tests in the folder of the library. */
  static final Path ROOT = Path.of("../..").toAbsolutePath().normalize();

  /** The program {@code bifrost}. */
  static final Path PROGRAM =
      System.getenv("BIFROST_BIN") == null
          ? ROOT.resolve("target/debug/bifrost")
          : Path.of(System.getenv("BIFROST_BIN")).toAbsolutePath();

  private static final long END_SECONDS = 20;

  /** Its folder, which goes with it. */
  final Path folder;

  private final Process process;
  private final List<String> urls;

  private Server(Path folder, Process process, List<String> urls) {
    this.folder = folder;
    this.process = process;
    this.urls = urls;
  }

  /**
   * Serves a program of the repository at a unix socket, and where the arguments say. {@code
   * FOLDER} in these is its folder.
   */
  static Server serve(String program, String... arguments) throws IOException {
    List<String> all = new ArrayList<>(List.of("serve", "--listen", "unix://FOLDER/socket"));
    all.addAll(List.of(arguments));
    all.add(ROOT.resolve(program).toString());
    return start(all.toArray(new String[0]));
  }

  /** Starts {@code bifrost} with arguments, and waits until it is ready. */
  static Server start(String... arguments) throws IOException {
    Path folder = Files.createTempDirectory("bifrost-java-");
    List<String> command = new ArrayList<>(List.of(PROGRAM.toString()));
    for (String argument : arguments) {
      command.add(argument.replace("FOLDER", folder.toString()));
    }
    Process process =
        prepare(folder, command).redirectError(folder.resolve("log").toFile()).start();
    BufferedReader out =
        new BufferedReader(
            new java.io.InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    String line = out.readLine();
    if (line == null || !line.startsWith("ready ")) {
      process.destroyForcibly();
      throw new IOException("the server did not start: " + Files.readString(folder.resolve("log")));
    }
    return new Server(folder, process, List.of(line.substring("ready ".length()).split(" ")));
  }

  /** Runs {@code bifrost} with arguments to its end; returns its output. */
  static String run(Path folder, String... arguments) throws IOException {
    List<String> command = new ArrayList<>(List.of(PROGRAM.toString()));
    command.addAll(List.of(arguments));
    Process process = prepare(folder, command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    try {
      if (process.waitFor() != 0) {
        throw new IOException(said);
      }
    } catch (InterruptedException e) {
      throw new IOException(e);
    }
    return said;
  }

  private static ProcessBuilder prepare(Path folder, List<String> command) {
    ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
    builder.environment().keySet().removeIf(name -> name.startsWith("BIFROST_"));
    // A certificate that it makes is its own.
    builder.environment().put("XDG_STATE_HOME", folder.toString());
    return builder;
  }

  /** Returns the address of the unix socket. */
  String url() {
    return urls.get(0);
  }

  /** Returns the address with a scheme. */
  String at(String scheme) {
    return urls.stream().filter(url -> url.startsWith(scheme + "://")).findFirst().orElseThrow();
  }

  /** Returns the number of its process. */
  long pid() {
    return process.pid();
  }

  /** Stops it, and waits until each of its threads has stopped. */
  void stop() throws IOException, InterruptedException {
    signal("STOP");
    try (Stream<Path> threads = Files.list(Path.of("/proc", Long.toString(pid()), "task"))) {
      for (Path thread : threads.toList()) {
        while (!Files.readString(thread.resolve("status")).contains("State:\tT")) {
          Thread.sleep(1);
        }
      }
    }
  }

  /** Lets it go on. */
  void resume() throws IOException, InterruptedException {
    signal("CONT");
  }

  private void signal(String name) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + name, Long.toString(pid())).inheritIO().start().waitFor();
  }

  /** Kills it, and waits for its end. */
  void kill() throws InterruptedException {
    process.destroyForcibly().waitFor();
  }

  @Override
  public void close() {
    process.destroyForcibly();
    try {
      if (!process.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
        throw new IllegalStateException("the server does not end");
      }
      try (Stream<Path> files = Files.walk(folder)) {
        for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
          Files.deleteIfExists(file);
        }
      }
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
