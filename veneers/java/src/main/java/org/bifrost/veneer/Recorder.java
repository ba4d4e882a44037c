package org.bifrost.veneer;

import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * The recorder of one session: calls become a batch, the reply becomes knowledge about stubs. It
 * does no input or output, and knows no threads, clocks or sockets: bytes are taken out of it, and
 * handed in. One thread uses it at a time.
 *
 * <pre>
 * batch recorded --Crossing.beginFlush--> under way --Crossing.handleBytes--> answered
 * any            --Crossing.close------> closed: all stubs without a result have the reason
 * </pre>
 *
 * <p>This class has the slots, the handles, and the names of calls. Its parts record: {@link Calls}
 * calls, and the other commands that are no structures; {@link Structures} structures and
 * procedures; {@link Ends} commits, transactions, waits. {@link Account} knows the failures that
 * the program was not told of, and {@link Crossing} the way of a batch to the server and back.
 */
final class Recorder {
  /** The settings of a recorder. */
  static final class Settings {
    /** The length of the longest reply that is read. */
    int replyBytesMax = Tables.REPLY_BYTES_MAX;

    /** The number of futures after which a flush is due, at most. */
    long remapFutures = Tables.REMAP_FUTURES;

    /** The program's place in a trace, or empty. */
    String trace = "";

    /** Shows the caller's word for a place. */
    Function<Object, String> place = Object::toString;
  }

  /** A handle of the session: the number of its holders, and the call that made it. */
  private static final class Held {
    int holders;
    final long maker;
    final @Nullable Object source;
    final boolean isMade;

    Held(long maker, @Nullable Object source, boolean isMade) {
      this.maker = maker;
      this.source = source;
      this.isMade = isMade;
    }
  }

  final Numbers numbers;
  final Bounds bounds;
  final Settings settings;

  /** The bytes that were not sent. Structures stay here until they are whole. */
  Words batch = new Words(Tables.PUBLISH_BYTES + 1024);

  Batch.Futures futures = new Batch.Futures();
  int commands;

  /** The number of bytes of this batch that were sent. */
  int published;

  /** When one of these is reached, {@link #due} looks more closely. */
  int attentionBytes = Tables.PUBLISH_BYTES;

  final int attentionFutures;
  List<Batch.ErrorHandle> errorHandles = new ArrayList<>();

  /** The number of tables of this batch. */
  int tables;

  /** The milliseconds that this batch may wait for changes of others. */
  long batchWaitMs;

  /** True while the batch is a transaction, which is sent whole. */
  boolean isShipping;

  private final Map<Long, Held> handles = new HashMap<>();
  private long[] frees = new long[16];
  private int freeCount;

  /** The holds of slots that the garbage collector has found to be gone. */
  final ReferenceQueue<Slot> gone = new ReferenceQueue<>();

  private @Nullable Hold holds;

  /** The reason why the outermost open structure is not sent. */
  @Nullable Failure poison;

  /** The reason why the session has ended. */
  @Nullable Failure broken;

  /** The batches without an answer, oldest first, and the number of their results. */
  final Deque<Batch> underWay = new ArrayDeque<>();

  int wanted;
  long batchNumber = 1;

  final Account account;
  final Calls calls;
  final Structures structures;
  final Ends ends;
  final Crossing crossing;

  /** Makes the recorder of a session that was greeted. */
  Recorder(Numbers numbers, Bounds bounds, Settings settings, Replies replies) {
    this.numbers = numbers;
    this.bounds = bounds;
    this.settings = settings;
    // The flush is a command, too: it has a word for every second future at most.
    long frameWords = Math.max(bounds.frameBytes / 8, 1);
    bounds.futures = Math.max(Math.min(bounds.futures, 2 * (frameWords - 1)), 1);
    long attention = Math.min(Math.min(settings.remapFutures, bounds.futures), bounds.commands / 2);
    attentionFutures = (int) Math.min(Math.max(attention, 1), Integer.MAX_VALUE);
    account = new Account(this);
    calls = new Calls(this);
    structures = new Structures(this);
    ends = new Ends(this);
    crossing = new Crossing(this, replies);
  }

  // Slots.

  /**
   * Makes a slot that of a result of the call that was recorded last, or of one that was refused.
   * All results of a call are taken, in order, before anything else is recorded.
   */
  <S extends Slot> S result(S slot, @Nullable Failure refused, @Nullable Object source) {
    return result(slot, refused, calls.maker, source);
  }

