package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A session with a server. Calls are recorded as they are made, and sent together: a batch crosses
 * to the server when a result is claimed.
 *
 * <pre>{@code
 * try (Session s = Session.connect("unix:///run/bifrost/main", Options.defaults())) {
 *   Any people = s.lookup("database", "DataBase");
 *   Any zoe = people.call("DataBase.fetch", "zoe");
 *   System.out.println(zoe.call("DataElem.visits").claim());
 * }
 * }</pre>
 *
 * <p>One thread uses a session at a time, with all its stubs. The blocks of structures are called
 * once; they are run at the server as often as the structure says.
 */
public final class Session extends SessionBlocks implements AutoCloseable {
  private Session(Link link, boolean isDebug) {
    super(link, isDebug);
  }

  /**
   * Opens a session with the server at an address: {@code unix:///path}, {@code tcp://host:port},
   * {@code tls://host:port}, {@code ws://host:port}, {@code wss://host:port}.
   *
   * @throws ClosedException if there is no session; nothing has run
   * @throws IllegalArgumentException if the text is no address
   */
  public static Session connect(String address, Options options) {
    return new Session(Connecting.open(address, options), options.isDebug());
  }

  // Objects.

  /** Looks up a well-known object. Not inside a structure: look it up before. */
  public <S extends Stub> S lookup(String name, Type<S> type) {
    Objects.requireNonNull(name);
    enter();
    try {
      Object place = place();
      int number = type.numbersIn(stubs())[0];
      Failure refused =
          core.calls.lookup(admit(), type.module(), name, number, type.theta(), place);
      return core.result(type.make(this), refused, place);
    } finally {
      exit();
    }
  }

  /** Looks up a well-known object by the name of its type, for calls by name. */
  public Any lookup(String name, String typeName) {
    enter();
    try {
      Object place = place();
      int number = stubs().own().findType(typeName);
      Failure admitted = admit();
      if (admitted == null && number == Tables.NO_NUMBER) {
        admitted = new Failure.Missing(typeName);
      }
      Failure refused = core.calls.lookup(admitted, null, name, number, typeName, place);
      return core.result(new Any(this), refused, place);
    } finally {
      exit();
    }
  }

  /** Begins a call of a routine; for generated code. */
  public Call routine(Stubs of, int number, int arguments) {
    return call.beginRoutine(of, number, arguments);
  }

  /** Returns a call of an iterator that is a routine; for generated code. */
  public <A extends Stub> Iter<A> iter(Stubs of, int routine, Type<A> type, Object... arguments) {
    return new Iter<>(Iteration.of(this, of, routine, arguments), type);
  }

  /** Returns a call of a routine that yields two values; for generated code. */
  public <A extends Stub, B extends Stub> Iter.Two<A, B> iter(
      Stubs of, int routine, Type<A> first, Type<B> second, Object... arguments) {
    return new Iter.Two<>(Iteration.of(this, of, routine, arguments), first, second);
  }

  /** Calls a routine by its name; the stub is its first result, or nil without any. */
  public Any routine(String name, @Nullable Object... arguments) {
    int number = stubs().own().findRoutine(name);
    if (number == Tables.NO_NUMBER) {
      return missing(name);
    }
    Call begun = call.beginRoutine(stubs(), number, arguments.length);
    for (Object argument : arguments) {
      begun.addOperand(argument);
    }
    return first(begun, stubs().own().routines.get(number).results().size());
  }

  private <S extends Stub> S known(Type<S> type, Value value) {
    enter();
    try {
      return core.value(type.make(this), value);
    } finally {
      exit();
    }
  }

  /** Makes a stub of an int, so that it can be a receiver: {@code s.value(1).to(100)}. */
  public Int value(long value) {
    return known(Int.TYPE, Value.of(value));
  }

  /** Makes a stub of a real. */
  public Real value(double value) {
    return known(Real.TYPE, Value.of(value));
  }

