package org.bifrost.veneer;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * The way of a session's bytes: a recorder and its connection.
 *
 * <p>One thread uses a session, without a lock. The first future of Java makes the session shared:
 * from then on each operation holds the lock, and a daemon thread sends batches and awaits their
 * answers. No lock is held during a read; who wants to send meanwhile waits.
 */
final class Link {
  /** The time in which the reason of a server is looked for that has closed its connection. */
  private static final long LAST_WORDS_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** The time for which the daemon thread waits for further work before it ends. */
  private static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(10);

  private static final int READ_BYTES = 64 << 10;

  final Recorder r;
  private final Connection connection;
  private final long timeout;
  private final byte[] buffer = new byte[READ_BYTES];

  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private boolean isShared;
  private volatile boolean isReading;
  private boolean isDaemonRunning;
  private final Deque<Runnable> work = new ArrayDeque<>();

  Link(Recorder recorder, Connection connection, long timeoutNanos) {
    r = recorder;
    this.connection = connection;
    timeout = timeoutNanos;
  }

  /**
   * Begins an operation.
   *
   * @throws IllegalStateException if another thread awaits an answer: one uses a session at a time
   */
  void enter() {
    if (isShared) {
      lock.lock();
    } else if (isReading) {
      throw new IllegalStateException("another thread uses the session");
    }
  }

  /** Ends an operation. */
  void exit() {
    if (isShared && lock.isHeldByCurrentThread()) {
      lock.unlock();
    }
  }

  private long deadline(long nanos) {
    return System.nanoTime() + nanos;
  }

  // Sending.

  /** Sends the bytes that can be sent now; if wanted, only those that were flushed. */
  void send(boolean onlyFlushed) {
    while (isReading) {
      changed.awaitUninterruptibly();
    }
    byte[] bytes = r.crossing.takeBytes(onlyFlushed);
    while (bytes.length > 0) {
      try {
        Words came = new Words(64);
        long until = deadline(timeout);
        if (r.underWay.isEmpty()) {
          connection.send(bytes, 0, bytes.length, until);
        } else {
          Connection.Taker taker = (from, count) -> came.raw(from, 0, count);
          connection.send(bytes, 0, bytes.length, until, taker);
        }
        if (came.length > 0) {
          take(came.bytes, came.length);
        }
      } catch (IOException failed) {
        end(lastWords(failed));
        return;
      }
      bytes = r.crossing.takeBytes(onlyFlushed);
    }
  }

  private Failure.Ending lastWords(IOException failed) {
    long until = deadline(LAST_WORDS_NANOS);
    try {
      int count = connection.receive(buffer, until);
      while (count >= 0) {
        Failure.Ending why = r.crossing.lastWords(buffer, count);
        if (why != null) {
          return why;
        }
        count = connection.receive(buffer, until);
      }
    } catch (IOException alsoFailed) {
      failed.addSuppressed(alsoFailed);
    }
    return new Failure.ByConnection(failed);
  }

  /** Closes the session and its connection. */
  Failure end(Failure.Ending why) {
    Failure failure = r.crossing.close(why);
    connection.close();
    if (isShared) {
      changed.signalAll();
    }
    return failure;
  }

  // Receiving.

  private void take(byte[] bytes, int length) {
    int count = length;
    // Bytes behind an answer are kept by the recorder.
    while (r.crossing.handleBytes(bytes, count) && !r.underWay.isEmpty()) {
      count = 0;
    }
    if (r.broken != null) {
      connection.close();
    }
  }

  /** Waits until a batch is answered; returns the failure if the session ends before. */
  @Nullable Failure await(long batch) {
    while (r.broken == null && r.crossing.isUnanswered(batch)) {
      if (isReading) {
        changed.awaitUninterruptibly();
      } else {
        receive();
      }
    }
    return r.broken;
  }

