package org.bifrost.veneer;

/** The limits of a batch, which the server tells. They are unsigned, and compared so. */
final class Bounds {
  /** The greatest value that a bound has here: no batch comes near it. */
  private static final long MOST = Long.MAX_VALUE / 4;

  long frameBytes;
  long batchBytes;
  long commands;
  long futures;
  long depth;

  /** The milliseconds that one wait lasts at most: 32 bits. */
  long waitMs;

  long underWay;

  /** True if the server makes profiles. */
  boolean hasProfiles;

  /** Makes the limits of a server that tells none. */
  Bounds() {
    for (Tables.LimitRow row : Tables.LIMITS) {
      if (row.number() != Tables.LIMIT_PROFILE_ENTRIES) {
        set(row.number(), row.defaultValue());
      }
    }
  }

  /** Notes a limit of the server; limits that concern no batch are ignored. */
  void set(int limit, long value) {
    long bounded = value < 0 ? MOST : Math.min(value, MOST);
    switch (limit) {
      case Tables.LIMIT_FRAME_BYTES -> frameBytes = bounded;
      case Tables.LIMIT_BATCH_BYTES -> batchBytes = bounded;
      case Tables.LIMIT_BATCH_COMMANDS -> commands = bounded;
      case Tables.LIMIT_FUTURES -> futures = bounded;
      case Tables.LIMIT_DEPTH -> depth = bounded;
      case Tables.LIMIT_WAIT_MS -> waitMs = Math.min(bounded, 0xffffffffL);
      // References count back in a byte.
      case Tables.LIMIT_BATCHES_UNDER_WAY -> underWay = Math.min(Math.max(bounded, 1), 255);
      case Tables.LIMIT_PROFILE_ENTRIES -> hasProfiles = true;
      default -> {}
    }
  }
}