  /** Makes a stub of a bool. */
  public Bool value(boolean value) {
    return known(Bool.TYPE, Value.of(value));
  }

  /** Makes a stub of a string. */
  public Str value(String value) {
    return known(Str.TYPE, Value.of(value));
  }

  /** Makes a stub of a byte string. */
  public Bytes value(byte[] value) {
    return known(Bytes.TYPE, Value.of(value));
  }

  /** Makes a stub of a char. */
  public Char charValue(int codePoint) {
    return known(Char.TYPE, Value.ofChar(codePoint));
  }

  /** Makes a stub of nil. */
  public Nil nil() {
    return known(Nil.TYPE, Value.nil());
  }

  private <C extends Cell<?>> C cell(Type<?> of, C made) {
    enter();
    try {
      Object place = place();
      int number = of.numbersIn(stubs())[0];
      return core.result(made, core.calls.cell(admit(), number, of.theta(), place), place);
    } finally {
      exit();
    }
  }

  /** Makes an empty cell. */
  public <S extends Stub> Cell<S> cell(Type<S> of) {
    return cell(of, new Cell<>(this, of));
  }

  /** Makes a cell with its first value. */
  public <S extends Stub> Cell<S> cell(Type<S> of, S value) {
    Cell<S> made = cell(of);
    made.put(value);
    return made;
  }

  /** Makes a cell of ints with its first value. */
  public Cell.OfInt cell(long value) {
    Cell.OfInt made = cell(Int.TYPE, new Cell.OfInt(this));
    made.put(value);
    return made;
  }

  /** Makes a cell of reals with its first value. */
  public Cell.OfReal cell(double value) {
    Cell.OfReal made = cell(Real.TYPE, new Cell.OfReal(this));
    made.put(value);
    return made;
  }

  /** Makes a cell of bools with its first value. */
  public Cell.OfBool cell(boolean value) {
    Cell.OfBool made = cell(Bool.TYPE, new Cell.OfBool(this));
    made.put(value);
    return made;
  }

  /** Makes a cell of strings with its first value. */
  public Cell.OfStr cell(String value) {
    Cell.OfStr made = cell(Str.TYPE, new Cell.OfStr(this));
    made.put(value);
    return made;
  }

  /** Makes an empty table of rows with these types of columns. Not inside a structure. */
  public Rows rows(Type<?>... columns) {
    enter();
    try {
      Object place = place();
      List<Calls.ColumnType> types = new ArrayList<>();
      for (Type<?> column : columns) {
        types.add(new Calls.ColumnType(column.numbersIn(stubs())[0], column.theta()));
      }
      Rows made = new Rows(this, List.of(columns));
      return core.result(made, core.calls.rows(admit(), types, place), place);
    } finally {
      exit();
    }
  }

  // Batches.

  /**
   * Sends what was recorded, and waits until it has run.
   *
   * @throws UnseenException if there are failures that no stub is left to tell, or calls that were
   *     not sent
   */
  public void flush() {
    enter();
    try {
      Failure wrong = link.synchronize("flush", place());
      check(wrong == null ? core.account.surface(true) : wrong);
    } finally {
      exit();
    }
  }

  void check(@Nullable Failure wrong) {
    if (wrong != null) {
      throw BifrostException.of(this, wrong);
    }
  }

  /**
   * Sends what was recorded, without waiting. The calls recorded from then on are the next batch,
   * and may use the results of this one.
   */
  public void sendBatch() {
    enter();
    try {
      check(link.beginFlush("send_batch", place()));
      link.send(true);
      check(core.broken);
    } finally {
      exit();
    }
  }

  /**
   * Records a batch, sends it and waits for its answer. The stubs that the body makes are given up,
   * but for those in its result: only these cross.
   *
   * @return the result of the body, whose stubs have come
   */
  public <R extends @Nullable Object> R batch(Supplier<R> body) {
    enter();
    try {
      List<Stub> kept = new ArrayList<>();
      R result = scoped(body, kept);
      Failure wrong = link.synchronize("batch", place());
      if (wrong == null && kept.isEmpty()) {
        wrong = core.account.surface(true);
      }
      check(wrong);
      // An outcome has no value: its failure is all that a claim would tell.
      for (Stub stub : kept) {
        if (stub instanceof Done done) {
          check(know(done, null));
        }
      }
      return result;
    } finally {
      exit();
    }
  }