  private void receive() {
    long until = deadline(timeout + TimeUnit.MILLISECONDS.toNanos(r.crossing.waitMs()));
    int count = 0;
    IOException failed = null;
    isReading = true;
    boolean isLocked = lock.isHeldByCurrentThread();
    if (isLocked) {
      lock.unlock();
    }
    try {
      count = connection.receive(buffer, until);
    } catch (IOException wrong) {
      failed = wrong;
    } finally {
      if (isLocked) {
        lock.lock();
      }
      isReading = false;
    }
    if (failed != null) {
      end(new Failure.ByConnection(failed));
    } else if (count < 0) {
      end(new Failure.ByConnection(new IOException("the server has closed it")));
    } else {
      take(buffer, count);
    }
    if (isLocked) {
      changed.signalAll();
    }
  }

  /** Waits until all batches are answered. */
  @Nullable Failure awaitAll() {
    return await(r.batchNumber - 1);
  }

  // Flushing.

  /** Does the work that is due before a command; returns the failure if the command is refused. */
  @Nullable Failure admit() {
    if (r.isReady()) {
      return null;
    }
    Failure refusal = r.dueRefusal();
    if (refusal != null) {
      return refusal;
    }
    switch (r.due()) {
      case SEND -> {
        send(false);
        return r.broken;
      }
      case FLUSH -> {
        return flush();
      }
      default -> {
        return null;
      }
    }
  }

  /** Ends the batch and waits for all answers. */
  @Nullable Failure flush() {
    Failure wrong = awaitRoom();
    wrong = wrong == null ? r.crossing.beginFlush(false) : wrong;
    return wrong == null ? answerAll() : wrong;
  }

  /** Ends the batch for the program's call of this name, and waits for all answers. */
  @Nullable Failure synchronize(String name, @Nullable Object place) {
    Failure wrong = r.crossing.unable(name, place);
    wrong = wrong == null ? r.crossing.flushRefusal() : wrong;
    return wrong == null ? flush() : wrong;
  }

  private @Nullable Failure answerAll() {
    send(true);
    return r.broken == null ? awaitAll() : r.broken;
  }

  /** Waits until a further batch may be under way. */
  private @Nullable Failure awaitRoom() {
    while (r.broken == null && r.crossing.isCrowded()) {
      send(true);
      Batch first = r.underWay.peekFirst();
      if (first != null) {
        await(first.number);
      }
    }
    return r.broken;
  }

  /**
   * Ends the batch without waiting; its results are kept for later batches. Returns the failure if
   * it cannot end here.
   */
  @Nullable Failure beginFlush(String name, @Nullable Object place) {
    Failure wrong = r.crossing.unable(name, place);
    wrong = wrong == null ? r.crossing.flushRefusal() : wrong;
    wrong = wrong == null ? awaitRoom() : wrong;
    return wrong == null ? r.crossing.beginFlush(true) : wrong;
  }

  /** Closes the connection of a session that was left. */
  void close() {
    connection.close();
  }

  // The daemon thread.

  /** Has the daemon thread do work, with the lock held. */
  void later(Runnable task) {
    isShared = true;
    lock.lock();
    try {
      work.add(task);
      if (isDaemonRunning) {
        changed.signalAll();
      } else {
        isDaemonRunning = true;
        Thread daemon = new Thread(this::runDaemon, "bifrost-session");
        daemon.setDaemon(true);
        daemon.start();
      }
    } finally {
      lock.unlock();
    }
  }

  private void runDaemon() {
    lock.lock();
    try {
      long idleSince = System.nanoTime();
      while (System.nanoTime() - idleSince < IDLE_NANOS) {
        Runnable task = work.poll();
        if (task != null) {
          task.run();
          idleSince = System.nanoTime();
        } else {
          changed.awaitNanos(IDLE_NANOS);
        }
      }
    } catch (InterruptedException interrupted) {
      // The thread is the library's own, and ends; further work makes another one.
      Thread.currentThread().interrupt();
    } finally {
      isDaemonRunning = false;
      lock.unlock();
    }
  }
}
