package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** The classes for versions of Java before 22: those that are not in a jar are these. */
class OlderJavaTest {
  @Test
  void sharedMemoryNeedsANewerVersion() {
    ClosedException told =
        assertThrows(
            ClosedException.class, () -> Session.connect("shm:///a", Options.defaults()).close());
    assertTrue(told.getMessage().contains("needs Java 22 or newer"), told.getMessage());
    assertTrue(told.getMessage().contains("--enable-native-access"), told.getMessage());
  }
}