  /** As the other, of a body without result. */
  public void batch(Runnable body) {
    batch(
        () -> {
          body.run();
          return List.of();
        });
  }

  /** Calls a body, and finds the stubs in its result. */
  <R extends @Nullable Object> R kept(Supplier<R> body, List<Stub> kept) {
    R result = body.get();
    StubsIn.find(result, kept);
    kept.forEach(stub -> stub.isWanted = true);
    return result;
  }

  /** Calls a body, and gives its stubs up but for those in its result. */
  <R extends @Nullable Object> R scoped(Supplier<R> body, List<Stub> kept) {
    List<Stub> scope = new ArrayList<>();
    scopes.addFirst(scope);
    R result = null;
    boolean isDone = false;
    try {
      result = body.get();
      isDone = true;
    } finally {
      scopes.removeFirst();
      if (isDone) {
        StubsIn.find(result, kept);
      }
      Set<Stub> wanted = Collections.newSetFromMap(new IdentityHashMap<>());
      wanted.addAll(kept);
      for (Stub stub : scope) {
        if (wanted.contains(stub)) {
          note(stub);
        } else {
          stub.drop();
        }
      }
    }
    kept.forEach(stub -> stub.isWanted = true);
    return result;
  }

  /**
   * Records a batch that is a transaction of its own, sends it, and waits until it is committed.
   * The server repeats it after conflicts; the body is called once. An exception that no structure
   * handles aborts it.
   *
   * @return the result of the body, whose stubs have come
   * @throws BifrostException if the transaction is not committed: nothing of it was done
   */
  public <R extends @Nullable Object> R transaction(Transaction how, Supplier<R> body) {
    enter();
    try {
      return how.run(this, body);
    } finally {
      exit();
    }
  }

  /** As the other, with the defaults. */
  public <R extends @Nullable Object> R transaction(Supplier<R> body) {
    return transaction(Transaction.defaults(), body);
  }

  /** As the other, of a body without result. */
  public void transaction(Transaction how, Runnable body) {
    transaction(
        how,
        () -> {
          body.run();
          return List.of();
        });
  }

  /** As the other, of a body without result, with the defaults. */
  public void transaction(Runnable body) {
    transaction(Transaction.defaults(), body);
  }

  /**
   * Returns a batch that is run again whenever its results may have changed: {@code for (Int n :
   * s.live(() -> db.count()))}. The body is called for each run. Give it a session of its own.
   */
  public <R> Live<R> live(Supplier<R> body) {
    return new Live<>(this, body);
  }

  /**
   * Commits the transaction. If it is not committed, all is as it was when the transaction began.
   *
   * @throws BifrostException if it is not: after a conflict, or for failures that the program was
   *     not told of
   */
  public void commit() {
    enter();
    try {
      Object place = place();
      Failure admitted = admit();
      if (admitted == null && core.ends.refusal() == null && core.ends.commitNeedsFlush()) {
        admitted = link.flush();
      }
      finish(core.ends.commit(admitted, place), place);
    } finally {
      exit();
    }
  }

  /**
   * Records a commit without waiting: its outcome is a stub, and the calls behind it belong to the
   * next transaction.
   */
  public Done recordCommit() {
    enter();
    try {
      Object place = place();
      Failure admitted = admit();
      if (admitted == null && core.ends.refusal() == null && core.ends.commitNeedsFlush()) {
        admitted = link.flush();
      }
      return ended(core.ends.commit(admitted, place), place);
    } finally {
      exit();
    }
  }

