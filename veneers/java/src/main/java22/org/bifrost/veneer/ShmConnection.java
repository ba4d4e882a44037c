package org.bifrost.veneer;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;
import java.net.SocketTimeoutException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * A connection by shared memory: two rings that both processes map.
 *
 * <p>A wait spins for as long as that has paid lately, and then sleeps on words by {@code
 * futex_waitv}: those of the rings, which the server wakes, and a private one for the end. A
 * sleeper first says so by its word, and then looks once more. The server first publishes, and then
 * looks at the word. So one of both sees the other.
 */
final class ShmConnection implements Connection {
  private static final Cleaner CLEANER = Cleaner.create();
  private static final int TAKE_BYTES = 64 << 10;
  private static final long SPIN_MAX = TimeUnit.MICROSECONDS.toNanos(50);
  private static final long SPIN_MIN = TimeUnit.MICROSECONDS.toNanos(1);

  /** The looks at the rings between two at the clock. */
  private static final int LOOKS = 32;

  /** The number of short sleeps of which one is preceded by a spin of full length. */
  private static final int PROBE_EVERY = 64;

  /** The longest sleep, so that times do not overflow. */
  private static final long SLEEP_MAX = TimeUnit.HOURS.toNanos(1);

  /** The longest sleep where the kernel has no {@code futex_waitv}. */
  private static final long POLL_SLEEP_MAX = TimeUnit.MILLISECONDS.toNanos(20);

  private static final long NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final int WAITER_BYTES = 24;
  private static final int FUTEX_32 = 2;

  /** The clock of the kernel, less that of Java: both run alike. */
  private static final long CLOCK_OFFSET = Libc.now() - System.nanoTime();

  /** True where the kernel has no {@code futex_waitv}; tests set it. */
  static volatile boolean waitvIsMissing;

  private final ShmHandles handles;
  private final Cleaner.Cleanable cleanable;
  private final ShmRing.Producer out;
  private final ShmRing.Consumer in;
  private final MemorySegment waiters;
  private final MemorySegment time;
  private final long most = Runtime.getRuntime().availableProcessors() > 1 ? SPIN_MAX : 0;
  private long budget = most;
  private int shortSleeps;
  private @Nullable IOException failed;

  ShmConnection(ShmHandles handles, MemorySegment memory) {
    this.handles = handles;
    cleanable = CLEANER.register(this, handles::free);
    out = new ShmRing.Producer(memory, 0);
    in = new ShmRing.Consumer(memory, 1);
    Arena arena = Arena.ofAuto();
    waiters = arena.allocate(3 * WAITER_BYTES, 8);
    time = arena.allocate(16, 8);
  }

  /** Work with the rings, which ends the connection when it fails. */
  private interface Work {
    int run() throws IOException;
  }

  private int locked(Work work) throws IOException {
    handles.lock.lock();
    try {
      if (failed != null) {
        throw new IOException(failed.getMessage(), failed);
      }
      return work.run();
    } catch (IOException e) {
      if (failed == null) {
        failed = e;
        handles.close();
      }
      throw e;
    } finally {
      handles.lock.unlock();
    }
  }

  /**
   * Returns the bits of the attention. To be looked at before the ring: that has all until then.
   */
  private int attention() throws IOException {
    int bits = ShmRing.half(handles.attention);
    if ((bits & ShmHandles.CLOSED) != 0) {
      throw new IOException("the connection is closed");
    }
    return bits;
  }

  private int pull(byte[] buffer) throws IOException {
    int count = in.pull(buffer);
    if (in.takeOwedWake()) {
      handles.wake(in.otherSleep());
    }
    return count;
  }

  private static IOException timedOut() {
    return new SocketTimeoutException("the server did not answer in time");
  }

  @Override
  public int receive(byte[] buffer, long deadline) throws IOException {
    return locked(
        () -> {
          boolean hasWaited = false;
          while (true) {
            int bits = attention();
            int count = pull(buffer);
            if (count > 0) {
              return count;
            }
            if ((bits & ShmHandles.ENDED) != 0) {
              return -1;
            }
            // A server that moves its position and takes it back keeps nobody beyond the deadline.
            if (hasWaited && deadline - System.nanoTime() <= 0) {
              throw timedOut();
            }
            await(true, false, deadline);
            hasWaited = true;
          }
        });
  }

  @Override
  public int tryReceive(byte[] buffer) throws IOException {
    return locked(
        () -> {
          int bits = attention();
          int count = pull(buffer);
          return count == 0 && (bits & ShmHandles.ENDED) != 0 ? -1 : count;
        });
  }

  @Override
  public void send(byte[] bytes, int offset, int length, long deadline) throws IOException {
    sendAndTake(bytes, offset, length, deadline, null);
  }

  @Override
  public void send(byte[] bytes, int offset, int length, long deadline, Taker answers)
      throws IOException {
    sendAndTake(bytes, offset, length, deadline, answers);
  }

