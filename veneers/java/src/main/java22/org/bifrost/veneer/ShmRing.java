package org.bifrost.veneer;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;

/**
 * One of both rings of shared memory: its control words, and its data.
 *
 * <p>Nothing that the server writes is trusted. Positions are checked before bytes are copied, each
 * end keeps its own position in memory of its own, and bytes are copied once. All accesses are
 * within the bounds of segments.
 */
abstract sealed class ShmRing {
  /** The bytes before the data of the rings. */
  static final int HEADER_BYTES = 4096;

  /** The most bytes that are published at once. */
  static final int STEP_BYTES_MAX = 32 << 10;

  static final int COPY_BYTES = 48;

  private static final int CONTROL_AT = 1024;
  private static final int CONTROL_BYTES = 512;
  private static final long PRODUCED_AT = 0;
  private static final long COPY_START_AT = 8;
  private static final long COPY_AT = 16;
  private static final long CONSUMED_AT = 128;
  private static final long CONSUMER_SLEEPS_AT = 256;
  private static final long PRODUCER_SLEEPS_AT = 384;

  private static final VarHandle WORD = JAVA_LONG.varHandle();
  private static final VarHandle HALF = JAVA_INT.varHandle();

  final MemorySegment control;
  final MemorySegment data;
  final long capacity;

  /** Finds a ring in the memory: 0 leads to the server, 1 to the client. */
  private ShmRing(MemorySegment memory, int index) {
    capacity = (memory.byteSize() - HEADER_BYTES) / 2;
    control = memory.asSlice(CONTROL_AT + (long) index * CONTROL_BYTES, CONTROL_BYTES);
    data = memory.asSlice(HEADER_BYTES + index * capacity, capacity);
  }

  /** Returns the word with which this end says that it sleeps. */
  abstract MemorySegment ownSleep();

  /** Returns the word with which the other end says that it sleeps. */
  abstract MemorySegment otherSleep();

  /** Returns true if the other end has moved its position. */
  abstract boolean isReady();

  final MemorySegment consumerSleeps() {
    return control.asSlice(CONSUMER_SLEEPS_AT, 4);
  }

  final MemorySegment producerSleeps() {
    return control.asSlice(PRODUCER_SLEEPS_AT, 4);
  }

  final long produced() {
    return (long) WORD.getVolatile(control, PRODUCED_AT);
  }

  final void setProduced(long position) {
    WORD.setVolatile(control, PRODUCED_AT, position);
  }

  final long consumed() {
    return (long) WORD.getVolatile(control, CONSUMED_AT);
  }

  final void setConsumed(long position) {
    WORD.setVolatile(control, CONSUMED_AT, position);
  }

  static int half(MemorySegment word) {
    return (int) HALF.getVolatile(word, 0L);
  }

  static void setHalf(MemorySegment word, int value) {
    HALF.setVolatile(word, 0L, value);
  }

  static int swapHalf(MemorySegment word, int value) {
    return (int) HALF.getAndSet(word, 0L, value);
  }

  static void addBits(MemorySegment word, int bits) {
    int ignored = (int) HALF.getAndBitwiseOr(word, 0L, bits);
  }

  private static IOException corrupt() {
    return new IOException("the server has broken the positions of the shared memory");
  }

  /** The end of a ring that writes. */
  static final class Producer extends ShmRing {
    private long position;
    private long seen;

    Producer(MemorySegment memory, int index) {
      super(memory, index);
    }

    /** Writes the bytes for which there is room, and returns their number. */
    int push(byte[] bytes, int offset, int length) throws IOException {
      int wanted = (int) Math.min(Math.min(length, capacity / 4), STEP_BYTES_MAX);
      long free = capacity - (position - seen);
      if (free < wanted) {
        long consumed = consumed();
        long inRing = position - consumed;
        if (Long.compareUnsigned(inRing, position - seen) > 0) {
          throw corrupt();
        }
        seen = consumed;
        free = capacity - inRing;
      }
      int count = (int) Math.min(wanted, free);
      if (count == 0) {
        return 0;
      }
      long start = position & (capacity - 1);
      int first = (int) Math.min(count, capacity - start);
      MemorySegment.copy(bytes, offset, data, JAVA_BYTE, start, first);
      MemorySegment.copy(bytes, offset + first, data, JAVA_BYTE, 0, count - first);
      if (count <= COPY_BYTES) {
        // A reader of the copy before looks at the start again afterwards.
        WORD.setVolatile(control, COPY_START_AT, position);
        VarHandle.fullFence();
        MemorySegment.copy(bytes, offset, control, JAVA_BYTE, COPY_AT, count);
      }
      position += count;
      setProduced(position);
      return count;
    }

    @Override
    MemorySegment ownSleep() {
      return producerSleeps();
    }

    @Override
    MemorySegment otherSleep() {
      return consumerSleeps();
    }

    @Override
    boolean isReady() {
      return consumed() != seen;
    }
  }

  /** The end of a ring that reads. */
  static final class Consumer extends ShmRing {
    private long position;
    private long published;
    private long seen;
    private boolean owesWake;

    Consumer(MemorySegment memory, int index) {
      super(memory, index);
    }

    /** Reads bytes that are there, and returns their number. */
    int pull(byte[] into) throws IOException {
      if (seen == position) {
        long produced = produced();
        if (Long.compareUnsigned(produced - position, capacity) > 0) {
          throw corrupt();
        }
        seen = produced;
      }
      int count = (int) Math.min(into.length, seen - position);
      if (count == 0) {
        return 0;
      }
      long start = position & (capacity - 1);
      int first = (int) Math.min(count, capacity - start);
      if (seen - position > COPY_BYTES || !takeCopy(into, count)) {
        MemorySegment.copy(data, JAVA_BYTE, start, into, 0, first);
        MemorySegment.copy(data, JAVA_BYTE, 0, into, first, count - first);
      }
      position += count;
      // The server lacks room only if 7/8 of the ring wait here.
      if (position - published >= capacity / 8) {
        setConsumed(position);
        published = position;
        owesWake = true;
      }
      return count;
    }

    private boolean takeCopy(byte[] into, int count) {
      if ((long) WORD.getVolatile(control, COPY_START_AT) != position) {
        return false;
      }
      MemorySegment.copy(control, JAVA_BYTE, COPY_AT, into, 0, count);
      VarHandle.fullFence();
      return (long) WORD.getVolatile(control, COPY_START_AT) == position;
    }

    /** Returns true once after the position was published: the server may wait for that. */
    boolean takeOwedWake() {
      boolean owed = owesWake;
      owesWake = false;
      return owed;
    }

    @Override
    MemorySegment ownSleep() {
      return consumerSleeps();
    }

    @Override
    MemorySegment otherSleep() {
      return producerSleeps();
    }

    @Override
    boolean isReady() {
      return produced() != seen;
    }
  }
}