  <S extends Slot> S result(
      S slot, @Nullable Failure refused, long maker, @Nullable Object source) {
    if (refused != null) {
      settleFailed(slot, refused);
    } else {
      slot.number = futures.add(slot, maker, source);
    }
    return slot;
  }

  /** Takes a position for a result that nobody wants; returns its reference. */
  long skipResult(long maker, @Nullable Object source) {
    return -futures.add(null, maker, source);
  }

  /** Makes a slot that of a value. It crosses only when it is used. */
  <S extends Slot> S value(S slot, Value value) {
    settleValue(slot, value);
    return slot;
  }

  /** Makes a slot that of a further stub of an object that the session has a handle for. */
  <S extends Slot> S object(S slot, long handle) {
    slot.set(Slot.State.OBJECT, null);
    slot.number = handle;
    holdFor(slot, handle, 0, null, false);
    return slot;
  }

  void settleObject(Slot slot, long handle, long maker, @Nullable Object source) {
    slot.set(Slot.State.OBJECT, null);
    slot.number = handle;
    holdFor(slot, handle, maker, source, true);
  }

  void settleValue(Slot slot, Value value) {
    slot.set(Slot.State.VALUE, value);
    value.eachReference(handle -> holdFor(slot, handle, 0, null, false));
  }

  void settleRows(Slot slot, Value value, long maker, @Nullable Object source) {
    slot.set(Slot.State.VALUE, value);
    value.table().eachHandle(handle -> holdFor(slot, handle, maker, source, true));
  }

  void settleFailed(Slot slot, Failure failure) {
    slot.set(Slot.State.FAILED, failure);
    if (failure instanceof Failure.Signal signal) {
      for (Value value : signal.values()) {
        if (value.isObject()) {
          holdFor(slot, value.word, 0, null, false);
        }
      }
    }
    account.isStale = true;
    // Most failures of stubs are told, or are of stubs that left their structure.
    if (slot.holders == 0 || !account.isUntold(failure)) {
      return;
    }
    Hold hold = holdOf(slot);
    hold.failure = failure;
    hold.isWanted = slot.isWanted;
    // A call that nobody asks for tells nothing.
    if (hold.isWanted) {
      account.held(failure);
    }
  }

  private Hold holdOf(Slot slot) {
    Hold hold = slot.hold;
    if (hold == null) {
      hold = new Hold(slot, this);
      hold.behind = holds;
      if (holds != null) {
        holds.before = hold;
      }
      holds = hold;
      slot.hold = hold;
    }
    return hold;
  }

  /** Gives back what a slot without holders has. The slot of a pending result gets its outcome. */
  void empty(Slot slot) {
    Hold hold = slot.hold;
    if (hold != null) {
      slot.hold = null;
      hold.clear();
      discard(hold);
    }
  }

  private void discard(Hold hold) {
    if (hold.before != null) {
      hold.before.behind = hold.behind;
    } else {
      holds = hold.behind;
    }
    if (hold.behind != null) {
      hold.behind.before = hold.before;
    }
    for (long handle : hold.handles) {
      dropHandle(handle);
    }
    if (hold.failure != null) {
      if (hold.isWanted) {
        account.unheld(hold.failure);
      }
      account.isStale = true;
    }
  }

  /** Gives back what the slots had that the garbage collector has found to be gone. */
  void collect() {
    for (Reference<?> one = gone.poll(); one != null; one = gone.poll()) {
      discard((Hold) one);
    }
  }

  // Handles.

  /** Counts a further holder of a handle. */
  void hold(long handle) {
    hold(handle, 0, null, false);
  }

  private void hold(long handle, long maker, @Nullable Object source, boolean isMade) {
    handles.computeIfAbsent(handle, h -> new Held(maker, source, isMade)).holders++;
  }

  private void holdFor(
      Slot slot, long handle, long maker, @Nullable Object source, boolean isMade) {
    hold(handle, maker, source, isMade);
    holdOf(slot).add(handle);
  }

