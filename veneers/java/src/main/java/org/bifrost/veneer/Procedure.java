package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/**
 * A batched procedure, which the session keeps. Its body is called once, with the procedure itself
 * and its parameters.
 *
 * @param <R> the stub of its result
 */
public class Procedure<R extends Stub> {
  private final Session session;
  private final int number;
  private final List<Type<?>> params;
  private final Type<R> result;

  /** The reason why its definition was not sent. */
  private @Nullable Failure refused;

  Procedure(Session session, int number, List<Type<?>> params, Type<R> result) {
    this.session = session;
    this.number = number;
    this.params = params;
    this.result = result;
  }

  /** The body of a procedure: it takes the stubs of the parameters. */
  @FunctionalInterface
  interface Body<P> {
    @Nullable Object record(P self, List<Stub> parameters);
  }

  static Structures.Heading heading(Session session, List<Type<?>> params, Type<?> result) {
    List<Integer> numbers = new ArrayList<>();
    params.forEach(type -> numbers.add(type.numbersIn(session.stubs())[0]));
    int of =
        result == (Type<?>) Done.TYPE
            ? Structures.Heading.NO_RESULT
            : result.numbersIn(session.stubs())[0];
    return new Structures.Heading(numbers, of);
  }

  /** Makes a procedure of a number. */
  @FunctionalInterface
  interface Maker<P> {
    P make(int number);
  }

  /** Defines a procedure. */
  static <R extends Stub, P extends Procedure<R>> P define(
      Session session,
      String name,
      List<Type<?>> params,
      Type<R> result,
      Maker<P> maker,
      Body<P> body) {
    session.enter();
    try {
      Object place = session.place();
      Structures structures = session.core.structures;
      Structures.Heading heading = heading(session, params, result);
      int number = structures.openProcedure(session.admit(), name, heading, place);
      P made = maker.make(number);
      int depth = structures.depth();
      boolean isDone = false;
      try {
        List<Stub> stubs = new ArrayList<>();
        params.forEach(type -> stubs.add(session.variable(type)));
        Object value = body.record(made, stubs);
        if (heading.result() != Structures.Heading.NO_RESULT) {
          structures.returns(Call.operandOf(value), place);
        }
        isDone = true;
      } finally {
        while (!isDone && structures.depth() >= depth) {
          structures.abandon();
        }
      }
      Procedure<R> defined = made;
      defined.refused = structures.closeProcedure();
      return made;
    } finally {
      session.exit();
    }
  }

  /** Records a call with stubs and values. */
  public final R invoke(@Nullable Object... values) {
    if (values.length != params.size()) {
      throw new IllegalArgumentException("the procedure has " + params.size() + " parameters");
    }
    Call call = session.call.beginProcedure(number, refused, values.length);
    for (int index = 0; index < values.length; index++) {
      call.add(params.get(index), values[index]);
    }
    return call.to(result);
  }

  /** Ends the run of the procedure, in its body, with its result: a stub or a value. */
  public final void return_(@Nullable Object value) {
    session.enter();
    try {
      session.core.structures.returns(Call.operandOf(value), session.place());
    } finally {
      session.exit();
    }
  }

  /** Ends the run of a procedure without result, in its body. */
  public final void return_() {
    session.enter();
    try {
      session.core.structures.returns(null, session.place());
    } finally {
      session.exit();
    }
  }

  /** A procedure without parameters. */
  public static final class Of0<R extends Stub> extends Procedure<R> {
    Of0(Session session, int number, Type<R> result) {
      super(session, number, List.of(), result);
    }

    /** Records a call. */
    public R call() {
      return invoke();
    }
  }

  /** A procedure with a parameter. */
  public static final class Of1<A extends Stub, R extends Stub> extends Procedure<R> {
    Of1(Session session, int number, Type<A> first, Type<R> result) {
      super(session, number, List.of(first), result);
    }

    /** Records a call. */
    public R call(A first) {
      return invoke(first);
    }
  }

  /** A procedure with two parameters. */
  public static final class Of2<A extends Stub, B extends Stub, R extends Stub>
      extends Procedure<R> {
    Of2(Session session, int number, Type<A> first, Type<B> second, Type<R> result) {
      super(session, number, List.of(first, second), result);
    }

    /** Records a call. */
    public R call(A first, B second) {
      return invoke(first, second);
    }
  }

  /** A procedure with three parameters. */
  public static final class Of3<A extends Stub, B extends Stub, C extends Stub, R extends Stub>
      extends Procedure<R> {
    Of3(Session session, int number, Type<A> first, Type<B> second, Type<C> third, Type<R> result) {
      super(session, number, List.of(first, second, third), result);
    }

    /** Records a call. */
    public R call(A first, B second, C third) {
      return invoke(first, second, third);
    }
  }

  /** The body of a procedure with two parameters. */
  @FunctionalInterface
  public interface Body2<P, A, B, R> {
    /** Records the body. */
    R record(P self, A first, B second);
  }

  /** The body of a procedure with three parameters. */
  @FunctionalInterface
  public interface Body3<P, A, B, C, R> {
    /** Records the body. */
    R record(P self, A first, B second, C third);
  }

  @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
  private static <S extends Stub> S cast(Stub stub) {
    return (S) stub;
  }

  static <A extends Stub, R extends Stub> Of1<A, R> define(
      Session s,
      String name,
      Type<A> first,
      Type<R> result,
      BiFunction<Of1<A, R>, A, ? extends @Nullable Object> body) {
    return define(
        s,
        name,
        List.of(first),
        result,
        n -> new Of1<>(s, n, first, result),
        (self, p) -> body.apply(self, cast(p.get(0))));
  }

  static <A extends Stub, B extends Stub, R extends Stub> Of2<A, B, R> define(
      Session s,
      String name,
      Type<A> first,
      Type<B> second,
      Type<R> result,
      Body2<Of2<A, B, R>, A, B, ? extends @Nullable Object> body) {
    return define(
        s,
        name,
        List.of(first, second),
        result,
        n -> new Of2<>(s, n, first, second, result),
        (self, p) -> body.record(self, cast(p.get(0)), cast(p.get(1))));
  }

  static <A extends Stub, B extends Stub, C extends Stub, R extends Stub> Of3<A, B, C, R> define(
      Session s,
      String name,
      Type<A> first,
      Type<B> second,
      Type<C> third,
      Type<R> result,
      Body3<Of3<A, B, C, R>, A, B, C, ? extends @Nullable Object> body) {
    return define(
        s,
        name,
        List.of(first, second, third),
        result,
        n -> new Of3<>(s, n, first, second, third, result),
        (self, p) -> body.record(self, cast(p.get(0)), cast(p.get(1)), cast(p.get(2))));
  }
}
