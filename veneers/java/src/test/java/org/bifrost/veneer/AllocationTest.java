package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import org.bifrost.veneer.conformance.Conformance;
import org.bifrost.veneer.conformance.Conformance.Probe;
import org.junit.jupiter.api.Test;

/** What recording allocates. */
class AllocationTest {
  /** The calls of a batch: so few that no buffer grows, and nothing is sent before the claim. */
  private static final int CALLS = 60;

  private static final int BATCHES = 100;

  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private static long allocated(Runnable body) {
    long before = THREADS.getCurrentThreadAllocatedBytes();
    body.run();
    return THREADS.getCurrentThreadAllocatedBytes() - before;
  }

  @Test
  void aRecordedCallIsOneObject() throws IOException {
    try (Server server = Server.serve("cases/programs/conformance.theta");
        Session s = Conformance.connect(server.url())) {
      Probe probe = s.lookup("probe", Probe.TYPE);
      Int[] results = new Int[CALLS];
      for (int batch = 0; batch < BATCHES; batch++) {
        long stubs =
            allocated(
                () -> {
                  for (int n = 0; n < CALLS; n++) {
                    results[n] = new Int(s);
                  }
                });
        long recorded =
            allocated(
                () -> {
                  for (int n = 0; n < CALLS; n++) {
                    results[n] = probe.sameInt(n);
                  }
                });
        // The first batches load classes.
        if (batch == BATCHES - 1) {
          assertTrue(stubs >= 16 * CALLS, () -> stubs + " bytes");
          assertEquals(stubs, recorded, "bytes of the stubs, and of the recorded calls");
        }
        assertEquals(CALLS - 1, results[CALLS - 1].claim());
      }
    }
  }
}
