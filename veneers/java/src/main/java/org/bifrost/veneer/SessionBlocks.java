package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The structures and procedures of a session. */
abstract class SessionBlocks extends SessionCore {
  SessionBlocks(Link link, boolean isDebug) {
    super(link, isDebug);
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
    return core.structures.variable(type.make(self()), place());
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
          self(),
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
      types.forEach(type -> values.add(core.result(type.make(self()), refused, maker, place)));
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
      return new Except(self(), record(body));
    } finally {
      exit();
    }
  }

  // Procedures.

  /** Defines a procedure without parameters. The body returns the result: a stub or a value. */
  public <R extends Stub> Procedure.Of0<R> procedure(
      String name, Type<R> result, Function<Procedure.Of0<R>, ? extends @Nullable Object> body) {
    return Procedure.define(
        self(),
        name,
        List.of(),
        result,
        n -> new Procedure.Of0<>(self(), n, result),
        (self, none) -> body.apply(self));
  }

  /** Defines a procedure with a parameter. */
  public <A extends Stub, R extends Stub> Procedure.Of1<A, R> procedure(
      String name,
      Type<A> first,
      Type<R> result,
      BiFunction<Procedure.Of1<A, R>, A, ? extends @Nullable Object> body) {
    return Procedure.define(self(), name, first, result, body);
  }

  /** Defines a procedure with two parameters. */
  public <A extends Stub, B extends Stub, R extends Stub> Procedure.Of2<A, B, R> procedure(
      String name,
      Type<A> first,
      Type<B> second,
      Type<R> result,
      Procedure.Body2<Procedure.Of2<A, B, R>, A, B, ? extends @Nullable Object> body) {
    return Procedure.define(self(), name, first, second, result, body);
  }

  /** Defines a procedure with three parameters. */
  public <A extends Stub, B extends Stub, C extends Stub, R extends Stub>
      Procedure.Of3<A, B, C, R> procedure(
          String name,
          Type<A> first,
          Type<B> second,
          Type<C> third,
          Type<R> result,
          Procedure.Body3<Procedure.Of3<A, B, C, R>, A, B, C, ? extends @Nullable Object> body) {
    return Procedure.define(self(), name, first, second, third, result, body);
  }

  /**
   * Returns a procedure that the session has defined with these types; null if there is none. The
   * result of one without is {@link Done#TYPE}.
   */
  public <R extends Stub> @Nullable Procedure<R> findProcedure(
      String name, List<Type<?>> params, Type<R> result) {
    Structures.Heading heading = Procedure.heading(self(), params, result);
    Integer number = core.structures.findProcedure(name, heading);
    return number == null ? null : new Procedure<>(self(), number, params, result);
  }
}
