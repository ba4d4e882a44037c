package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The recording of structures, which are open while their blocks are recorded and go to the server
 * when they are whole, and of batched procedures.
 *
 * <p>{@link #open} opens a structure, {@link #end} ends the innermost one, and {@link #reopen} goes
 * on with another block of one that has just ended: it takes the end marker back. A structure in
 * which a call or marker is refused leaves nothing in the batch.
 *
 * <pre>
 * structure   steps
 * while       open, calls, condition, calls, end
 * if          open, calls, condition, calls, end; reopen with else
 * foreach     foreach, a result for each value, calls, end
 * except      open, calls, end; reopen with when, others
 * procedure   openProcedure, a variable for each parameter, calls, returns, closeProcedure
 * </pre>
 */
final class Structures {
  /** An open structure, and the places in the batch where it starts. */
  record Scope(
      Structure kind,
      @Nullable Object source,
      int batchStart,
      int futuresStart,
      int commandsStart,
      long batch) {}

  /**
   * A structure that has just ended and may go on with another block. The length is that of the
   * batch behind the end marker; 0 if the structure was refused.
   */
  record Ended(
      Structure kind,
      long batch,
      int published,
      int batchLength,
      int batchStart,
      int futuresStart,
      int commandsStart) {}

  /** A further block of a structure. */
  sealed interface Block {
    /** Returns the name of its marker. */
    String name();
  }

  /** The block of a choice whose condition does not hold. */
  record Else() implements Block {
    @Override
    public String name() {
      return "else";
    }
  }

  /** A handler, with the client's numbers of the types of the exception's values. */
  record When(String signal, List<Integer> values) implements Block {
    @Override
    public String name() {
      return "when";
    }
  }

  /** The handler of all other exceptions; their name may be wanted. */
  record Others(boolean isNamed) implements Block {
    @Override
    public String name() {
      return "others";
    }
  }

  /** The types of a procedure, by the client's numbers; or {@link #NO_RESULT}. */
  record Heading(List<Integer> params, int result) {
    static final int NO_RESULT = -2;
  }

  /** A batched procedure: its name, its heading, its number in the session. */
  private record Procedure(String name, Heading heading, int number) {}

  private final Recorder r;
  private final List<Scope> scopes = new ArrayList<>();

  /** The structures of this batch that are in no other. */
  List<Batch.Outermost> outermost = new ArrayList<>();

  /** The failure of all stubs of ended structures. */
  private final Failure outOfScope = Failure.misused(Misuse.OUT_OF_SCOPE);

  /** The procedures that are defined, by number, and those being defined. */
  private final List<Procedure> procedures = new ArrayList<>();

  private final Map<String, Procedure> proceduresByName = new HashMap<>();
  private final List<Procedure> openProcedures = new ArrayList<>();

  Structures(Recorder recorder) {
    r = recorder;
  }

  boolean isOpen() {
    return !scopes.isEmpty();
  }

  /** Returns the number of open structures. */
  int depth() {
    return scopes.size();
  }

  @Nullable Scope outermostScope() {
    return scopes.isEmpty() ? null : scopes.get(0);
  }

  private boolean isInLoop() {
    for (int index = scopes.size() - 1; index >= 0; index--) {
      switch (scopes.get(index).kind()) {
        case PROCEDURE -> {
          return false;
        }
        case WHILE, FOREACH -> {
          return true;
        }
        default -> {}
      }
    }
    return false;
  }

  private boolean isInProcedure() {
    return scopes.stream().anyMatch(scope -> scope.kind() == Structure.PROCEDURE);
  }

  private Scope scope(Structure kind, @Nullable Object source) {
    return new Scope(kind, source, r.batch.length, r.futures.count, r.commands, r.batchNumber);
  }

  /**
   * Opens a loop with a condition, a choice, or a block whose exceptions are handled. It always
   * opens a scope, to be ended.
   */
  void open(@Nullable Failure admitted, Structure kind, @Nullable Object source) {
    openScope(admitted, kind, source);
    mark(kind.begin);
  }

  private void openScope(@Nullable Failure admitted, Structure kind, @Nullable Object source) {
    scopes.add(scope(kind, source));
    Failure why = admitted;
    if (why == null && scopes.size() > r.bounds.depth) {
      why = Failure.misused(Misuse.TOO_DEEP);
    }
    if (why != null) {
      r.account.refuse(kind.wireName, source, why);
    }
  }

  /**
   * Opens a loop over an iterator and begins the iterator's call: a method of a receiver, or
   * without one a routine of the stubs. It always opens a scope, to be ended; the caller adds the
   * arguments, ends the call, and takes a result for each value that the iterator yields.
   */
  void beginForeach(
      @Nullable Failure admitted,
      @Nullable Object receiver,
      int iterator,
      Stubs stubs,
      int count,
      @Nullable Object source) {
    Failure why = null;
    long reference = 0;
    boolean isForeign = receiver instanceof Slot slot && slot.core != r;
    // A constant receiver is recorded before the marker, because the call must follow it.
    if (admitted == null && receiver != null && !isForeign) {
      why = r.calls.operandReference(receiver, source);
      reference = r.calls.reference();
    }
    open(admitted, Structure.FOREACH, source);
    if (isForeign) {
      why = Failure.misused(Misuse.OTHER_SESSION);
    } else {
      Failure inside = r.admitInside();
      why = inside == null ? why : inside;
    }
    if (receiver != null) {
      r.calls.beginMethod(Tables.OP_CALL, why, reference, iterator, count, source);
    } else {
      r.calls.beginRoutine(why, stubs, iterator, count, source);
    }
  }

  /**
   * Finds the reference to an operand of a marker. That the operand is of another session comes
   * before the failure of a refused structure.
   */
  private @Nullable Failure markerReference(Object operand, @Nullable Object source) {
    if (operand instanceof Slot slot && slot.core != r) {
      return Failure.misused(Misuse.OTHER_SESSION);
    }
    Failure why = r.admitInside();
    return why == null ? r.calls.operandReference(operand, source) : why;
  }

  /**
   * Appends the marker between the condition of the innermost loop or choice and the commands that
   * depend on it.
   */
  void condition(Object test, @Nullable Object source) {
    boolean isLoop = isOpen() && scopes.get(scopes.size() - 1).kind() == Structure.WHILE;
    Failure why = markerReference(test, source);
    if (why != null) {
      r.account.refuse("condition", source, why);
    } else {
      mark(isLoop ? Tables.OP_DO : Tables.OP_THEN, r.calls.reference());
    }
  }

  /** Leaves the innermost loop; it is refused outside loops. */
  void breakLoop(@Nullable Object source) {
    jump("break", Tables.OP_BREAK, source);
  }

  /** Begins the next round of the innermost loop; it is refused outside loops. */
  void continueLoop(@Nullable Object source) {
    jump("continue", Tables.OP_CONTINUE, source);
  }

  private void jump(String name, int code, @Nullable Object source) {
    if (isInLoop()) {
      mark(code);
    } else {
      r.account.refuse(name, source, Failure.misused(Misuse.NO_LOOP));
    }
  }

  /**
   * Makes a slot that of a number that the last marker has taken: a value of an exception, its
   * name, or a parameter.
   */
  <S extends Slot> S variable(S slot, @Nullable Object source) {
    return r.result(slot, null, Maker.VARIABLE, source);
  }

  /** Returns true if markers are recorded: the structure will be sent. */
  private boolean isKept() {
    return r.poison == null && r.broken == null;
  }

  /** Appends a marker, unless the structure will not be sent. */
  private void mark(long... words) {
    if (isKept()) {
      r.command(words);
    }
  }

  /** Gives the stubs of the futures from a place on a failure. */
  void endFutures(int from, Failure failure) {
    for (int index = from; index < r.futures.count; index++) {
      Slot slot = r.futures.slot(index);
      r.futures.forget(index);
      if (slot != null && slot.holders > 0) {
        r.settleFailed(slot, failure);
      }
    }
  }

  /** Ends the innermost structure. If it was refused, nothing of the outermost one remains. */
  Ended end() {
    if (scopes.isEmpty()) {
      return refused(Structure.IF);
    }
    Scope last = scopes.get(scopes.size() - 1);
    mark(last.kind().end);
    scopes.remove(scopes.size() - 1);
    if (r.poison != null) {
      endFutures(last.futuresStart(), r.poison);
      takeBack(last);
      if (scopes.isEmpty()) {
        r.poison = null;
        r.attend();
      }
      return refused(last.kind());
    }
    endFutures(last.futuresStart(), outOfScope);
    if (scopes.isEmpty()) {
      int position = last.futuresStart() + 1;
      // A structure that went on with another block is one with its first.
      boolean isNew =
          outermost.isEmpty() || outermost.get(outermost.size() - 1).position() < position;
      if (isNew) {
        outermost.add(new Batch.Outermost(position, last.kind(), last.source()));
      }
    }
    return new Ended(
        last.kind(),
        r.batchNumber,
        r.published,
        r.batch.length,
        last.batchStart(),
        last.futuresStart(),
        last.commandsStart());
  }

  private Ended refused(Structure kind) {
    return new Ended(kind, r.batchNumber, 0, 0, 0, 0, 0);
  }

  /** Takes back the bytes, positions, commands and notes of a refused structure. */
  private void takeBack(Scope scope) {
    if (scope.batch() != r.batchNumber) {
      return;
    }
    // The tables of a closed session are empty.
    r.batch.length = Math.min(scope.batchStart(), r.batch.length);
    r.futures.truncate(scope.futuresStart());
    r.commands = scope.commandsStart();
    List<Batch.ErrorHandle> notes = r.errorHandles;
    while (!notes.isEmpty() && notes.get(notes.size() - 1).position() > scope.futuresStart()) {
      notes.remove(notes.size() - 1);
    }
  }

  /**
   * Takes back the end marker of a structure that has just ended, so that it goes on with another
   * block. It always opens a scope; if the structure cannot go on, the scope is one that is not
   * sent.
   */
  void reopen(Ended ended, Block block, @Nullable Object source) {
    reopenScope(ended, block.name(), source);
    if (!isKept()) {
      return;
    }
    if (block instanceof When when) {
      r.command(Words.head(Tables.OP_WHEN, when.values().size(), 0));
      r.batch.text(when.signal());
      for (int value : when.values()) {
        int number = r.numbers.type(value);
        r.batch.word(number == Tables.NO_NUMBER ? 0 : number);
      }
    } else if (block instanceof Others others) {
      int flags = others.isNamed() ? Tables.OTHERS_NAMED : 0;
      r.command(Words.head(Tables.OP_OTHERS, flags, 0));
    } else {
      r.command(Tables.OP_ELSE);
    }
  }

  private void reopenScope(Ended ended, String name, @Nullable Object source) {
    boolean isAdjacent =
        ended.batch() == r.batchNumber
            && ended.published() == r.published
            && ended.batchLength() > 0
            && ended.batchLength() == r.batch.length;
    if (isAdjacent) {
      // The end marker is one word.
      r.batch.length -= 8;
      r.commands--;
      scopes.add(
          new Scope(
              ended.kind(),
              source,
              ended.batchStart(),
              ended.futuresStart(),
              ended.commandsStart(),
              r.batchNumber));
      return;
    }
    scopes.add(scope(ended.kind(), source));
    if (ended.batchLength() > 0 || ended.batch() != r.batchNumber) {
      r.account.refuse(name, source, Failure.misused(Misuse.NOT_ADJACENT));
    } else if (r.poison == null) {
      // Its first block was refused and is in the history; the others go the same way.
      r.poison = Failure.misused(Misuse.ABANDONED);
      r.attend();
    }
  }

  /** Ends the innermost structure, whose block was left by an exception: it is refused. */
  void abandon() {
    if (!scopes.isEmpty()) {
      Scope last = scopes.get(scopes.size() - 1);
      r.account.refuse(last.kind().wireName, last.source(), Failure.misused(Misuse.ABANDONED));
      if (last.kind() == Structure.PROCEDURE) {
        openProcedures.remove(openProcedures.size() - 1);
      }
    }
    end();
  }

  // Procedures.

  /** Returns the names of the procedures, by number. */
  List<String> procedureNames() {
    return procedures.stream().map(Procedure::name).toList();
  }

  /** Returns the name of a procedure. */
  String procedureName(int number) {
    return number >= 0 && number < procedures.size() ? procedures.get(number).name() : "procedure";
  }

  /**
   * Opens the definition of a procedure, and returns the number that it will have. It always opens
   * a scope, to be ended.
   */
  int openProcedure(
      @Nullable Failure admitted, String name, Heading heading, @Nullable Object source) {
    boolean isNested = isOpen();
    boolean hasResult = heading.result() != Heading.NO_RESULT;
    int result = hasResult ? r.numbers.type(heading.result()) : Tables.NO_NUMBER;
    boolean lacksType = hasResult && result == Tables.NO_NUMBER;
    openScope(admitted, Structure.PROCEDURE, source);
    boolean isText = Words.isText(name);
    if (isKept()) {
      int count = Math.min(heading.params().size(), 255);
      r.command(Words.head(Tables.OP_PROCEDURE, count, lacksType ? 0 : result));
      r.batch.text(isText ? name : "");
    }
    for (int param : heading.params()) {
      int number = r.numbers.type(param);
      lacksType |= number == Tables.NO_NUMBER;
      if (isKept()) {
        r.batch.word(number == Tables.NO_NUMBER ? 0 : number);
      }
    }
    int number = procedures.size();
    openProcedures.add(new Procedure(name, heading, number));
    if (isNested) {
      r.account.refuse(name, source, Failure.misused(Misuse.NESTED_PROCEDURE));
    } else if (lacksType) {
      r.account.refuse(name, source, new Failure.Missing(name));
    } else if (!isText) {
      r.account.refuse(name, source, Failure.misused(Misuse.NOT_TEXT));
    } else if (Calls.utf8Length(name) + Tables.MARKER_BYTES > r.bounds.frameBytes) {
      r.account.refuse(name, source, Failure.misused(Misuse.TOO_LONG));
    }
    return number;
  }

  /** Ends the definition; returns the reason if the definition is not sent. */
  @Nullable Failure closeProcedure() {
    Failure refused = r.refusal();
    Ended ended = end();
    if (openProcedures.isEmpty()) {
      return refused;
    }
    Procedure defined = openProcedures.remove(openProcedures.size() - 1);
    if (ended.batchLength() > 0) {
      procedures.add(defined);
      proceduresByName.put(defined.name(), defined);
    }
    return refused;
  }

  /**
   * Returns the number of a procedure defined earlier in this session; null if there is none with
   * this heading.
   */
  @Nullable Integer findProcedure(String name, Heading heading) {
    Procedure found = proceduresByName.get(name);
    return found != null && Objects.equals(found.heading(), heading) ? found.number() : null;
  }

  /**
   * Ends a run of the procedure being defined, with its result; without one the operand is null. It
   * is refused outside a procedure.
   */
  void returns(@Nullable Object operand, @Nullable Object source) {
    Failure why =
        isInProcedure() ? recordReturn(operand, source) : Failure.misused(Misuse.NO_PROCEDURE);
    if (why != null) {
      r.account.refuse("return", source, why);
    }
  }

  private @Nullable Failure recordReturn(@Nullable Object operand, @Nullable Object source) {
    if (operand == null) {
      mark(Tables.OP_RETURN);
      return null;
    }
    if (operand instanceof Slot slot) {
      Failure why = markerReference(slot, source);
      if (why == null) {
        mark(Words.head(Tables.OP_RETURN, 1 | Tables.TAG_REF << 8, 0), r.calls.reference());
      }
      return why;
    }
    Value value;
    if (operand instanceof Value given) {
      value = given;
    } else {
      Failure why = r.admitInside();
      if (why != null) {
        return why;
      }
      value = r.calls.compose((Calls.Items) operand);
      if (value == null) {
        return r.calls.composeFailure();
      }
    }
    if (isKept()) {
      int start = r.batch.length;
      r.batch.word(Words.head(Tables.OP_RETURN, 1 | value.tag << 8, 0));
      r.batch.value(value);
      if (r.batch.length - start > r.bounds.frameBytes) {
        r.batch.length = start;
        return Failure.misused(Misuse.TOO_LONG);
      }
      r.commands++;
    }
    return null;
  }
}
