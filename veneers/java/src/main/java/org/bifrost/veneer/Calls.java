package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The recording of calls, and of the other commands that are no structures.
 *
 * <p>A call is begun with its receiver, gets its arguments one by one, and is ended: then it has
 * left its bytes in the batch, or none of them and a failure. Commands take the admission that the
 * caller got: null, or the failure with which the command is refused. {@link #maker} is then the
 * maker of the results, of which the caller makes slots with {@link Recorder#result}.
 */
final class Calls {
  /** The items of a compound, which has the type of its place. */
  record Items(List<?> parts) {}

  private final Recorder r;

  /** The maker of the results of the command that was recorded last. */
  long maker;

  private @Nullable Failure wrong;
  private @Nullable Object source;
  private int start;
  private int tagsAt;
  private int next;

  /** The compounds that are open: the places of their tags, and their next items. */
  private final int[] openTags = new int[Tables.COMPOUND_DEPTH_MAX + 1];

  private final int[] openNext = new int[Tables.COMPOUND_DEPTH_MAX + 1];
  private int depth;

  /** The reference that {@link #stub} has found. */
  private long reference;

  Calls(Recorder recorder) {
    r = recorder;
  }

  // Calls.

  /** Begins a call of a method, or a message, by the method's number in the stubs. */
  void begin(
      int code,
      @Nullable Failure admitted,
      Slot receiver,
      int method,
      int count,
      @Nullable Object place) {
    Failure refused = admitted;
    if (refused == null) {
      refused = reference(receiver, place);
    }
    beginMethod(code, refused, reference, method, count, place);
  }

  /** As {@link #begin}, with the reference to the receiver, or the failure to make one. */
  void beginMethod(
      int code,
      @Nullable Failure refused,
      long receiver,
      int method,
      int count,
      @Nullable Object place) {
    int number = r.numbers.method(method);
    Failure why = refused;
    if (why == null && number == Tables.NO_NUMBER) {
      why = new Failure.Missing(r.makerName(method & 0xffffffffL));
    }
    begin(Words.head(code, 0, number), method & 0xffffffffL, why, true, receiver, count, place);
  }

  /** Begins a call of a routine, by the number that the stubs give it. */
  void beginRoutine(
      @Nullable Failure admitted, Stubs stubs, int routine, int count, @Nullable Object place) {
    long by = Maker.of(Maker.ROUTINE, routine);
    int number = r.numbers.routine(routine);
    Failure why = admitted;
    if (why == null && stubs != r.numbers.stubs) {
      why = Failure.misused(Misuse.OTHER_INTERFACE);
    } else if (why == null && number == Tables.NO_NUMBER) {
      why = new Failure.Missing(r.makerName(by));
    }
    begin(Words.head(Tables.OP_CALL_ROUTINE, 0, number), by, why, false, 0, count, place);
  }

  /**
   * Begins a call of a batched procedure. For a definition that was not sent, refused is the
   * reason: another procedure has its number.
   */
  void beginProcedure(
      @Nullable Failure admitted,
      int number,
      @Nullable Failure refused,
      int count,
      @Nullable Object place) {
    long by = Maker.of(Maker.PROCEDURE, refused == null ? number : Tables.NO_NUMBER);
    Failure why = admitted == null ? refused : admitted;
    begin(Words.head(Tables.OP_CALL_PROCEDURE, 0, number), by, why, false, 0, count, place);
  }

  /** Begins a row of a table. */
  void beginEmit(@Nullable Failure admitted, Slot rows, int count, @Nullable Object place) {
    Failure why = admitted;
    if (why == null && rows.state != Slot.State.FUTURE && rows.state != Slot.State.FAILED) {
      why = Failure.misused(Misuse.ENDED_TABLE);
    }
    if (why == null) {
      why = reference(rows, place);
    }
    begin(Words.head(Tables.OP_EMIT, 0, 0), Maker.EMIT, why, true, reference, count, place);
  }

  private void begin(
      long first,
      long by,
      @Nullable Failure refused,
      boolean hasReceiver,
      long receiver,
      int count,
      @Nullable Object place) {
    maker = by;
    source = place;
    wrong = refused;
    depth = 0;
    next = 0;
    if (wrong == null && count > Tables.ARGUMENTS_MAX) {
      wrong = Failure.misused(Misuse.TOO_LONG);
    }
    if (wrong != null) {
      return;
    }
    Words batch = r.batch;
    start = batch.length;
    batch.word(first | (long) count << 8);
    if (hasReceiver) {
      batch.word(receiver);
    }
    tagsAt = batch.length;
    if (count > 4) {
      batch.zeros(Words.tagBytes(count - 4));
    }
  }

  /** Ends a call; returns the failure of its results if nothing of it was recorded. */
  @Nullable Failure end() {
    Failure why = wrong;
    if (why == null && r.batch.length - start > r.bounds.frameBytes) {
      r.batch.length = start;
      why = Failure.misused(Misuse.TOO_LONG);
    }
    if (why != null) {
      return refuse(why);
    }
    r.commands++;
    return null;
  }

  /** Takes a call back that is not ended, because an argument is none. Nothing of it is noted. */
  void cancel() {
    if (wrong == null) {
      r.batch.length = start;
    }
    forgetNotes();
  }

  /** Refuses the call that was begun. The next call takes its position, and has other arguments. */
  private Failure refuse(Failure why) {
    forgetNotes();
    return r.account.refuse(r.makerName(maker), source, why);
  }

  private Failure refuse(long by, @Nullable Object place, Failure why) {
    maker = by;
    source = place;
    return refuse(why);
  }

  private void forgetNotes() {
    int position = r.futures.count + 1;
    List<Batch.ErrorHandle> notes = r.errorHandles;
    while (!notes.isEmpty() && notes.get(notes.size() - 1).position() == position) {
      notes.remove(notes.size() - 1);
    }
  }

  // Arguments.

  private void fail(Failure why) {
    wrong = why;
    r.batch.length = start;
  }

  /** Appends an argument or item of one word. */
  void word(int tag, long word) {
    if (wrong == null) {
      r.batch.word(word);
      tag(tag);
    }
  }

  /** Appends a text; one with half a pair of surrogates is refused. */
  void text(String text) {
    if (wrong != null) {
      return;
    }
    if (!Words.isText(text)) {
      fail(Failure.misused(Misuse.NOT_TEXT));
      return;
    }
    r.batch.text(text);
    tag(Tables.TAG_STRING);
  }

  /** Appends a byte string. */
  void bytes(byte[] bytes) {
    if (wrong == null) {
      r.batch.bytes(bytes);
      tag(Tables.TAG_BYTES);
    }
  }

  /** Appends a character; another number than a Unicode scalar value is refused. */
  void character(int codePoint) {
    if (wrong == null && !Words.isScalar(codePoint)) {
      fail(Failure.misused(Misuse.NOT_TEXT));
    }
    word(Tables.TAG_CHAR, codePoint);
  }

  /** Appends a value. An object, and a compound that has come, are none. */
  void value(Value value) {
    if (wrong != null) {
      return;
    }
    if (value.isNil()) {
      word(Tables.TAG_NIL, 0);
      return;
    }
    if (value.tag == Tables.TAG_REF || value.tag == Tables.TAG_ROWS) {
      fail(Failure.misused(Misuse.RELEASED));
      return;
    }
    r.batch.value(value);
    tag(value.tag);
  }

  /** Appends a stub. */
  void slot(Slot slot) {
    if (wrong != null) {
      return;
    }
    Failure why = stub(slot, argument());
    if (why != null) {
      fail(why);
    } else if (isValue) {
      r.batch.value(slot.value());
      tag(slot.value().tag);
    } else {
      r.batch.word(reference);
      tag(Tables.TAG_REF);
    }
  }

  /** Begins a compound of so many items, which follow. */
  void beginItems(int count) {
    if (wrong != null) {
      return;
    }
    if (depth == Tables.COMPOUND_DEPTH_MAX) {
      fail(Failure.misused(Misuse.VALUE_TOO_DEEP));
      return;
    }
    openTags[depth] = r.batch.beginItems(Tables.NO_NUMBER, count);
    openNext[depth] = 0;
    depth++;
  }

  /** Ends the innermost compound. */
  void endItems() {
    if (wrong == null) {
      depth--;
      r.batch.endItems(openTags[depth]);
      tag(Tables.TAG_COMPOUND);
    }
  }

  /** Appends an operand: a slot, a {@link Value}, or {@link Items}. */
  void operand(Object operand) {
    if (operand instanceof Slot slot) {
      slot(slot);
    } else if (operand instanceof Value value) {
      value(value);
    } else if (operand instanceof Items items) {
      beginItems(items.parts().size());
      if (wrong == null) {
        items.parts().forEach(this::operand);
        endItems();
      }
    } else {
      throw new IllegalArgumentException(operand + " is no operand");
    }
  }

  /** Returns the number of the argument that is appended, or that open compounds are a part of. */
  private int argument() {
    return next + 1;
  }

  private void tag(int tag) {
    if (depth > 0) {
      r.batch.setTag(openTags[depth - 1], openNext[depth - 1]++, tag);
    } else if (next < 4) {
      r.batch.setTag(start + 2, next++, tag);
    } else {
      r.batch.setTag(tagsAt, next++ - 4, tag);
    }
  }

  /** Returns the compound of items, or null: then {@link #wrong} is the reason. */
  @Nullable Value compose(Items items) {
    Words outer = r.batch;
    r.batch = new Words(256);
    try {
      begin(0, 0, null, false, 0, 1, null);
      operand(items);
      if (wrong != null) {
        return null;
      }
      byte[] data = new byte[r.batch.length - 16];
      System.arraycopy(r.batch.bytes, 16, data, 0, data.length);
      return Value.ofData(Tables.TAG_COMPOUND, data);
    } finally {
      r.batch = outer;
    }
  }

  /** Returns the reason why {@link #compose} has returned null. */
  Failure composeFailure() {
    return wrong == null ? Failure.misused(Misuse.UNTYPED) : wrong;
  }

  // References.

  private boolean isValue;

  /** Finds the reference to a stub: the error-handle for a failure, none for a value. */
  private @Nullable Failure stub(Slot slot, int argument) {
    isValue = false;
    if (slot.core != r) {
      return Failure.misused(Misuse.OTHER_SESSION);
    }
    if (slot.holders == 0) {
      return Failure.misused(Misuse.RELEASED);
    }
    switch (slot.state) {
      case FUTURE -> reference = -slot.number;
      case OBJECT -> reference = slot.number;
      case UNDER_WAY -> {
        return earlier(slot);
      }
      case FAILED -> {
        if (slot.isUnusable()) {
          return slot.failure();
        }
        reference = 0;
        r.errorHandles.add(
            new Batch.ErrorHandle(r.futures.count + 1, argument, slot.failure().asCause()));
      }
      default -> {
        reference = 0;
        isValue = !slot.isRows();
      }
    }
    return null;
  }

  /** Finds the reference to a result of a batch under way. */
  private @Nullable Failure earlier(Slot slot) {
    for (Batch batch : r.underWay) {
      if (batch.number == slot.batch && batch.isKept && slot.isWanted) {
        reference = -((r.batchNumber - slot.batch) << 32 | slot.number);
        return null;
      }
    }
    return Failure.misused(Misuse.UNDER_WAY);
  }

  /** Returns the reference that was found last. */
  long reference() {
    return reference;
  }

  /**
   * Finds the reference to a stub, for a marker or a receiver; records a constant for a value. The
   * caller was admitted: a flush in between would end the reference.
   */
  @Nullable Failure reference(Slot slot, @Nullable Object place) {
    Failure why = stub(slot, 0);
    return why == null && isValue ? constant(slot.value(), place) : why;
  }

  private @Nullable Failure constant(Value value, @Nullable Object place) {
    Words batch = r.batch;
    int before = batch.length;
    batch.word(Words.head(Tables.OP_CONSTANT, value.tag, 0));
    batch.value(value);
    if (batch.length - before > r.bounds.frameBytes) {
      batch.length = before;
      return Failure.misused(Misuse.TOO_LONG);
    }
    r.commands++;
    // Only this use needs it.
    reference = r.skipResult(Maker.CONSTANT, place);
    return null;
  }

  /**
   * Finds a reference to an operand where only a reference can stand: a value is recorded as a
   * constant.
   */
  @Nullable Failure operandReference(Object operand, @Nullable Object place) {
    if (operand instanceof Slot slot) {
      return reference(slot, place);
    }
    if (operand instanceof Value value && !value.isCompound()) {
      return constant(value, place);
    }
    // Such a place gives a compound no type.
    return Failure.misused(Misuse.UNTYPED);
  }

  // Other commands.

  private Failure refuseNamed(String name, @Nullable Object place, Failure why) {
    return r.account.refuse(name, place, why);
  }

  /**
   * Records the lookup of a well-known object, by the number that the stubs give its type; {@code
   * NO_NUMBER} stands for any type. It is refused inside a structure. The stubs are null for those
   * of the session.
   */
  @Nullable Failure lookup(
      @Nullable Failure admitted,
      @Nullable Stubs stubs,
      String name,
      int type,
      String typeName,
      @Nullable Object place) {
    Failure why = admitted;
    int number = r.numbers.type(type);
    if (why == null) {
      if (stubs != null && stubs != r.numbers.stubs) {
        why = Failure.misused(Misuse.OTHER_INTERFACE);
      } else if (r.structures.isOpen()) {
        why = Failure.misused(Misuse.LOOKUP_INSIDE);
      } else if (!Words.isText(name)) {
        why = Failure.misused(Misuse.NOT_TEXT);
      } else if (utf8Length(name) + 16 > r.bounds.frameBytes) {
        why = Failure.misused(Misuse.TOO_LONG);
      } else if (number == Tables.NO_NUMBER && type != Tables.NO_NUMBER) {
        why = new Failure.Missing(typeName);
      }
    }
    if (why != null) {
      return refuseNamed("lookup", place, why);
    }
    r.command(Words.head(Tables.OP_LOOKUP, 0, number));
    r.batch.text(name);
    maker = Maker.LOOKUP;
    return null;
  }

  /** Returns the number of bytes of a text in UTF-8. */
  static long utf8Length(String text) {
    return text.codePoints()
        .mapToLong(c -> c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4)
        .sum();
  }

  /** Records the making of an empty cell, which has one result. */
  @Nullable Failure cell(
      @Nullable Failure admitted, int type, String typeName, @Nullable Object place) {
    int number = r.numbers.type(type);
    Failure why = admitted;
    if (why == null && number == Tables.NO_NUMBER) {
      why = new Failure.Missing("cell of " + typeName);
    }
    if (why != null) {
      return refuseNamed("cell", place, why);
    }
    r.command(Words.head(Tables.OP_CELL, 0, number));
    maker = Maker.CELL;
    return null;
  }

  /** The type of a column: the client's number, and the name. */
  record ColumnType(int number, String name) {}

  /**
   * Records the making of an empty table of rows, which has one result. It is refused inside a
   * structure.
   */
  @Nullable Failure rows(
      @Nullable Failure admitted, List<ColumnType> types, @Nullable Object place) {
    Failure why = admitted;
    if (why == null && r.structures.isOpen()) {
      why = Failure.misused(Misuse.TABLE_INSIDE);
    } else if (why == null && (types.isEmpty() || types.size() > Tables.ARGUMENTS_MAX)) {
      why = Failure.misused(Misuse.TOO_LONG);
    }
    List<Integer> numbers = new ArrayList<>();
    for (ColumnType column : types) {
      int number = r.numbers.type(column.number());
      if (why == null && number == Tables.NO_NUMBER) {
        why = new Failure.Missing(column.name());
      }
      numbers.add(number);
    }
    if (why != null) {
      return refuseNamed("rows", place, why);
    }
    r.command(Words.head(Tables.OP_ROWS, numbers.size(), 0));
    numbers.forEach(number -> r.batch.word(number & 0xffffffffL));
    r.tables++;
    maker = Maker.ROWS;
    return null;
  }

  /** Records that an object is seen as one of another type, which has one result. */
  @Nullable Failure cast(
      @Nullable Failure admitted, Slot target, int type, String name, @Nullable Object place) {
    return typed(Maker.AS, Tables.OP_AS, admitted, target, type, name, place);
  }

  /** Records the test if an object has a type, which has one result: a bool. */
  @Nullable Failure testType(
      @Nullable Failure admitted, Slot target, int type, String name, @Nullable Object place) {
    return typed(Maker.IS, Tables.OP_IS, admitted, target, type, name, place);
  }

  private @Nullable Failure typed(
      long by,
      int code,
      @Nullable Failure admitted,
      Slot target,
      int type,
      String name,
      @Nullable Object place) {
    int number = r.numbers.type(type);
    Failure why = admitted;
    if (why == null && number == Tables.NO_NUMBER) {
      why = new Failure.Missing(name);
    }
    if (why == null) {
      why = reference(target, place);
    }
    if (why != null) {
      return refuse(by, place, why);
    }
    r.command(Words.head(code, 0, number), reference);
    maker = by;
    return null;
  }

  /**
   * Records that the contents of an object are taken, which has one result: a value. It is refused
   * inside a structure.
   */
  @Nullable Failure get(@Nullable Failure admitted, Slot target, @Nullable Object place) {
    Failure why = admitted;
    if (why == null) {
      why = reference(target, place);
    }
    if (why == null && r.structures.isOpen()) {
      why = Failure.misused(Misuse.CONTENTS_INSIDE);
    }
    if (why != null) {
      return refuse(Maker.GET, place, why);
    }
    r.command(Tables.OP_GET, reference);
    maker = Maker.GET;
    return null;
  }
}
