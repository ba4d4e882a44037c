package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A call signalled an exception. Generated code has a class below it for each exception of the
 * program.
 */
public class SignalException extends BifrostException {
  private static final long serialVersionUID = 1L;

  private final transient Failure.Signal signal;
  private final transient List<?> values;

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