  /** Counts a holder of a handle less. The handle goes back with the next batch if it has none. */
  void dropHandle(long handle) {
    Held held = handles.get(handle);
    if (held == null) {
      return;
    }
    held.holders--;
    if (held.holders == 0) {
      if (freeCount == frees.length) {
        frees = Arrays.copyOf(frees, 2 * freeCount);
      }
      frees[freeCount++] = handle;
    }
  }

  /** Returns the handles to give back, ascending; those that have holders again are not. */
  long[] frees() {
    return Arrays.stream(frees, 0, freeCount)
        .sorted()
        .distinct()
        .filter(
            handle -> {
              Held held = handles.get(handle);
              return held != null && held.holders == 0;
            })
        .toArray();
  }

  /** Forgets handles that were given back. */
  void forget(long[] given) {
    for (long handle : given) {
      handles.remove(handle);
    }
    freeCount = 0;
  }

  // Names, for messages.

  /** Returns the name of a call. */
  String makerName(long maker) {
    int number = (int) maker;
    if (maker >>> 32 == 0) {
      return numbers.stubs.own().methodName(number);
    }
    if (Maker.isOf(maker, Maker.ROUTINE)) {
      return numbers.stubs.own().routineName(number);
    }
    if (Maker.isOf(maker, Maker.PROCEDURE)) {
      return structures.procedureName(number);
    }
    return Maker.name(maker);
  }

  /** Returns the name of a call of a batch. */
  Failure.CallName callName(Batch of, int position, List<Integer> rounds) {
    if (position <= 0 || position > of.futures.count) {
      return new Failure.CallName("?", position, rounds, null);
    }
    return new Failure.CallName(
        makerName(of.futures.maker(position - 1)),
        position,
        rounds,
        of.futures.source(position - 1));
  }

  /**
   * Returns the name of a handle in messages: the call that the object came from; null if it is not
   * known.
   */
  @Nullable String handleName(long handle) {
    Held held = handles.get(handle);
    if (held == null || !held.isMade) {
      return null;
    }
    String at = held.source == null ? "" : " at " + settings.place.apply(held.source);
    return "the result of `" + makerName(held.maker) + "`" + at;
  }

  // Admission.

  /** The work to be done before the next command is recorded. */
  enum Due {
    NOTHING,
    /** To send the bytes that are there. */
    SEND,
    /** To send all, and to wait for the answer: all futures become handles and values. */
    FLUSH
  }

  /** Returns true if a command can be recorded at once. Else {@link #due} tells the work before. */
  boolean isReady() {
    return batch.length < attentionBytes && futures.count < attentionFutures;
  }

  /** Returns the failure with which every command is refused; null for none. */
  @Nullable Failure refusal() {
    return broken != null ? broken : poison;
  }

  /**
   * Returns the failure with which the next command is refused; null for none. It is to be called
   * before {@link #due}.
   */
  @Nullable Failure dueRefusal() {
    Failure refusal = refusal();
    if (refusal != null) {
      return refusal;
    }
    account.clearTold();
    long size = (long) published + batch.length;
    boolean isInside = structures.isOpen() || isShipping;
    boolean isTooLong =
        size > bounds.batchBytes || futures.count >= bounds.futures || commands >= bounds.commands;
    return isInside && isTooLong ? Failure.misused(Misuse.TOO_LONG) : null;
  }

  /** Returns the work to be done before the next command, which was not refused. */
  Due due() {
    if (structures.isOpen() || isShipping) {
      return Due.NOTHING;
    }
    long size = (long) published + batch.length;
    long remap = tables > 0 ? bounds.futures : attentionFutures;
    boolean isFull = size > bounds.batchBytes || bounds.frameBytes > bounds.batchBytes - size;
    if (futures.count >= remap || commands + 1 >= bounds.commands || isFull) {
      return Due.FLUSH;
    }
    return batch.length >= Tables.PUBLISH_BYTES ? Due.SEND : Due.NOTHING;
  }

  /** Admits a command inside an open structure, where nothing is sent and nothing is due. */
  @Nullable Failure admitInside() {
    return isReady() ? null : dueRefusal();
  }

  /** Appends a command of these words. */
  void command(long... words) {
    for (long word : words) {
      batch.word(word);
    }
    commands++;
  }

  /** Sets the size at which recording is looked at more closely. */
  void attend() {
    boolean isClose = broken != null || poison != null || account.mustClear();
    attentionBytes = isClose ? 0 : Tables.PUBLISH_BYTES;
  }
}
