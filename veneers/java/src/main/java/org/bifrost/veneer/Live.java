package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A live batch: it is run again whenever its results may have changed. Each step of an iteration
 * waits until they have. A failure ends the iteration.
 *
 * @param <R> the result of its body
 */
public final class Live<R> implements Iterable<R> {
  private final Session session;
  private final Supplier<R> body;

  Live(Session session, Supplier<R> body) {
    this.session = session;
    this.body = body;
  }

  /** Returns the results, of which there is always another one. */
  @Override
  public Iterator<R> iterator() {
    return new Runs();
  }

  /** The runs of a batch. */
  private final class Runs implements Iterator<R> {
    private @Nullable List<Stub> last;

    /** The number of ends of transactions when the batch was last read; -1 for never. */
    private int readAt = -1;

    @Override
    public boolean hasNext() {
      return true;
    }

    @Override
    public R next() {
      session.enter();
      try {
        while (true) {
          List<Stub> stubs = new ArrayList<>();
          R result = run(stubs);
          boolean isNew = readAt >= 0 && !isSame(stubs);
          if (readAt >= 0) {
            last = stubs;
          }
          if (isNew) {
            return result;
          }
        }
      } finally {
        session.exit();
      }
    }

    private boolean isSame(List<Stub> stubs) {
      if (last == null || last.size() != stubs.size()) {
        return false;
      }
      for (int index = 0; index < stubs.size(); index++) {
        if (!last.get(index).hasSameResult(stubs.get(index))) {
          return false;
        }
      }
      return true;
    }

    /** Runs the batch once. The place of the read is -1 if the transaction was gone. */
    private R run(List<Stub> stubs) {
      Recorder r = session.core;
      r.crossing.batchEnd = null;
      long mark = r.account.order;
      Bool waited = readAt == r.ends.count ? session.await(Long.MAX_VALUE) : null;
      R result = session.kept(body, stubs);
      session.check(session.link.synchronize("live", session.place()));
      readAt = r.ends.count;
      Failure failed = r.crossing.batchEnd;
      if (failed == null && waited != null && waited.state == Slot.State.FAILED) {
        failed = waited.failure();
      }
      if (failed != null) {
        r.account.tellSince(mark);
        if (!isOvertaken(failed)) {
          session.check(failed);
        }
        // The transaction is gone, and so is all that it has read.
        readAt = -1;
        return result;
      }
      for (Stub stub : stubs) {
        if (stub.state == Slot.State.FAILED) {
          r.account.tellSince(mark);
          session.check(stub.failure());
        }
      }
      session.check(r.account.surface(false));
      return result;
    }

    private boolean isOvertaken(Failure failed) {
      return failed.root() instanceof Failure.Refused refused
          && (refused.number() == Tables.ERROR_CONFLICT
              || refused.number() == Tables.ERROR_TRANSACTION_EXPIRED);
    }
  }
}
