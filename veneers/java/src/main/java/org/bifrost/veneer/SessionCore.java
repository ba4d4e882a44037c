package org.bifrost.veneer;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** The inner half of a session: the places of calls, claims, exceptions, scopes of batches. */
abstract class SessionCore {
  private static final StackWalker WALKER =
      StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE);

  final Link link;
  final Recorder core;
  final Call call;
  private final boolean isDebug;

  /** The stubs of batches that are recorded, innermost first. */
  final Deque<List<Stub>> scopes = new ArrayDeque<>();

  SessionCore(Link link, boolean isDebug) {
    this.link = link;
    this.isDebug = isDebug;
    core = link.r;
    call = new Call(self());
  }

  /** Returns the session that this is. */
  final Session self() {
    return (Session) this;
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
                    .filter(this::isOutside)
                    .findFirst()
                    .map(frame -> frame.getFileName() + ":" + frame.getLineNumber())
                    .orElse(null))
        : null;
  }

  /** Returns true for a frame of the program: neither of the library nor of generated code. */
  private boolean isOutside(StackWalker.StackFrame frame) {
    Class<?> of = frame.getDeclaringClass();
    return of.getProtectionDomain() != SessionCore.class.getProtectionDomain()
        && !Slot.class.isAssignableFrom(of)
        && of.getNestHost() != stubs().host();
  }

  /** Returns the stub of a call by a name that the interface lacks. */
  Any missing(String name) {
    enter();
    try {
      Object place = place();
      Failure admitted = admit();
      Failure why = admitted == null ? new Failure.Missing(name) : admitted;
      return core.result(new Any(self()), core.account.refuse(name, place, why), place);
    } finally {
      exit();
    }
  }

  /** Ends a call by name; returns the stub of the first result, and gives the others up. */
  Any first(Call ended, int results) {
    if (results == 0) {
      // Such a result is told by the exceptions of its batch.
      Any nothing = ended.to(Any.NOTHING);
      return nothing;
    }
    List<Stub> all = ended.toAll(Collections.nCopies(Math.max(results, 1), Any.TYPE));
    all.subList(1, all.size()).forEach(Stub::release);
    return (Any) all.get(0);
  }

  // Claims.

  /** Waits until the result of a stub is known; returns the failure with which it is claimed. */
  @Nullable Failure know(Stub stub, @Nullable Object place) {
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
        throw BifrostException.of(self(), wrong);
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
      throw BifrostException.of(self(), link.end(why));
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
          future.completeExceptionally(BifrostException.of(self(), wrong));
          return future;
        }
      }
      if (!stub.isPending() || core.structures.isOpen() || core.isShipping) {
        complete(future, stub, place);
      } else {
        link.later(() -> complete(future, stub, place));
      }
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
        future.completeExceptionally(BifrostException.of(self(), wrong));
      }
    } catch (RuntimeException bad) {
      future.completeExceptionally(bad);
    }
  }

  /**
   * As {@link #claim(Stub)}, with the exceptions that the caller declares. Those of unchecked
   * classes are thrown as themselves in any case; those of checked classes only here.
   */
  <A extends Exception, B extends Exception, C extends Exception> @Nullable Object claim(
      Stub stub, SignalType<A> first, SignalType<B> second, SignalType<C> third) throws A, B, C {
    try {
      return claim(stub);
    } catch (SignalException thrown) {
      thrown.declare(first);
      thrown.declare(second);
      thrown.declare(third);
      throw thrown;
    }
  }

  /**
   * Makes the exception of a signal: of the program's class, if there is one. A checked one is the
   * cause of a general one, since any claim can throw it.
   */
  SignalException signalException(Failure failure, Failure.Signal signal) {
    for (SignalType<?> type : stubs().signals()) {
      if (!type.signal().equals(signal.name())) {
        continue;
      }
      List<Type<?>> types = type.types();
      List<@Nullable Object> values = new ArrayList<>();
      for (int index = 0; index < signal.values().size(); index++) {
        Value value = signal.values().get(index);
        Type<?> of = index < types.size() ? types.get(index) : Any.TYPE;
        // Objects are stubs there, also those whose contents cross by value elsewhere.
        boolean isStub = value.isObject() && of instanceof ContentsType<?, ?>;
        values.add(isStub ? core.object(of.make(self()), value.word) : of.take(self(), value));
      }
      boolean isOne =
          values.stream().noneMatch(value -> value == Type.MISMATCH)
              && (type instanceof SignalType.Many<?> || types.size() == values.size());
      if (isOne) {
        Exception made = type.make(failure, values);
        return made instanceof SignalException own
            ? own
            : new SignalException(failure, values, type, made);
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
      default -> Any.TYPE.take(self(), value);
    };
  }
}
