package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The samples print what they promise, each as a process of its own. */
class SamplesTest {
  private static final Path SAMPLES = Path.of("samples");

  @ParameterizedTest
  @ValueSource(strings = {"auctions", "database", "lists", "points"})
  void printsWhatIsExpected(String name) throws Exception {
    try (Server server = Server.serve("examples/" + name + "/" + name + ".theta")) {
      ProcessBuilder builder =
          new ProcessBuilder(
              Path.of(System.getProperty("java.home"), "bin", "java").toString(),
              "-cp",
              "target/classes:target/test-classes",
              name + ".Main");
      builder.environment().put("BIFROST_URL", server.url());
      Process process = builder.redirectErrorStream(true).start();
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(Files.readString(SAMPLES.resolve(name).resolve("expected.txt")), said);
      assertEquals(0, process.waitFor());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"auctions", "database", "lists", "points"})
  void hasTheStubsOfItsProgram(String name, @org.junit.jupiter.api.io.TempDir Path folder)
      throws IOException {
    String simple = name.substring(0, 1).toUpperCase(java.util.Locale.ROOT) + name.substring(1);
    Server.run(
        folder,
        "veneer",
        "--lang",
        "java",
        "--class",
        name + "." + simple,
        Server.ROOT.resolve("examples/" + name + "/" + name + ".theta").toString(),
        "-o",
        SAMPLES.resolve(name).toAbsolutePath().toString(),
        "--check");
  }

  @Test
  void theDatabasePrintsWhatTheClientInRustPrints() throws IOException {
    assertEquals(
        Files.readString(Server.ROOT.resolve("examples/database/rust/tour.txt")),
        Files.readString(SAMPLES.resolve("database/expected.txt")));
  }
}
