package org.bifrost.veneer;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.SocketTimeoutException;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The descriptors and the memory of a connection by shared memory.
 *
 * <p>The mapping is closed by who holds the lock. The socket has two users, the connection and the
 * thread that watches it; the last one closes it, so no number of a descriptor is used twice. An
 * interruption of a thread that waits closes the channel, as it does with those of Java.
 */
final class ShmHandles extends AbstractInterruptibleChannel {
  /** The bit of the attention that is set when this side has closed the connection. */
  static final int CLOSED = 1;

  /** The bit that is set when the server has closed the socket, or has died. */
  static final int ENDED = 2;

  private static final long POLL_MILLIS_MAX = TimeUnit.HOURS.toMillis(1);
  private static final long WATCH_STACK_BYTES = 128 << 10;

  /** Held by the reader or writer, and by who unmaps the memory. */
  final ReentrantLock lock = new ReentrantLock();

  /** The word for which a sleeper looks besides the rings. */
  final MemorySegment attention = Arena.ofAuto().allocate(4, 4);

  private final Arena arena = Arena.ofShared();
  private int socket;
  private int users = 1;
  private int bell = -1;

  ShmHandles(int socket) {
    this.socket = socket;
  }

  /** A wait that an interruption ends. */
  interface Wait {
    void run() throws IOException;
  }

  /** Runs a wait that an interruption ends. */
  void interruptibly(Wait wait) throws IOException {
    try {
      begin();
      try {
        wait.run();
      } finally {
        end(true);
      }
    } catch (AsynchronousCloseException e) {
      throw new InterruptedIOException("the thread was interrupted while the session waited");
    }
  }

  /** Waits until the socket has bytes or an end. */
  void await(long deadline) throws IOException {
    interruptibly(
        () -> {
          while (true) {
            long left = deadline - System.nanoTime();
            if (left <= 0) {
              throw new SocketTimeoutException("the server did not answer in time");
            }
            long millis = Math.min(left / 1_000_000 + 1, POLL_MILLIS_MAX);
            long found = Libc.poll(socket, (int) millis);
            if (found != 0 && found != -Libc.EINTR) {
              Libc.good("poll", found);
              return;
            }
          }
        });
  }

  int socket() {
    return socket;
  }

  /** Maps memory until the end of the connection. */
  MemorySegment map(int descriptor, long size) throws IOException {
    return Libc.map(descriptor, size, arena);
  }

  /** Takes the bell of the server. */
  void takeBell(int descriptor) {
    bell = descriptor;
  }

  /** Starts the thread that waits for the end of the socket: bytes there are none. */
  void watch() {
    users = 2;
    Thread watcher = new Thread(null, this::watchEnd, "bifrost-shm", WATCH_STACK_BYTES);
    watcher.setDaemon(true);
    watcher.start();
  }

  private void watchEnd() {
    long found;
    do {
      found = Libc.poll(socket, -1);
    } while (found == -Libc.EINTR);
    raise(ENDED);
    drop();
  }

  /** Sets a bit of the attention, and wakes who sleeps. */
  private void raise(int bit) {
    ShmRing.addBits(attention, bit);
    Libc.wake(attention, Libc.FUTEX_PRIVATE);
  }

  private synchronized void drop() {
    users--;
    if (users == 0) {
      Libc.close(socket);
      socket = -1;
    }
  }

  private synchronized void shut() {
    if (socket >= 0) {
      Libc.shutdown(socket);
    }
  }

  /** Wakes the server if it sleeps, or rests. */
  void wake(MemorySegment sleeps) {
    if (ShmRing.half(sleeps) == 0) {
      return;
    }
    switch (ShmRing.swapHalf(sleeps, 0)) {
      case 0 -> {}
      case 2 -> Libc.ring(bell);
      default -> Libc.wake(sleeps, 0);
    }
  }

  @Override
  protected void implCloseChannel() {
    raise(CLOSED);
    shut();
  }

  /** Ends the connection, and gives all back. May be called twice, and by any thread. */
  void free() {
    try {
      close();
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    lock.lock();
    try {
      if (!arena.scope().isAlive()) {
        return;
      }
      arena.close();
      if (bell >= 0) {
        Libc.close(bell);
      }
      drop();
    } finally {
      lock.unlock();
    }
  }
}
