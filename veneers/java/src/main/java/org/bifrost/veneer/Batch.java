package org.bifrost.veneer;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** A batch under way. */
final class Batch {
  /** The positions of a batch, with their slots and the calls that made them. */
  static final class Futures {
    private @Nullable Slot[] slots = new Slot[64];
    private long[] makers = new long[64];
    private @Nullable Object @Nullable [] sources;
    int count;

    /**
     * Adds a position; the slot is null if nobody wants its result. Returns the position, from 1.
     */
    int add(@Nullable Slot slot, long maker, @Nullable Object source) {
      if (count == slots.length) {
        slots = Arrays.copyOf(slots, 2 * count);
        makers = Arrays.copyOf(makers, 2 * count);
        if (sources != null) {
          sources = Arrays.copyOf(sources, 2 * count);
        }
      }
      slots[count] = slot;
      makers[count] = maker;
      if (source != null) {
        if (sources == null) {
          sources = new Object[slots.length];
        }
        sources[count] = source;
      }
      return ++count;
    }

    @Nullable Slot slot(int index) {
      return slots[index];
    }

    void forget(int index) {
      slots[index] = null;
    }

    long maker(int index) {
      return makers[index];
    }

    @Nullable Object source(int index) {
      return sources == null ? null : sources[index];
    }

    /** Takes back the positions from a place on. */
    void truncate(int length) {
      for (int index = length; index < count; index++) {
        slots[index] = null;
        if (sources != null) {
          sources[index] = null;
        }
      }
      count = Math.min(count, length);
    }
  }

  /**
   * An operand that the server knows as the error-handle only: the position of its call, the
   * argument, its failure.
   */
  record ErrorHandle(int position, int argument, Failure failure) {}

  /** A whole structure that is in no other one, by the first position behind its begin marker. */
  record Outermost(int position, Structure kind, @Nullable Object source) {}

  /**
   * The failures of an answered batch by position: later batches up to a last one may name them.
   */
  record Answered(long batch, long last, Map<Integer, Failure> failures) {}

  /** Its number in the session, from 1. */
  final long number;

  final Futures futures;
  final List<ErrorHandle> errorHandles;
  final List<Outermost> structures;

  /** The transactions at its begin and at its end. */
  final int firstTransaction;

  final int lastTransaction;

  /** The position up to which failures of calls need not be told. */
  long forgiven;

  /** True if later batches may name its results. */
  boolean isKept;

  /** The number of results that its answer has. */
  int wanted;

  /** The number of bytes of the session up to its end. */
  long endsAt;

  /** The milliseconds that it may wait for changes of others. */
  final long waitMs;

  Batch(Recorder r, boolean isKept) {
    number = r.batchNumber;
    futures = r.futures;
    errorHandles = r.errorHandles;
    structures = r.structures.outermost;
    firstTransaction = r.account.firstTransaction;
    lastTransaction = r.account.transaction;
    forgiven = r.account.forgiven;
    waitMs = r.batchWaitMs;
    this.isKept = isKept;
  }

  /** Returns the transaction that a call belongs to. */
  int transactionAt(int position) {
    if (firstTransaction == lastTransaction) {
      return lastTransaction;
    }
    long before = Math.min(Math.max((position & 0xffffffffL) - 1, 0), futures.count);
    for (int index = (int) before - 1; index >= 0; index--) {
      long maker = futures.maker(index);
      if (Maker.isOf(maker, Maker.COMMIT) || Maker.isOf(maker, Maker.ABORT)) {
        return (int) maker + 1;
      }
    }
    return firstTransaction;
  }

  /**
   * Returns the failure of an argument that the server knows as the error-handle only; null if none
   * is known.
   */
  @Nullable Failure errorHandle(int position, int argument) {
    Failure any = null;
    for (int index = errorHandles.size() - 1; index >= 0; index--) {
      ErrorHandle entry = errorHandles.get(index);
      if (entry.position() != position) {
        continue;
      }
      if (entry.argument() == argument) {
        return entry.failure();
      }
      if (any == null) {
        any = entry.failure();
      }
    }
    return any;
  }

  /** Returns the name of the outermost structure whose first position this is; null for none. */
  Failure.@Nullable CallName structureName(int position) {
    for (Outermost one : structures) {
      if (one.position() == position) {
        return new Failure.CallName(one.kind().wireName, position, List.of(), one.source());
      }
    }
    return null;
  }
}
