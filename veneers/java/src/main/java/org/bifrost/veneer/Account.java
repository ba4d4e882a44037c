package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The account of the failures that the program was not told of, and the refusal of calls.
 *
 * <p>Every failure is untold at first: a signal, a call that the server refused or did not run, a
 * call or structure that was not sent. A claim that fails with it or with its consequence tells it,
 * and so does the list of exceptions; its consequences up to then are told with it. A failure is
 * lost when no stub is left whose claim would tell it.
 *
 * <pre>
 * point                              tells, as Unseen
 * a claim that has a value           lost failures
 * a flush                            lost failures, and calls that were not sent
 * a commit, a batch as transaction   all untold failures of it, which is not committed
 * </pre>
 *
 * <p>The server keeps the same account in one bit: any failure since the history was cleared
 * prevents a commit. Two commands keep both accounts equal. The first command of a batch is {@code
 * history} clear when all failures before it were told. A call of the error-handle before {@code
 * commit} stands for calls that were not sent.
 */
final class Account {
  /** A failure that was not told. */
  private static final class Untold {
    final Failure failure;

    /** The number of the failure in the session. */
    final long order;

    final int transaction;

    /** True if it was not sent. */
    final boolean isRefused;

    /** True if it was inside a structure, whose stubs nobody can claim. */
    final boolean isInside;

    /** True if a stub is left that tells it. */
    boolean isClaimable = true;

    Untold(Failure failure, long order, int transaction, boolean isRefused, boolean isInside) {
      this.failure = failure;
      this.order = order;
      this.transaction = transaction;
      this.isRefused = isRefused;
      this.isInside = isInside;
    }
  }

  private static final Comparator<Untold> BY_ORDER = Comparator.comparingLong(one -> one.order);

  private final Recorder r;
  private final Map<Failure, Untold> untold = new HashMap<>();

  /** Consequences of an untold failure are told with it. */
  private final Map<Failure, List<Failure>> consequences = new HashMap<>();

  /** The failures that stubs have. */
  private final Map<Failure, Failure> held = new HashMap<>();

  /** The number of untold failures beyond those. */
  private long omitted;

  /** The number of the next failure. */
  long order;

  /** The number of failures at which lost ones are looked for. */
  private int most;

  /** The transaction being recorded, and that at the begin of the batch. */
  int transaction;

  int firstTransaction;

  /** True if failures of answered batches would prevent a commit. */
  private boolean isServerUnseen;

  /** The position up to which failures of this batch need not be told. */
  long forgiven;

  /** The calls that were not sent, of the batch that is a transaction. */
  private List<Failure> shipped = new ArrayList<>();

  /** True if the slots were not looked at since a failure was noted, or a slot emptied. */
  boolean isStale;

  /** The failures of the session, oldest first; later ones are counted. */
  private List<Failure.Entry> history = new ArrayList<>();

  long historyOmitted;

  Account(Recorder recorder) {
    r = recorder;
  }

  // Stubs.

  /** Notes that a further stub has a failure. */
  void held(Failure failure) {
    if (failure.holders++ == 0) {
      held.put(failure, failure);
    }
  }

  /** Notes that a stub with a failure is gone. */
  void unheld(Failure failure) {
    if (--failure.holders == 0) {
      held.remove(failure);
    }
  }

  /** Returns true if a failure, or one that it follows from, is untold. */
  boolean isUntold(Failure failure) {
    if (untold.isEmpty()) {
      return false;
    }
    for (Failure one = failure; one != null; one = one.cause()) {
      if (untold.containsKey(one)) {
        return true;
      }
    }
    return false;
  }

  // Telling.

  private void tellOne(Failure failure) {
    for (Failure one = failure; one != null; one = one.cause()) {
      untold.remove(one);
      List<Failure> followed = consequences.remove(one);
      if (followed != null) {
        followed.forEach(untold::remove);
      }
    }
  }

  /** Tells the program of a failure, and so of all that it follows from and that followed. */
  void tell(Failure failure) {
    if (!untold.isEmpty()) {
      tellOne(failure);
      r.attend();
    }
  }

  /** Tells the program of everything. */
  void tellAll() {
    untold.clear();
    consequences.clear();
    omitted = 0;
    r.attend();
  }

  /**
   * Marks the failures of the calls up to now as told, and those that are still to come of them.
   */
  private void forgive() {
    tellAll();
    forgiven = r.futures.count;
    for (Batch batch : r.underWay) {
      batch.forgiven = Long.MAX_VALUE;
    }
  }

