package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The way of a batch to the server, and its answer back. Read {@link #beginFlush} and {@link
 * #handleBytes} first. A flush has these steps:
 *
 * <ol>
 *   <li>the caller sends the rest of the batch;
 *   <li>it hands in the bytes of the reply;
 *   <li>the slots of the futures are filled;
 *   <li>failures go to the history and to the account.
 * </ol>
 *
 * <p>A batch is under way from beginFlush until handleBytes returns true for it; answers come in
 * order. The next batch is recorded meanwhile, and may use the stubs of those under way if their
 * flush was kept.
 *
 * <p>Bytes of the server are not trusted: they are decoded and checked, positions and counts are
 * compared with those of the batch, and no more than {@code replyBytesMax} are kept. A wrong reply
 * closes the session.
 */
final class Crossing {
  private static final byte[] NONE = {};
  private static final Pattern HANDLE = Pattern.compile("handle h([0-9]{1,18})");

  private final Recorder r;
  private final Replies replies;

  /** The bytes of batches under way that were not sent. */
  private Words unsent = new Words(64);

  /** The number of the session's bytes that were sent. */
  private long sentBytes;

  private List<Batch.Answered> answered = new ArrayList<>();

  /** The counts of batches, of their commands, and of the calls that the server ran. */
  long crossings;

  long commands;
  long executed;

  /** The profile of the batch that was sent last. */
  @Nullable Profile profile;

  /** The last failure that ended a batch. */
  @Nullable Failure batchEnd;

  Crossing(Recorder recorder, Replies replies) {
    r = recorder;
    this.replies = replies;
  }

  // Bytes out.

  /**
   * Takes the bytes that can be sent now, and counts them as sent: those of flushed batches, or
   * else, unless only those are wanted, those of the recorded one. It takes none of the latter
   * while a structure is open or a batch that is a transaction is recorded.
   */
  byte[] takeBytes(boolean onlyFlushed) {
    byte[] bytes;
    if (unsent.length > 0) {
      bytes = unsent.copy();
      unsent.length = 0;
    } else if (onlyFlushed || r.structures.isOpen() || r.isShipping || r.batch.length == 0) {
      return NONE;
    } else {
      bytes = r.batch.copy();
      r.batch.length = 0;
      r.published += bytes.length;
    }
    sentBytes += bytes.length;
    return bytes;
  }

  // The end of a session.

  /**
   * Closes the session, and returns the failure that every stub without a result has now, and every
   * later one.
   */
  Failure close(Failure.Ending why) {
    if (r.broken != null) {
      return r.broken;
    }
    Failure failure = new Failure.Ended(why);
    r.structures.endFutures(0, failure);
    for (Batch batch : r.underWay) {
      for (int index = 0; index < batch.futures.count; index++) {
        Slot slot = batch.futures.slot(index);
        if (slot != null && slot.holders > 0) {
          r.settleFailed(slot, failure);
        }
      }
    }
    r.futures = new Batch.Futures();
    r.underWay.clear();
    answered = new ArrayList<>();
    r.batch.length = 0;
    unsent.length = 0;
    r.wanted = 0;
    r.commands = 0;
    r.broken = failure;
    r.attend();
    return failure;
  }

  /**
   * Ends the session without an answer: commands that were recorded and never flushed are to be
   * sent, and run. Returns false if the session is closed already; otherwise the caller sends the
   * bytes and closes the session.
   */
  boolean leave() {
    if (r.broken != null) {
      return false;
    }
    while (r.structures.isOpen()) {
      r.structures.abandon();
    }
    r.isShipping = false;
    r.batch.word(Tables.OP_BYE);
    return true;
  }

  /**
   * Looks for the reason that a server gives before it closes a session. Returns null if there is
   * none in the bytes.
   */
  Failure.@Nullable Ending lastWords(byte[] bytes, int count) {
    try {
      Reply came = replies.next(bytes, count);
      while (came != null) {
        if (came instanceof Reply.Broken end) {
          return new Failure.ByServer(end.number(), end.position(), end.text());
        }
        came = replies.next(NONE, 0);
      }
      return null;
    } catch (MalformedException bad) {
      return null;
    }
  }

  // Flushing.

  /** Returns true if a batch was not answered yet, by its number. */
  boolean isUnanswered(long number) {
    Batch first = r.underWay.peekFirst();
    return number >= (first == null ? r.batchNumber : first.number);
  }

  /**
   * Returns true if a flush has to wait for an answer first: too many batches are under way, or
   * their results and those of this batch are too many.
   */
  boolean isCrowded() {
    int count = r.underWay.size();
    return count > 0
        && (count >= r.bounds.underWay || (long) r.wanted + r.futures.count > r.bounds.futures);
  }

  /**
   * Returns the milliseconds that the batches under way may wait for changes of others: a client
   * waits so much longer for the answers.
   */
  long waitMs() {
    long total = r.batchWaitMs;
    for (Batch batch : r.underWay) {
      total += batch.waitMs;
    }
    return total;
  }

  /** Returns the failure if the batch cannot end here. */
  @Nullable Failure flushRefusal() {
    if (r.broken != null) {
      return r.broken;
    }
    return r.structures.isOpen() ? Failure.misused(Misuse.OPEN_STRUCTURE) : null;
  }

  /**
   * Ends the batch: it records the frees and the flush. If there is anything to send, the batch is
   * then under way: the bytes are to be sent, and the answer is to be handed in. If its results are
   * kept, batches that are recorded before the answer may use them. Returns the failure if the
   * batch cannot end here.
   */
  @Nullable Failure beginFlush(boolean isKept) {
    Failure why = flushRefusal();
    if (why != null) {
      return why;
    }
    r.collect();
    long[] frees = r.frees();
    if (r.commands == 0 && frees.length == 0) {
      return null;
    }
    if (isCrowded()) {
      return Failure.misused(Misuse.UNDER_WAY);
    }
    appendFrees(frees);
    putUnderWay(isKept);
    r.attend();
    return null;
  }

  /**
   * Begins a flush for the program, which cannot while a batch that is a transaction is recorded.
   * The name is that of the program's call: "claim", "flush".
   */
  @Nullable Failure beginFlushFor(String name, boolean isKept, @Nullable Object source) {
    Failure why = unable(name, source);
    return why == null ? beginFlush(isKept) : why;
  }

  /** Returns the failure if the program cannot end a batch because it is a transaction. */
  @Nullable Failure unable(String name, @Nullable Object source) {
    if (!r.isShipping || r.broken != null || r.structures.isOpen()) {
      return null;
    }
    Failure failure = r.account.refuse(name, source, Failure.misused(Misuse.IN_TRANSACTION));
    r.account.tell(failure);
    return failure;
  }

  /** Records the handles to give back. */
  private void appendFrees(long[] frees) {
    // An answer under way may name a handle again: then the server does not take it back.
    int unanswered = r.underWay.size();
    // Leaves room for the first word.
    long most = Math.max(r.bounds.frameBytes / 8, 2) - 1;
    int at = 0;
    while (at < frees.length) {
      int count = (int) Math.min(most, frees.length - at);
      r.batch.word(Words.head(Tables.OP_FREE, unanswered, count));
      for (int index = 0; index < count; index++) {
        r.batch.word(frees[at++]);
      }
    }
    r.forget(frees);
  }

  private void putUnderWay(boolean isKept) {
    Batch batch = new Batch(r, isKept);
    int flags = 0;
    if (isKept) {
      flags = Tables.FLUSH_KEPT | Math.min(r.underWay.size(), 255) << 8;
    } else {
      // Such a flush ends the results of earlier batches that the server has kept.
      for (Batch earlier : r.underWay) {
        earlier.isKept = false;
      }
    }
    appendFlush(batch, flags);
    r.futures = new Batch.Futures();
    r.errorHandles = new ArrayList<>();
    r.structures.outermost = new ArrayList<>();
    r.account.firstTransaction = r.account.transaction;
    r.account.forgiven = 0;
    r.batchWaitMs = 0;
    profile = null;
    crossings++;
    commands += r.commands;
    r.batchNumber++;
    r.published = 0;
    r.tables = 0;
    r.commands = 0;
    if (unsent.length == 0) {
      Words empty = unsent;
      unsent = r.batch;
      r.batch = empty;
    } else {
      unsent.raw(r.batch.bytes, 0, r.batch.length);
      r.batch.length = 0;
    }
    batch.endsAt = sentBytes + unsent.length;
    r.wanted += batch.wanted;
    r.underWay.addLast(batch);
  }

  /** Appends flush, with the ranges of wanted positions, whose slots are then under way. */
  private void appendFlush(Batch batch, int flags) {
    Words out = r.batch;
    int start = out.length;
    out.word(0);
    int ranges = 0;
    int first = 0;
    Batch.Futures futures = batch.futures;
    for (int index = 0; index <= futures.count; index++) {
      Slot slot = index < futures.count ? futures.slot(index) : null;
      if (slot != null && slot.holders == 0) {
        futures.forget(index);
        slot = null;
      }
      if (slot != null) {
        slot.state = Slot.State.UNDER_WAY;
        slot.batch = batch.number;
      }
      if (slot != null && slot.isWanted) {
        batch.wanted++;
        first = first == 0 ? index + 1 : first;
      } else if (first > 0) {
        out.word(Words.pair(first, index + 1 - first));
        ranges++;
        first = 0;
      }
    }
    Words.setWordAt(out.bytes, start, Words.head(Tables.OP_FLUSH, flags, ranges));
  }

  // Bytes in.

  /**
   * Takes bytes of the server, cut anywhere. Returns true if the oldest batch under way has been
   * answered with them; its stubs then have their objects, values or failures. Bytes behind the
   * answer are kept: if more batches are under way, the caller hands in no bytes for the next
   * answer. If the session is closed then, {@link Recorder#broken} is the failure.
   */
  boolean handleBytes(byte[] bytes, int count) {
    if (r.broken != null) {
      return false;
    }
    Failure.Ending why;
    try {
      Reply came = replies.next(bytes, count);
      if (came == null) {
        return false;
      }
      if (came instanceof Reply.Broken end) {
        why = new Failure.ByServer(end.number(), end.position(), end.text());
      } else if (came instanceof Reply.Flushed flushed) {
        why = apply(flushed);
      } else {
        why = new Failure.ByWrongReply("an answer to flush");
      }
    } catch (MalformedException bad) {
      why = new Failure.ByBadReply(bad.number, String.valueOf(bad.getMessage()));
    }
    if (why != null) {
      close(why);
      return false;
    }
    return true;
  }

  /**
   * Fills the slots of a batch's futures from its answer. Returns the reason for which the session
   * is to be closed, or null.
   */
  private Failure.@Nullable Ending apply(Reply.Flushed flushed) {
    Batch batch = r.underWay.peekFirst();
    if (batch == null || batch.endsAt > sentBytes) {
      return new Failure.ByWrongReply("none, since none was due");
    }
    r.underWay.removeFirst();
    r.wanted -= batch.wanted;
    Filling filling = new Filling(batch, flushed);
    Failure.Ending why = filling.fill();
    filling.signalled.forEach(r::dropHandle);
    if (why != null) {
      // Its stubs get the failure with which the session is closed.
      r.underWay.addFirst(batch);
      return why;
    }
    for (int index = 0; index < batch.futures.count; index++) {
      Slot slot = batch.futures.slot(index);
      if (slot != null && slot.holders == 0) {
        r.empty(slot);
      }
    }
    answered.removeIf(one -> one.last() <= batch.number);
    r.account.boundUntold();
    r.attend();
    return null;
  }

  /** The filling of a batch's slots from its answer. */
  private final class Filling {
    private final Batch batch;
    private final Reply.Flushed flushed;

    /** The exceptions as failures, in order and by the positions of their calls. */
    private final List<Failure> failures = new ArrayList<>();

    private final Map<Integer, Failure> byCall = new HashMap<>();

    /** The failure that ended the batch, and its position. */
    private @Nullable Failure end;

    private long endAt = Long.MAX_VALUE;

    /** The objects in the values of exceptions, which are held until all stubs hold theirs. */
    final List<Long> signalled = new ArrayList<>();

    Filling(Batch batch, Reply.Flushed flushed) {
      this.batch = batch;
      this.flushed = flushed;
    }

    Failure.@Nullable Ending fill() {
      takeExceptions();
      r.account.noteAnswer(!flushed.exceptions().isEmpty() || flushed.omitted() != 0);
      executed += flushed.calls() & 0xffffffffL;
      if (batch.number == r.batchNumber - 1) {
        profile = flushed.profile();
      }
      List<Value> outcomes = flushed.outcomes();
      int next = 0;
      for (int index = 0; index < batch.futures.count; index++) {
        Slot slot = batch.futures.slot(index);
        if (slot == null) {
          continue;
        }
        if (!slot.isWanted) {
          settleUnwanted(slot, index);
          continue;
        }
        if (next == outcomes.size()) {
          return wrongCount();
        }
        Value outcome = outcomes.get(next++);
        if (outcome.tag == Tables.TAG_EXCEPTION && outcome.word >= failures.size()) {
          return new Failure.ByWrongReply("an exception that is listed");
        }
        settle(slot, index, outcome);
      }
      return next < outcomes.size() ? wrongCount() : null;
    }

    private static Failure.Ending wrongCount() {
      return new Failure.ByWrongReply("an outcome for each wanted result");
    }

    private void settle(Slot slot, int index, Value outcome) {
      long maker = batch.futures.maker(index);
      Object source = batch.futures.source(index);
      switch (outcome.tag) {
        case Tables.TAG_REF -> r.settleObject(slot, outcome.word, maker, source);
        case Tables.TAG_ROWS -> r.settleRows(slot, outcome, maker, source);
        case Tables.TAG_EXCEPTION -> r.settleFailed(slot, failures.get((int) outcome.word));
        case Tables.TAG_ABSENT -> r.settleFailed(slot, notReached(index));
        default -> r.settleValue(slot, outcome);
      }
    }

    /** Settles a result that was not asked for: its outcome follows from the exceptions. */
    private void settleUnwanted(Slot slot, int index) {
      Failure known = byCall.get(index + 1);
      if (known == null && index + 1 > endAt) {
        known = notReached(index);
      } else if (known == null && flushed.omitted() != 0) {
        known = new Failure.Unseen(List.of(), flushed.omitted() & 0xffffffffL, null);
      }
      if (known == null) {
        r.settleValue(slot, Value.nil());
      } else {
        r.settleFailed(slot, known);
      }
    }

    private Failure notReached(int index) {
      return new Failure.NotReached(end, r.callName(batch, index + 1, List.of()));
    }

    /** Takes the exceptions as failures, which go into the history. */
    private void takeExceptions() {
      r.account.omit(flushed.omitted() & 0xffffffffL);
      for (Reply.Thrown thrown : flushed.exceptions()) {
        int call = thrown.call();
        boolean isKnown = call > 0 && call <= batch.futures.count;
        long maker = isKnown ? batch.futures.maker(call - 1) : Maker.REFUSED;
        Failure.CallName name = nameOf(thrown);
        Failure unseen = isKnown ? unseenOf(thrown, name, maker) : null;
        Failure failure = unseen == null ? failureOf(thrown, name) : unseen;
        if (thrown.parts() instanceof Reply.Refused refused
            && Failure.endsBatch(refused.number())) {
          end = failure;
          endAt = call & 0xffffffffL;
          r.ends.count++;
          batchEnd = end;
        }
        byCall.put(call, failure);
        failures.add(failure);
        if (isKnown && maker == Maker.REFUSED) {
          // The calls that it stands for are noted.
          continue;
        }
        if (unseen != null) {
          r.account.noteUnseen(failure, batch, call);
        } else {
          r.account.noteFailure(failure, batch, call);
        }
        r.account.remember(failure, batch.number);
      }
      if (!byCall.isEmpty()) {
        answered.add(new Batch.Answered(batch.number, r.batchNumber, byCall));
      }
    }

    private Failure.CallName nameOf(Reply.Thrown thrown) {
      if (!(thrown.parts() instanceof Reply.Signalled)) {
        // A structure that is not run has the position of its first call, and none of its calls is
        // to blame.
        Failure.CallName structure = batch.structureName(thrown.call());
        if (structure != null) {
          return structure;
        }
      }
      return r.callName(batch, thrown.call(), Failure.boxed(thrown.rounds()));
    }

    /** Returns the failure of a commit for failures that the program was not told of, or null. */
    private @Nullable Failure unseenOf(Reply.Thrown thrown, Failure.CallName name, long maker) {
      boolean isUnseen =
          thrown.parts() instanceof Reply.Refused refused
              && refused.number() == Tables.ERROR_UNSEEN;
      if (isUnseen && Maker.isOf(maker, Maker.COMMIT)) {
        return r.account.unseen(name, maker & 0xffffffffL);
      }
      return isUnseen && Maker.isOf(maker, Maker.TRANSACTION)
          ? r.account.unseen(name, 0xffffffffL)
          : null;
    }

    private Failure failureOf(Reply.Thrown thrown, Failure.CallName name) {
      if (thrown.parts() instanceof Reply.Signalled signal) {
        List<Value> values = new ArrayList<>();
        signal.values().forEach(value -> values.add(exceptionValue(value)));
        return new Failure.Signal(
            signal.name(), List.copyOf(values), signal.places(), signal.morePlaces(), name);
      }
      if (thrown.parts() instanceof Reply.NotRun notRun) {
        return new Failure.Unhandled(notRun.argument(), causeOf(thrown.call(), notRun), name);
      }
      Reply.Refused refused = (Reply.Refused) thrown.parts();
      return new Failure.Refused(refused.number(), withNames(refused.text()), name);
    }

    /** Returns the failure for which a call was not run; null if it is not known. */
    private @Nullable Failure causeOf(int call, Reply.NotRun notRun) {
      Failure known = null;
      if (notRun.back() == 0) {
        known = byCall.get(notRun.cause());
      } else {
        for (Batch.Answered one : answered) {
          if (one.batch() + notRun.back() == batch.number) {
            known = one.failures().get(notRun.cause());
          }
        }
      }
      return known == null ? batch.errorHandle(call, notRun.argument()) : known.asCause();
    }

    /**
     * Returns a value of an exception as failures have it. Objects in it are held until all stubs
     * of the batch hold theirs.
     */
    private Value exceptionValue(Value value) {
      if (value.tag == Tables.TAG_REF) {
        holdSignalled(value.word);
      } else if (value.isCompound()) {
        value.eachReference(this::holdSignalled);
        return Value.nil();
      }
      return value;
    }

    private void holdSignalled(long handle) {
      r.hold(handle);
      signalled.add(handle);
    }

    /** Returns a text of the server with names for the handles in it. */
    private String withNames(String text) {
      return HANDLE
          .matcher(text)
          .replaceAll(
              found -> {
                String name = r.handleName(Long.parseLong(found.group(1)));
                return Matcher.quoteReplacement(name == null ? found.group() : name);
              });
    }
  }
}
