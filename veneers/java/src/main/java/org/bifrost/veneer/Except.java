package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/** A block that was recorded, which may go on with handlers. They follow it directly. */
public final class Except {
  private final Session session;
  private final Structures.Ended ended;

  Except(Session session, Structures.Ended ended) {
    this.session = session;
    this.ended = ended;
  }

  /** Runs a body at the server when a call signals an exception. */
  public Except when(SignalType.None<?> signal, Runnable body) {
    return handle(signal.signal(), List.of(), values -> body.run());
  }

  /** Runs a body at the server when a call signals an exception, with its value. */
  public <A extends Stub> Except when(SignalType.One<?, A> signal, Consumer<? super A> body) {
    return when(signal.signal(), signal.first, body);
  }

  /** Runs a body at the server when a call signals an exception, with its values. */
  public <A extends Stub, B extends Stub> Except when(
      SignalType.Two<?, A, B> signal, BiConsumer<? super A, ? super B> body) {
    return when(signal.signal(), signal.first, signal.second, body);
  }

  /** Runs a body at the server when a call signals an exception, with its values. */
  public Except when(SignalType.Many<?> signal, Consumer<List<Stub>> body) {
    return handle(signal.signal(), signal.types(), body);
  }

  /** Runs a body at the server when a call signals the exception of a name without values. */
  public Except when(String signal, Runnable body) {
    return handle(signal, List.of(), values -> body.run());
  }

  /** Runs a body at the server when a call signals the exception of a name with one value. */
  @SuppressWarnings("unchecked")
  public <A extends Stub> Except when(String signal, Type<A> type, Consumer<? super A> body) {
    return handle(signal, List.of(type), values -> body.accept((A) values.get(0)));
  }

  /** Runs a body at the server when a call signals the exception of a name with two values. */
  @SuppressWarnings("unchecked")
  public <A extends Stub, B extends Stub> Except when(
      String signal, Type<A> first, Type<B> second, BiConsumer<? super A, ? super B> body) {
    return handle(
        signal,
        List.of(first, second),
        values -> body.accept((A) values.get(0), (B) values.get(1)));
  }

  private Except handle(String signal, List<Type<?>> types, Consumer<List<Stub>> body) {
    List<Integer> numbers = new ArrayList<>();
    types.forEach(type -> numbers.add(type.numbersIn(session.stubs())[0]));
    Structures.Ended further =
        session.reopen(
            ended,
            new Structures.When(signal, numbers),
            () -> {
              List<Stub> values = new ArrayList<>();
              types.forEach(type -> values.add(session.variable(type)));
              body.accept(values);
            });
    return new Except(session, further);
  }

  /** Runs a body at the server when a call signals any other exception. */
  public void others(Runnable body) {
    session.reopen(ended, new Structures.Others(false), body);
  }

  /** Runs a body at the server when a call signals any other exception, with its name. */
  public void others(Consumer<Str> body) {
    session.reopen(
        ended, new Structures.Others(true), () -> body.accept(session.variable(Str.TYPE)));
  }
}