  /** Takes some failures out, oldest first. Consequences of others among them are not named. */
  private List<Failure> take(Predicate<Untold> which) {
    List<Failure> named = new ArrayList<>();
    untold.values().stream()
        .filter(which)
        .sorted(BY_ORDER)
        .toList()
        .forEach(
            entry -> {
              if (untold.containsKey(entry.failure)) {
                named.add(entry.failure);
              }
              tellOne(entry.failure);
            });
    return named;
  }

  // Noting.

  private void note(Failure failure, int of, boolean isRefused, boolean isInside) {
    untold.put(failure, new Untold(failure, order++, of, isRefused, isInside));
    isStale = true;
  }

  /** Keeps the number of lost failures bounded, when the stubs of all failures are there. */
  void boundUntold() {
    if (untold.size() > Math.max(most, 2 * Tables.HISTORY_MAX)) {
      findLost();
      most = 2 * untold.size();
    }
  }

  private void noteRefusal(Failure failure) {
    boundUntold();
    if (r.isShipping) {
      shipped.add(failure);
    }
    note(failure, transaction, true, r.structures.isOpen());
  }

  /** Notes a failure that the server has told of, by the position of its call. */
  void noteFailure(Failure failure, Batch batch, int position) {
    if ((position & 0xffffffffL) <= batch.forgiven) {
      return;
    }
    Failure first = null;
    for (Failure cause = failure.cause(); cause != null; cause = cause.cause()) {
      if (untold.containsKey(cause)) {
        first = cause;
      }
    }
    if (first != null) {
      consequences.computeIfAbsent(first, one -> new ArrayList<>()).add(failure);
    }
    note(failure, batch.transactionAt(position), false, false);
  }

  /** Notes an error of a commit, which stands for the failures that it names. */
  void noteUnseen(Failure failure, Batch batch, int position) {
    note(failure, batch.transactionAt(position), true, false);
  }

  /** Counts failures that the server has not listed. */
  void omit(long count) {
    omitted += count;
    historyOmitted += count;
  }

  // Lost failures.

  /**
   * Finds the failures that no stub is left to tell, and keeps as many of them as the history has.
   */
  private void findLost() {
    r.collect();
    if (!isStale) {
      return;
    }
    isStale = false;
    for (Untold entry : untold.values()) {
      entry.isClaimable = false;
    }
    for (Failure failure : held.keySet()) {
      for (Failure one = failure; one != null; one = one.cause()) {
        Untold entry = untold.get(one);
        if (entry != null) {
          entry.isClaimable = !entry.isInside;
        }
      }
    }
    List<Untold> lost =
        untold.values().stream()
            .filter(entry -> !entry.isClaimable)
            .sorted(BY_ORDER)
            .skip(Tables.HISTORY_MAX)
            .toList();
    for (Untold entry : lost) {
      untold.remove(entry.failure);
      omitted++;
    }
  }

  private static @Nullable Failure unseenOf(
      List<Failure> failures, long omitted, Failure.@Nullable CallName call) {
    return failures.isEmpty() && omitted == 0 ? null : new Failure.Unseen(failures, omitted, call);
  }

  private long takeOmitted() {
    long count = omitted;
    omitted = 0;
    return count;
  }

  /**
   * Tells of the failures that are lost, and, if wanted, of all that was not sent. Returns null if
   * there are none.
   */
  @Nullable Failure surface(boolean refused) {
    if (untold.isEmpty() && omitted == 0) {
      return null;
    }
    findLost();
    // A consequence of a failure that a stub tells is lost all the same: its effects are missing.
    List<Failure> failures = take(one -> !one.isClaimable || (refused && one.isRefused));
    long count = takeOmitted();
    r.attend();
    return unseenOf(failures, count, null);
  }

  /**
   * Returns the failure of a commit or transaction that the server refused for unseen failures: it
   * names those up to a transaction, which are told with it. Null if there are none.
   */
  @Nullable Failure unseen(Failure.CallName call, long through) {
    List<Failure> failures = take(one -> (one.transaction & 0xffffffffL) <= through);
    return unseenOf(failures, takeOmitted(), call);
  }

  /** As {@link #unseen}, for the transaction being recorded. */
  @Nullable Failure unseenNow(Failure.CallName call) {
    return isServerUnseen && !isAllTold() ? unseen(call, transaction & 0xffffffffL) : null;
  }

  // The server's part of the account.

  /**
   * Returns true if the program was told of all failures that the server knows of the transaction
   * being recorded.
   */
  private boolean isAllTold() {
    if (omitted > 0) {
      return false;
    }
    for (Untold one : untold.values()) {
      if (!one.isRefused && one.transaction == transaction) {
        return false;
      }
    }
    return true;
  }