  /** Records an abort without waiting: its outcome is a stub. */
  public Done recordAbort() {
    enter();
    try {
      Object place = place();
      return ended(core.ends.abort(admit(), place), place);
    } finally {
      exit();
    }
  }

  private Done ended(@Nullable Failure refused, @Nullable Object place) {
    Done done = core.result(new Done(this), refused, place);
    // A commit is claimed, more often than not.
    done.isWanted = true;
    return done;
  }

  /** Aborts the transaction: all becomes as it was when it began. */
  public void abort() {
    enter();
    try {
      Object place = place();
      finish(core.ends.abort(admit(), place), place);
    } finally {
      exit();
    }
  }

  private void finish(@Nullable Failure refused, @Nullable Object place) {
    Done done = core.result(new Done(this), refused, place);
    try {
      check(know(done, place));
    } finally {
      done.drop();
    }
  }

  /**
   * Waits at the server until others change an object that the transaction has read: true; false
   * after so many milliseconds.
   */
  public Bool await(long milliseconds) {
    enter();
    try {
      Object place = place();
      Failure refused = core.ends.wait(admit(), milliseconds, place);
      return core.result(new Bool(this), refused, place);
    } finally {
      exit();
    }
  }

  // The session.

  /**
   * Returns all failures since the history was last cleared, oldest first. The program is told of
   * them.
   */
  public List<Failure.Entry> exceptions() {
    enter();
    try {
      return core.account.exceptions();
    } finally {
      exit();
    }
  }

  /** Clears the history, here and at the server. All failures of calls up to now count as told. */
  public void clearExceptions() {
    enter();
    try {
      if (core.account.clearExceptions(place())) {
        core.account.clearServer(admit());
      }
    } finally {
      exit();
    }
  }

  /**
   * The counts of a session.
   *
   * @param crossings the batches that were sent
   * @param calls their commands
   * @param executed the calls that the server has run
   */
  public record Counters(long crossings, long calls, long executed) {}

  /** Returns the counts of the session up to now. */
  public Counters counters() {
    Crossing crossing = core.crossing;
    return new Counters(crossing.crossings, crossing.commands, crossing.executed);
  }

  /**
   * Returns the batch that is recorded, a line for each command: what the next crossing will bring
   * to the server. Nothing crosses for it.
   */
  public String explain() {
    enter();
    try {
      Interface names = core.numbers.server();
      byte[] here = core.batch.copy();
      int before = 0;
      String head = "# batch " + core.batchNumber + ": ";
      head +=
          core.commands == 0 ? "nothing is recorded\n" : core.commands + " commands, not sent\n";
      if (core.published > 0) {
        head += "# " + core.published + " bytes before, which the server has already\n";
        // The results of the batch without those of the commands that are still here.
        Explainer counting = new Explainer(names, core.structures.procedureNames());
        counting.lines(here);
        before = core.futures.count - counting.futures;
      }
      Explainer explainer = new Explainer(names, core.structures.procedureNames());
      explainer.futures = before;
      return head + explainer.lines(here);
    } finally {
      exit();
    }
  }

  /** Has the server measure this batch and all later ones, or no more. */
  public void setProfiled(boolean on) {
    enter();
    try {
      Failure refused = core.ends.profileRefusal();
      if (refused == null && core.ends.isProfileDue(on)) {
        refused = core.ends.profile(admit(), on);
      }
      check(refused);
    } finally {
      exit();
    }
  }

  /** Returns the profile of the batch that was sent last; null if it has none. */
  public @Nullable Profile profile() {
    return core.crossing.profile;
  }

  /** Returns true if the session has ended. */
  public boolean isClosed() {
    return core.broken != null;
  }

  /**
   * Sends the commands that were recorded and not flushed, and ends the session. Their results are
   * not awaited. A session that has ended stays so.
   */
  @Override
  public void close() {
    enter();
    try {
      if (core.crossing.leave()) {
        link.send(false);
        link.end(new Failure.ByClient());
      }
    } finally {
      exit();
    }
  }
}
