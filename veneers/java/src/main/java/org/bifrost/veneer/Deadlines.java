package org.bifrost.veneer;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The thread that ends operations whose time is over.
 *
 * <p>Channels of unix sockets have no time limit of their own, and a selector costs two calls of
 * the kernel for each wait. So an operation waits in the kernel, and this thread closes its channel
 * at the deadline. It looks at all channels at least once in {@link #PERIOD_NANOS}, and ends when
 * there are none.
 */
final class Deadlines {
  /** The longest time between two looks. */
  static final long PERIOD_NANOS = TimeUnit.SECONDS.toNanos(1);

  private static final List<WeakReference<Timed>> USERS = new ArrayList<>();
  private static volatile @Nullable Thread thread;

  private Deadlines() {}

  /** The user of a deadline. */
  abstract static class Timed {
    private volatile boolean waits;
    private volatile long deadline;
    private volatile boolean isLate;

    /** Ends the operation under way. */
    abstract void stop();

    /** Begins an operation. */
    final void begin(long until) {
      deadline = until;
      waits = true;
      if (until - System.nanoTime() < 2 * PERIOD_NANOS) {
        LockSupport.unpark(thread);
      }
    }

    /** Ends an operation. */
    final void end() {
      waits = false;
    }

    /** True if an operation was ended because its time was over. */
    final boolean isLate() {
      return isLate;
    }
  }

  /** Watches a user until it is let go. */
  static void add(Timed user) {
    synchronized (USERS) {
      USERS.add(new WeakReference<>(user));
      if (thread == null) {
        Thread started = new Thread(Deadlines::run, "bifrost-deadlines");
        started.setDaemon(true);
        thread = started;
        started.start();
      }
    }
  }

  /** Lets a user go. */
  static void remove(Timed user) {
    synchronized (USERS) {
      USERS.removeIf(one -> one.refersTo(user));
    }
  }

  private static void run() {
    while (true) {
      long left;
      List<Timed> late = new ArrayList<>();
      synchronized (USERS) {
        left = look(late);
        if (USERS.isEmpty() && late.isEmpty()) {
          thread = null;
          return;
        }
      }
      for (Timed user : late) {
        user.stop();
      }
      if (late.isEmpty()) {
        LockSupport.parkNanos(left);
      }
    }
  }

  /** Finds the users whose time is over. Returns the time until the next look. */
  private static long look(List<Timed> late) {
    long now = System.nanoTime();
    long left = PERIOD_NANOS;
    for (var users = USERS.iterator(); users.hasNext(); ) {
      Timed user = users.next().get();
      if (user == null) {
        users.remove();
      } else if (user.waits) {
        long until = user.deadline - now;
        if (until <= 0) {
          user.isLate = true;
          users.remove();
          late.add(user);
        } else {
          left = Math.min(left, until);
        }
      }
    }
    return left;
  }
}
