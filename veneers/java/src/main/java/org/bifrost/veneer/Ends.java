package org.bifrost.veneer;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The recording of the ends of transactions, of waits, and of batches that are transactions: those
 * have the steps {@link #beginTransaction}, calls, {@link #endTransactionBatch}, {@link
 * Crossing#beginFlush}, {@link Crossing#handleBytes}, {@link #finishTransaction}.
 */
final class Ends {
  /** The name of a batch that is a transaction: 128 bits of the client's, and a number. */
  record BatchName(long low, long high, long number) {}

  private final Recorder r;

  /** The number of times that a transaction ended, or may have. */
  int count;

  /** The first failure of the last batch that was a transaction, by its order. */
  private long shippedFrom;

  Ends(Recorder recorder) {
    r = recorder;
  }

  /** Returns the failure if a transaction cannot end here. */
  @Nullable Failure refusal() {
    if (r.structures.isOpen()) {
      return Failure.misused(Misuse.OPEN_STRUCTURE);
    }
    return r.isShipping ? Failure.misused(Misuse.IN_TRANSACTION) : null;
  }

  /** Returns true if a flush is due before a commit is recorded, which was not refused. */
  boolean commitNeedsFlush() {
    if (r.account.isPrevented()) {
      // The call and the commit belong into one batch.
      return r.futures.count + 2 > r.attentionFutures || r.commands + 3 > r.bounds.commands;
    }
    // Told in the middle of a batch, whose own failures must not be cleared with them.
    return r.account.isToldBehindTheServer();
  }

  private @Nullable Failure mayEnd(@Nullable Failure admitted) {
    return admitted == null ? refusal() : admitted;
  }

  /**
   * Makes sure that a commit behind the recorded commands is refused if any failure was not seen,
   * and only then.
   */
  private void beforeCommit(@Nullable Object source) {
    if (r.account.isPrevented()) {
      r.command(Tables.OP_CALL, 0);
      r.skipResult(Maker.REFUSED, source);
    } else {
      r.account.clearTold();
    }
  }

  /** Ends the transaction at the current place of recording; returns its number. */
  private int nextTransaction() {
    count++;
    return r.account.transaction++;
  }

  /**
   * Records the commit of the transaction, which has one result. The work that is due was done
   * before.
   */
  @Nullable Failure commit(@Nullable Failure admitted, @Nullable Object source) {
    Failure why = mayEnd(admitted);
    if (why != null) {
      return r.account.refuse("commit", source, why);
    }
    beforeCommit(source);
    r.calls.maker = Maker.of(Maker.COMMIT, nextTransaction());
    r.command(Tables.OP_COMMIT);
    return null;
  }

  /** Records the abort of the transaction, which has one result. */
  @Nullable Failure abort(@Nullable Failure admitted, @Nullable Object source) {
    Failure why = mayEnd(admitted);
    if (why != null) {
      return r.account.refuse("abort", source, why);
    }
    r.calls.maker = Maker.of(Maker.ABORT, nextTransaction());
    r.command(Tables.OP_ABORT);
    return null;
  }

  /**
   * Records a wait of at most so many milliseconds, which has one result: true if others have
   * changed an object that the transaction has read.
   */
  @Nullable Failure wait(@Nullable Failure admitted, long ms, @Nullable Object source) {
    Failure why = mayEnd(admitted);
    if (why != null) {
      return r.account.refuse("wait", source, why);
    }
    long bounded = Math.min(Math.max(ms, 0), r.bounds.waitMs);
    r.batchWaitMs += bounded;
    r.command(Words.head(Tables.OP_WAIT, 0, (int) bounded));
    r.calls.maker = Maker.WAIT;
    return null;
  }

  /** Returns true if nothing is recorded, and no batch is under way. */
  private boolean isIdle() {
    return r.commands == 0 && r.underWay.isEmpty();
  }

  /**
   * Begins a batch that is a transaction; its outcome is for a slot. The caller has flushed before.
   */
  @Nullable Failure beginTransaction(
      Slot done, int tries, @Nullable BatchName name, @Nullable Object source) {
    if (r.broken != null) {
      return r.broken;
    }
    if (!isIdle()) {
      return Failure.misused(Misuse.UNDER_WAY);
    }
    Failure lost = r.account.surface(true);
    if (lost != null) {
      return lost;
    }
    Failure unseen = r.account.unseenNow(transactionName(source));
    if (unseen != null) {
      return unseen;
    }
    r.account.clearTold();
    count++;
    // The number of tries has 16 bits.
    int flags = Math.min(tries, 0xffff) << 8;
    if (name == null) {
      r.command(Words.head(Tables.OP_TRANSACTION, flags, 0));
    } else {
      long first = Words.head(Tables.OP_TRANSACTION, flags | Tables.TRANSACTION_NAMED, 0);
      r.command(first, name.low(), name.high(), name.number());
    }
    r.isShipping = true;
    r.result(done, null, Maker.TRANSACTION, source);
    shippedFrom = r.account.order;
    return null;
  }

  private static Failure.CallName transactionName(@Nullable Object source) {
    return new Failure.CallName("transaction", 1, List.of(), source);
  }

  /**
   * Ends the recording of the batch; returns the calls that were not sent, for which the server
   * refuses the batch.
   */
  List<Failure> endTransactionBatch() {
    r.isShipping = false;
    List<Failure> refusals = r.account.takeShippedRefusals();
    if (!refusals.isEmpty()) {
      refuseBatch();
    }
    return refusals;
  }

  /**
   * Ends the recording of a batch that was left by an exception: the server refuses it. The caller
   * flushes, and calls {@link #tellTransaction}.
   */
  void abandonTransaction() {
    r.isShipping = false;
    r.account.takeShippedRefusals();
    refuseBatch();
    // The exception tells that nothing of the batch was done. Commands recorded behind it are a
    // batch of their own.
    shippedFrom = r.account.order;
  }

  /** Has the server refuse a batch that is a transaction: none has an abort. */
  private void refuseBatch() {
    r.command(Tables.OP_ABORT);
  }

  /** Tells the program of the failures of the last batch that was a transaction. */
  void tellTransaction() {
    r.account.tellSince(shippedFrom);
  }

  /**
   * Returns the outcome of a transaction whose batch was answered: null, or its failure. Done is
   * that of its slot, and the refusals are the calls that were not sent.
   */
  @Nullable Failure finishTransaction(
      @Nullable Failure done, List<Failure> refusals, @Nullable Object source) {
    if (done == null && refusals.isEmpty()) {
      return null;
    }
    // Nothing of it was done, and so no failure of it is left to be told.
    tellTransaction();
    return refusals.isEmpty() ? done : new Failure.Unseen(refusals, 0, transactionName(source));
  }

  // Profiles.

  private boolean isProfiled;

  /** Returns the failure if profiles cannot be asked for, or for no more of them. */
  @Nullable Failure profileRefusal() {
    if (r.broken != null) {
      return r.broken;
    }
    Failure why = refusal();
    if (why != null) {
      return why;
    }
    return r.bounds.hasProfiles ? null : Failure.misused(Misuse.NO_PROFILES);
  }

  /** Returns true if a wish for profiles changes anything: then {@link #profile} records it. */
  boolean isProfileDue(boolean on) {
    return on != isProfiled;
  }

  /** Has the server measure this batch and all later ones, or no more. */
  @Nullable Failure profile(@Nullable Failure admitted, boolean on) {
    if (admitted == null) {
      r.command(Words.head(Tables.OP_PROFILE, on ? Tables.PROFILE_ON : 0, 0));
      isProfiled = on;
    }
    return admitted;
  }
}