  private void sendAndTake(
      byte[] bytes, int offset, int length, long deadline, @Nullable Taker answers)
      throws IOException {
    int ignored =
        locked(
            () -> {
              push(bytes, offset, length, deadline, answers);
              return 0;
            });
  }

  private void push(byte[] bytes, int offset, int length, long deadline, @Nullable Taker answers)
      throws IOException {
    byte[] came = new byte[0];
    boolean hasWaited = false;
    int sent = 0;
    while (sent < length) {
      if ((attention() & ShmHandles.ENDED) != 0) {
        throw new IOException("the server closed the connection");
      }
      int count = out.push(bytes, offset + sent, length - sent);
      sent += count;
      if (count > 0) {
        hasWaited = false;
        handles.wake(out.otherSleep());
        continue;
      }
      if (hasWaited && deadline - System.nanoTime() <= 0) {
        throw timedOut();
      }
      if (answers != null) {
        came = came.length == 0 ? new byte[TAKE_BYTES] : came;
        int taken = pull(came);
        if (taken > 0) {
          answers.take(came, taken);
          // Answers without end do not put the deadline off.
          hasWaited = true;
          continue;
        }
      }
      await(answers != null, true, deadline);
      hasWaited = true;
    }
  }

  private boolean isReady(boolean forBytes, boolean forRoom) {
    return (forBytes && in.isReady()) || (forRoom && out.isReady());
  }

  /** Waits until there may be bytes or room, or an end. */
  private void await(boolean forBytes, boolean forRoom, long deadline) throws IOException {
    long started = System.nanoTime();
    if (most > 0) {
      do {
        for (int i = 0; i < LOOKS; i++) {
          if (isReady(forBytes, forRoom)) {
            budget = Math.min(2 * budget, most);
            return;
          }
          Thread.onSpinWait();
        }
      } while (System.nanoTime() - started < budget);
    }
    long slept = System.nanoTime();
    handles.interruptibly(() -> sleep(forBytes, forRoom, deadline));
    budget = Math.min(Math.max(budget - budget / 8, SPIN_MIN), most);
    if (System.nanoTime() - slept < most) {
      shortSleeps++;
      if (shortSleeps % PROBE_EVERY == 0) {
        budget = most;
      }
    }
  }

  private void say(boolean forBytes, boolean forRoom, int sleeps) {
    if (forBytes) {
      ShmRing.setHalf(in.ownSleep(), sleeps);
    }
    if (forRoom) {
      ShmRing.setHalf(out.ownSleep(), sleeps);
    }
  }

  private void sleep(boolean forBytes, boolean forRoom, long deadline) throws IOException {
    while (true) {
      say(forBytes, forRoom, 1);
      boolean isReady = isReady(forBytes, forRoom) || ShmRing.half(handles.attention) != 0;
      long left = deadline - System.nanoTime();
      if (isReady || left <= 0) {
        say(forBytes, forRoom, 0);
        if (!isReady) {
          throw timedOut();
        }
        return;
      }
      sleepOnce(forBytes, forRoom, Math.min(left, SLEEP_MAX));
    }
  }

  /** Sleeps while the words of the rings are 1, and the attention 0. May return early. */
  private void sleepOnce(boolean forBytes, boolean forRoom, long left) {
    if (!waitvIsMissing) {
      int count = 0;
      if (forBytes) {
        setWaiter(count++, 1, in.ownSleep(), FUTEX_32);
      }
      if (forRoom) {
        setWaiter(count++, 1, out.ownSleep(), FUTEX_32);
      }
      setWaiter(count++, 0, handles.attention, FUTEX_32 | Libc.FUTEX_PRIVATE);
      // Never before the deadline, so that it is past afterwards.
      setTime(System.nanoTime() + CLOCK_OFFSET + left + 1000);
      long result = Libc.sleep(waiters, count, time);
      if (result != -Libc.ENOSYS && result != -Libc.EPERM) {
        return;
      }
      waitvIsMissing = true;
    }
    setTime(Math.min(left, POLL_SLEEP_MAX));
    Libc.sleepOnOne(forBytes ? in.ownSleep() : out.ownSleep(), time);
  }

  private void setWaiter(int index, long value, MemorySegment word, int flags) {
    long at = (long) index * WAITER_BYTES;
    waiters.set(JAVA_LONG, at, value);
    waiters.set(JAVA_LONG, at + 8, word.address());
    waiters.set(JAVA_INT, at + 16, flags);
    waiters.set(JAVA_INT, at + 20, 0);
  }

  private void setTime(long nanos) {
    time.set(JAVA_LONG, 0, nanos / NANOS);
    time.set(JAVA_LONG, 8, nanos % NANOS);
  }

  @Override
  public void close() {
    cleanable.clean();
  }
}