  /** Returns true if calls that were not sent prevent the commit of the transaction recorded. */
  boolean isPrevented() {
    for (Untold one : untold.values()) {
      if (one.isRefused && one.transaction == transaction) {
        return true;
      }
    }
    return false;
  }

  /** Returns true if failures were told that the server still counts as unseen. */
  boolean isToldBehindTheServer() {
    return isServerUnseen && isAllTold();
  }

  /**
   * Returns true if the next command is to be {@code history} clear. Failures of batches under way
   * are not told yet.
   */
  boolean mustClear() {
    return isServerUnseen
        && r.commands == 0
        && !r.structures.isOpen()
        && !r.isShipping
        && r.underWay.isEmpty()
        && isAllTold();
  }

  /** Records {@code history} clear, if it is due. */
  void clearTold() {
    if (mustClear()) {
      recordClear();
    }
  }

  private void recordClear() {
    r.command(Words.head(Tables.OP_HISTORY, Tables.HISTORY_CLEAR, 0));
    serverCleared();
  }

  private void serverCleared() {
    isServerUnseen = false;
    r.attend();
  }

  /** Notes that a batch was answered. */
  void noteAnswer(boolean hasFailures) {
    isServerUnseen |= hasFailures;
    isStale = true;
  }

  /**
   * Takes out the calls of the batch that is a transaction that were not sent; the program is told
   * of them.
   */
  List<Failure> takeShippedRefusals() {
    List<Failure> refusals = shipped;
    shipped = new ArrayList<>();
    refusals.forEach(this::tell);
    return refusals;
  }

  /** Tells the program of all failures from an order on. */
  void tellSince(long mark) {
    take(one -> one.order >= mark);
    r.attend();
  }

  // Refusals.

  /**
   * Notes a call, a marker or a structure that cannot be recorded, and returns the failure of its
   * stubs. Inside a structure the outermost one is refused with it, if it is another.
   */
  Failure refuse(String name, @Nullable Object source, Failure why) {
    // All calls of a refused structure have its failure, which is noted once.
    if (r.poison == why) {
      return why;
    }
    Failure failure = why;
    if (!(why instanceof Failure.Ended)) {
      failure = notSent(name, source, why);
      Structures.Scope around = r.structures.outermostScope();
      if (around != null
          && !(around.kind().wireName.equals(name) && same(around.source(), source))) {
        Failure.CallName outer = Failure.CallName.unsent(around.kind().wireName, around.source());
        failure = new Failure.NotSent(outer, failure);
      }
      remember(failure, r.batchNumber);
      noteRefusal(failure);
    }
    if (r.structures.isOpen()) {
      r.poison = failure;
      r.attend();
    }
    return failure;
  }

  private static boolean same(@Nullable Object one, @Nullable Object other) {
    return one == null ? other == null : one.equals(other);
  }

  /**
   * Returns the failure of a call that was refused. A stub that was not made itself stands for the
   * first one that was not.
   */
  private static Failure notSent(String name, @Nullable Object source, Failure why) {
    Failure cause = why;
    for (Failure one = why; one != null; one = one.cause()) {
      if (one instanceof Failure.NotSent) {
        cause = one;
      }
    }
    return new Failure.NotSent(Failure.CallName.unsent(name, source), cause);
  }

  // The history.

  /** Enters a failure into the history. */
  void remember(Failure failure, long batch) {
    if (history.size() < Tables.HISTORY_MAX) {
      history.add(new Failure.Entry(batch, failure));
    } else {
      historyOmitted++;
    }
  }

  /**
   * Returns all failures of answered batches, and all calls that were not sent, since the history
   * was last cleared, oldest first. The program is told of them.
   */
  List<Failure.Entry> exceptions() {
    tellAll();
    return List.copyOf(history);
  }

  /**
   * Clears the history: the failures of the calls up to now count as told. Returns true if the
   * server's history is to be cleared too, with {@link #clearServer}. That is refused inside a
   * structure.
   */
  boolean clearExceptions(@Nullable Object source) {
    history = new ArrayList<>();
    historyOmitted = 0;
    forgive();
    if (r.isShipping) {
      refuse("history", source, Failure.misused(Misuse.IN_TRANSACTION));
    } else if (r.structures.isOpen()) {
      refuse("history", source, Failure.misused(Misuse.OPEN_STRUCTURE));
    } else {
      serverCleared();
      return true;
    }
    return false;
  }

  /** Records the clearing of the server's history, if it was admitted. */
  void clearServer(@Nullable Failure admitted) {
    if (admitted == null) {
      recordClear();
    }
  }
}
