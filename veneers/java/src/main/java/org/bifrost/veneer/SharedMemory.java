package org.bifrost.veneer;

import java.io.IOException;

/** Shared memory, on versions of Java that have none; the jar has another class for newer ones. */
final class SharedMemory {
  private SharedMemory() {}

  /** Throws: memory outside the heap needs a newer version. */
  @SuppressWarnings("DoNotCallSuggester")
  static Connection connect(String path, long deadline) throws IOException {
    throw new IOException(
        "shared memory needs Java 22 or newer, `--enable-native-access=ALL-UNNAMED`, and a jar"
            + " that was built with BIFROST_JDK: this is Java "
            + Runtime.version().feature()
            + "; connect to `unix:///path`");
  }
}
