package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The stub of an object of any type, or of a value. It is also the stub of calls by name, for
 * programs without generated code: {@code people.call("DataBase.fetch", "zoe")}.
 */
public final class Any extends Obj {
  /** The type. */
  public static final Type<Any> TYPE =
      new Type.OfObject<>("any", Any::new) {
        @Override
        int[] numbersIn(Stubs stubs) {
          return stubs.builtin(Tables.BUILTIN_ANY);
        }

        @Override
        void put(Calls calls, @Nullable Object value) {
          calls.operand(Call.operandOf(value));
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          Any made = new Any(session);
          return value.isObject()
              ? session.core.object(made, value.word)
              : session.core.value(made, value);
        }
      };

  /** The type of the outcome of a call without results, by its name. */
  static final Type<Any> NOTHING =
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

  Any(Session session) {
    super(session);
  }

  /**
   * Calls a method by its name and that of its type. The stub is the first result, or nil of a
   * method without any. Arguments are stubs and values: {@code Long}, {@code Double}, {@code
   * Boolean}, {@code String}, {@code byte[]}, {@link Value}, null for nil, and an {@code Iterable}
   * of them for a value with items.
   */
  public Any call(String method, @Nullable Object... arguments) {
    return named(Tables.OP_CALL, method, arguments);
  }

  /** Sends an actor a message without an answer. The stub is nil, or the failure to send it. */
  public Any send(String method, @Nullable Object... arguments) {
    return named(Tables.OP_SEND, method, arguments);
  }

  private Any named(int code, String method, @Nullable Object... arguments) {
    Interface own = session.stubs().own();
    int number = own.findMethod(method);
    Interface.Heading heading = own.method(number);
    if (heading == null) {
      return session.missing(method);
    }
    Call call = begin(code, number, arguments.length);
    for (Object argument : arguments) {
      call.addOperand(argument);
    }
    return session.first(call, code == Tables.OP_CALL ? heading.results().size() : 1);
  }

  /** Returns a call of an iterator by its name, which yields one value. */
  public Iter<Any> iterate(String method, @Nullable Object... arguments) {
    int number = session.stubs().own().findMethod(method);
    return new Iter<>(Iteration.of(this, number, arguments), TYPE);
  }

  /** Takes the contents of the object, when the batch is run. Not inside a structure. */
  public Any get() {
    session.enter();
    try {
      Object place = session.place();
      return core.result(new Any(session), core.calls.get(session.admit(), this, place), place);
    } finally {
      session.exit();
    }
  }

  /**
   * Returns the value; waits for it, and sends the batch if it is not sent. An object is a {@link
   * Value} that says no more.
   *
   * @throws BifrostException if the call has failed
   */
  public Value claim() {
    session.claim(this);
    return state == State.OBJECT ? Value.object(number, Tables.NO_NUMBER) : value();
  }

  /**
   * Returns the items of a value that has come, each with a stub of its own.
   *
   * @throws ClassCastException if it has no items
   */
  public List<Any> items() {
    List<Any> items = new ArrayList<>();
    for (Value item : claim().items()) {
      items.add((Any) TYPE.take(session, item));
    }
    return items;
  }
}
