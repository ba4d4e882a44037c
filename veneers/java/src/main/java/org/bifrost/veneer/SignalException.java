package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A call signalled an exception. Generated code has a class for each exception of the program:
 * below this one, or below {@link CheckedSignalException}, and then an object of that class is the
 * cause.
 */
public class SignalException extends BifrostException {
  private static final long serialVersionUID = 1L;

  private final transient Failure.Signal signal;
  private final transient List<?> values;
  private final transient @Nullable SignalType<?> checked;

  /**
   * Makes one; for generated code.
   *
   * @param failure the failure of the claimed call
   * @param values the values of the exception
   */
  protected SignalException(Failure failure, List<?> values) {
    super(failure);
    signal = (Failure.Signal) failure.root();
    this.values = Collections.unmodifiableList(new ArrayList<>(values));
    checked = null;
  }

  /** Makes the one that is thrown where nobody declares a checked one, its cause. */
  SignalException(Failure failure, List<?> values, SignalType<?> checked, Exception cause) {
    super(failure);
    signal = (Failure.Signal) failure.root();
    this.values = Collections.unmodifiableList(new ArrayList<>(values));
    this.checked = checked;
    initCause(cause);
  }

  /** Throws the checked exception behind this one, if it is of a type. */
  @SuppressWarnings("unchecked")
  final <E extends Exception> void declare(SignalType<E> type) throws E {
    if (checked == type && getCause() instanceof Exception cause) {
      throw (E) cause;
    }
  }

  /** Returns the name of the exception in Theta. */
  public String signal() {
    return signal.name();
  }

  /** Returns the values of the exception; objects are stubs. */
  public List<?> values() {
    return values;
  }

  /**
   * Returns a value, which has the type of its heading; for generated code.
   *
   * @param <V> the type
   */
  @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
  protected final <V> V value(int at) {
    return (V) values.get(at);
  }

  /** Returns the places in the server's program where a {@code failure} arose, if it shows them. */
  public List<Place> places() {
    return signal.places();
  }
}
