package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The way in which a batch that is a transaction is run. */
public final class Transaction {
  /** The most runs that can be asked for. */
  static final int TRIES_MAX = 0xffff;

  private static final Transaction DEFAULTS = new Transaction(0, null);

  private final int tries;
  private final Ends.@Nullable BatchName name;

  private Transaction(int tries, Ends.@Nullable BatchName name) {
    this.tries = tries;
    this.name = name;
  }

  /** Returns the defaults: as many runs as the server allows, and no name. */
  public static Transaction defaults() {
    return DEFAULTS;
  }

  /**
   * Sets the greatest number of runs: the server repeats the batch after conflicts.
   *
   * @throws IllegalArgumentException if it is not from 0, for as many as the server allows, to
   *     65535
   */
  public Transaction withTries(int most) {
    if (most < 0 || most > TRIES_MAX) {
      throw new IllegalArgumentException("a transaction is tried from 0 to 65535 times");
    }
    return new Transaction(most, name);
  }

  /**
   * Names the batch: the server does it once, however often it is sent under this name. An answer
   * that is sent again has no objects.
   */
  public Transaction withName(UUID client, long number) {
    return new Transaction(
        tries,
        new Ends.BatchName(
            client.getLeastSignificantBits(), client.getMostSignificantBits(), number));
  }

  /** Records a batch that is a transaction, sends it, and waits until it is committed. */
  <R extends @Nullable Object> R run(Session session, Supplier<R> body) {
    Recorder r = session.core;
    Object place = session.place();
    session.check(session.link.synchronize("transaction", place));
    Done done = new Done(session);
    done.isWanted = true;
    session.check(r.ends.beginTransaction(done, tries, name, place));
    List<Stub> kept = new ArrayList<>();
    R result;
    boolean isDone = false;
    try {
      result = name == null ? session.kept(body, kept) : session.scoped(body, kept);
      isDone = true;
    } finally {
      if (!isDone) {
        r.ends.abandonTransaction();
        session.link.flush();
        r.ends.tellTransaction();
      }
    }
    List<Failure> refusals = r.ends.endTransactionBatch();
    session.check(session.link.flush());
    Failure outcome = done.state == Slot.State.FAILED ? done.failure() : null;
    if (outcome != null) {
      r.account.tell(outcome);
    }
    done.drop();
    session.check(r.ends.finishTransaction(outcome, refusals, place));
    return result;
  }
}
