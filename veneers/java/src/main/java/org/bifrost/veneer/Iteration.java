package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A call of an iterator, which {@link Session#foreach} records. */
record Iteration(
    Session session,
    @Nullable Slot receiver,
    int number,
    @Nullable Stubs stubs,
    List<Object> arguments) {
  static Iteration of(Stub receiver, int method, Object... arguments) {
    return new Iteration(receiver.session, receiver, method, null, operands(arguments));
  }

  static Iteration of(Session session, Stubs stubs, int routine, Object... arguments) {
    return new Iteration(session, null, routine, stubs, operands(arguments));
  }

  private static List<Object> operands(Object... arguments) {
    List<Object> operands = new ArrayList<>(arguments.length);
    for (Object argument : arguments) {
      operands.add(Call.operandOf(argument));
    }
    return operands;
  }
}
