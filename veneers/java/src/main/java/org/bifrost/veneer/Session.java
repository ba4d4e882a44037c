package org.bifrost.veneer;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
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
public final class Session implements AutoCloseable {
  private static final StackWalker WALKER =
      StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE);

  final Link link;
  final Recorder core;
  final Call call;
  private final boolean isDebug;

  /** The stubs of batches that are recorded, innermost first. */
  private final Deque<List<Stub>> scopes = new ArrayDeque<>();

  private Session(Link link, boolean isDebug) {
    this.link = link;
    this.isDebug = isDebug;
    core = link.r;
    call = new Call(this);
  }

  /**
   * Opens a session with the server at an address: {@code unix:///path}, {@code tcp://host:port},
   * {@code tls://host:port}, {@code ws://host:port}, {@code wss://host:port}.
   *
   * @throws ClosedException if there is no session; nothing has run
   * @throws IllegalArgumentException if the text is no address
   */
  public static Session connect(String address, Options options) {
    try {
      return connect(address, options, "");
    } catch (ClosedException refused) {
      boolean isAsked =
          refused.ending() instanceof Failure.ByServer why
              && why.number() == Tables.ERROR_BAD_TOKEN
              && Transports.mayAskForToken(address)
              && !options.token().isEmpty();
      // A server asks for the token by refusing a client without.
      if (isAsked) {
        return connect(address, options, options.token());
      }
      throw refused;
    }
  }

  private static Session connect(String address, Options options, String token) {
    long timeout = options.timeout().toNanos();
    long deadline = System.nanoTime() + timeout;
    Connection connection = null;
    Session made = null;
    try {
      connection = Transports.connect(address, options.files(), deadline);
      Greeting greeting = new Greeting(options.stubs(), token, options.name(), options.settings());
      Recorder greeted = greet(connection, greeting, deadline);
      made = new Session(new Link(greeted, connection, timeout), options.isDebug());
      return made;
    } catch (IOException failed) {
      throw new ClosedException(new Failure.Ended(new Failure.ByConnection(failed)));
    } finally {
      if (made == null && connection != null) {
        connection.close();
      }
    }
  }

  private static Recorder greet(Connection connection, Greeting greeting, long deadline)
      throws IOException {
    byte[] buffer = new byte[64 << 10];
    Recorder greeted = null;
    while (greeted == null) {
      byte[] questions = greeting.takeBytes();
      if (questions.length > 0) {
        connection.send(questions, 0, questions.length, deadline);
      }
      int count = connection.receive(buffer, deadline);
      if (count < 0) {
        throw new IOException("the server has closed the connection");
      }
      greeted = greeting.handleBytes(buffer, count);
    }
    return greeted;
  }

  // For stubs.

  void enter() {
    link.enter();
  }

  void exit() {
    link.exit();
  }

  @Nullable Failure admit() {
    return link.admit();
  }

  /** Returns the stubs of the session. */
  Stubs stubs() {
    return core.numbers.stubs;
  }

  /** Notes a stub of the batch that is recorded. */
  void note(Stub stub) {
    List<Stub> innermost = scopes.peekFirst();
    if (innermost != null) {
      innermost.add(stub);
    }
  }

  /** Returns the place in the program that calls the library, if places are noted. */
  @Nullable Object place() {
    return isDebug
        ? WALKER.walk(
            frames ->
                frames
                    .filter(Session::isOutside)
                    .findFirst()
                    .map(frame -> frame.getFileName() + ":" + frame.getLineNumber())
                    .orElse(null))
        : null;
  }

  private static boolean isOutside(StackWalker.StackFrame frame) {
    Class<?> of = frame.getDeclaringClass();
    return of.getPackage() != Session.class.getPackage() && !Slot.class.isAssignableFrom(of);
  }

  /** Returns the stub of a call by a name that the interface lacks. */
  Any missing(String name) {
    enter();
    try {
      Object place = place();
      Failure admitted = admit();
      Failure why = admitted == null ? new Failure.Missing(name) : admitted;
      return core.result(new Any(this), core.account.refuse(name, place, why), place);
    } finally {
      exit();
    }
  }

  /** Ends a call by name; returns the stub of the first result, and gives the others up. */
  Any first(Call ended, int results) {
    if (results == 0) {
      // Such a result is told by the exceptions of its batch.
      Any nothing = ended.to(NOTHING);
      return nothing;
    }
    List<Stub> all = ended.toAll(Collections.nCopies(Math.max(results, 1), Any.TYPE));
    all.subList(1, all.size()).forEach(Stub::release);
    return (Any) all.get(0);
  }

  private static final Type<Any> NOTHING =
      new Type.OfObject<>(
          "null",
          session -> {
            Any made = new Any(session);
            made.isWanted = false;
            return made;
          }) {
        @Override
        int[] numbersIn(Stubs stubs) {
          return stubs.basic(0);
        }
      };

  // Claims.

  /** Waits until the result of a stub is known; returns the failure with which it is claimed. */
  private @Nullable Failure know(Stub stub, @Nullable Object place) {
    if (stub.holders == 0) {
      return Failure.misused(Misuse.RELEASED);
    }
    if (stub.state == Slot.State.FUTURE) {
      stub.isWanted = true;
      Failure wrong = link.synchronize("claim", place);
      if (wrong != null) {
        return wrong;
      }
    } else if (stub.state == Slot.State.UNDER_WAY) {
      link.send(true);
      Failure wrong = link.await(stub.batch);
      if (wrong != null && stub.isPending()) {
        return wrong;
      }
    }
    if (stub.state == Slot.State.FAILED) {
      core.account.tell(stub.failure());
      return stub.failure();
    }
    return core.account.surface(false);
  }

  /** Claims a stub; returns the value, which is null for an object. */
  @Nullable Object claim(Stub stub) {
    enter();
    try {
      Failure wrong = know(stub, place());
      if (wrong != null) {
        throw BifrostException.of(this, wrong);
      }
      return read(stub);
    } finally {
      exit();
    }
  }

  private @Nullable Object read(Stub stub) {
    if (!(stub instanceof Promise<?> promise)) {
      return null;
    }
    Object value = stub.state == Slot.State.VALUE ? promise.read(stub.value()) : Type.MISMATCH;
    if (value == Type.MISMATCH) {
      Failure.Ending why = new Failure.ByWrongReply("a result of the type of its heading");
      throw BifrostException.of(this, link.end(why));
    }
    return value;
  }

  /** Ends the batch, and returns a future that a thread of the session completes. */
  CompletableFuture<?> future(Stub stub) {
    CompletableFuture<@Nullable Object> future = new CompletableFuture<>();
    enter();
    try {
      Object place = place();
      if (stub.holders > 0 && stub.state == Slot.State.FUTURE) {
        stub.isWanted = true;
        Failure wrong = link.beginFlush("claim", place);
        if (wrong != null) {
          future.completeExceptionally(BifrostException.of(this, wrong));
          return future;
        }
      }
      link.later(() -> complete(future, stub, place));
    } finally {
      exit();
    }
    return future;
  }

  private void complete(
      CompletableFuture<@Nullable Object> future, Stub stub, @Nullable Object place) {
    try {
      Failure wrong = know(stub, place);
      if (wrong == null) {
        future.complete(read(stub));
      } else {
        future.completeExceptionally(BifrostException.of(this, wrong));
      }
    } catch (RuntimeException bad) {
      future.completeExceptionally(bad);
    }
  }

  /** Makes the exception of a signal: of the program's class, if there is one. */
  SignalException signalException(Failure failure, Failure.Signal signal) {
    for (SignalType type : stubs().signals()) {
      if (!type.signal().equals(signal.name())) {
        continue;
      }
      List<Type<?>> types = type.types();
      List<@Nullable Object> values = new ArrayList<>();
      for (int index = 0; index < signal.values().size(); index++) {
        Value value = signal.values().get(index);
        Type<?> of = index < types.size() ? types.get(index) : Any.TYPE;
        values.add(of.take(this, value));
      }
      boolean isOne =
          values.stream().noneMatch(value -> value == Type.MISMATCH)
              && (type instanceof SignalType.Many || types.size() == values.size());
      if (isOne) {
        return type.make(failure, values);
      }
    }
    List<@Nullable Object> values = new ArrayList<>();
    signal.values().forEach(value -> values.add(plain(value)));
    return new SignalException(failure, values);
  }

  /** Returns a value of an exception of which the program has no class. */
  private @Nullable Object plain(Value value) {
    return switch (value.tag) {
      case Tables.TAG_BOOL -> (Object) value.bool();
      case Tables.TAG_INT -> (Object) value.integer();
      case Tables.TAG_REAL -> (Object) value.real();
      case Tables.TAG_CHAR -> (Object) value.codePoint();
      case Tables.TAG_STRING -> value.string();
      case Tables.TAG_BYTES -> value.bytes();
      case Tables.TAG_NIL -> null;
      default -> Any.TYPE.take(this, value);
    };
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

  // Structures.

  /** Calls a block; a structure that it leaves by an exception is not sent. */
  Structures.Ended record(Runnable body) {
    int depth = core.structures.depth();
    boolean isDone = false;
    try {
      body.run();
      isDone = true;
    } finally {
      while (!isDone && core.structures.depth() >= depth && depth > 0) {
        core.structures.abandon();
      }
    }
    return core.structures.end();
  }

  /** Goes on with a block of a structure. */
  Structures.Ended reopen(Structures.Ended ended, Structures.Block block, Runnable body) {
    enter();
    try {
      core.structures.reopen(ended, block, place());
      return record(body);
    } finally {
      exit();
    }
  }

  <S extends Stub> S variable(Type<S> type) {
    return core.structures.variable(type.make(this), place());
  }

  /** Repeats a body at the server while a condition holds. */
  public void while_(Supplier<Bool> condition, Runnable body) {
    enter();
    try {
      Object place = place();
      core.structures.open(admit(), Structure.WHILE, place);
      record(
          () -> {
            core.structures.condition(condition.get(), place);
            body.run();
          });
    } finally {
      exit();
    }
  }

  /** Repeats a body at the server until it leaves the loop. */
  public void loop(Runnable body) {
    enter();
    try {
      Object place = place();
      core.structures.open(admit(), Structure.WHILE, place);
      record(
          () -> {
            core.structures.condition(Value.of(true), place);
            body.run();
          });
    } finally {
      exit();
    }
  }

  /** Runs a body at the server if a condition holds. Follow it with {@code else_}. */
  public If if_(Bool condition, Runnable body) {
    return choose(() -> condition, body);
  }

  /** As the other, with a condition that is recorded inside the choice. */
  public If if_(Supplier<Bool> condition, Runnable body) {
    return choose(condition, body);
  }

  private If choose(Supplier<Bool> condition, Runnable body) {
    enter();
    try {
      Object place = place();
      core.structures.open(admit(), Structure.IF, place);
      return new If(
          this,
          record(
              () -> {
                core.structures.condition(condition.get(), place);
                body.run();
              }));
    } finally {
      exit();
    }
  }

  /** Runs a body at the server for each value of an iterator. */
  public <A extends Stub> void foreach(Iter<A> iterator, Consumer<? super A> body) {
    each(iterator.iteration, List.of(iterator.type), values -> body.accept(cast(values.get(0))));
  }

  /** Runs a body at the server for each step of an iterator that yields two values. */
  public <A extends Stub, B extends Stub> void foreach(
      Iter.Two<A, B> iterator, BiConsumer<? super A, ? super B> body) {
    each(
        iterator.iteration,
        List.of(iterator.first, iterator.second),
        values -> body.accept(cast(values.get(0)), cast(values.get(1))));
  }

  /** A block that takes three stubs. */
  @FunctionalInterface
  public interface Body3<A, B, C> {
    /** Records the block. */
    void accept(A first, B second, C third);
  }

  /** Runs a body at the server for each step of an iterator that yields three values. */
  public <A extends Stub, B extends Stub, C extends Stub> void foreach(
      Iter.Three<A, B, C> iterator, Body3<? super A, ? super B, ? super C> body) {
    each(
        iterator.iteration,
        List.of(iterator.first, iterator.second, iterator.third),
        values -> body.accept(cast(values.get(0)), cast(values.get(1)), cast(values.get(2))));
  }

  @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
  private static <S extends Stub> S cast(Stub stub) {
    return (S) stub;
  }

  private void each(Iteration iteration, List<Type<?>> types, Consumer<List<Stub>> body) {
    enter();
    try {
      Object place = place();
      Slot receiver = iteration.receiver();
      Stubs of = iteration.stubs();
      core.structures.beginForeach(
          admit(),
          receiver,
          iteration.number(),
          of == null ? stubs() : of,
          iteration.arguments().size(),
          place);
      iteration.arguments().forEach(core.calls::operand);
      Failure refused = core.calls.end();
      long maker = core.calls.maker;
      List<Stub> values = new ArrayList<>();
      types.forEach(type -> values.add(core.result(type.make(this), refused, maker, place)));
      record(() -> body.accept(values));
    } finally {
      exit();
    }
  }

  /** Leaves the innermost loop at the server. Recording goes on. */
  public void break_() {
    enter();
    try {
      core.structures.breakLoop(place());
    } finally {
      exit();
    }
  }

  /** Goes on with the next round of the innermost loop at the server. Recording goes on. */
  public void continue_() {
    enter();
    try {
      core.structures.continueLoop(place());
    } finally {
      exit();
    }
  }

  /** Runs a body at the server. Exceptions of its calls go to the handlers that follow. */
  public Except except(Runnable body) {
    enter();
    try {
      core.structures.open(admit(), Structure.EXCEPT, place());
      return new Except(this, record(body));
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
