package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A call signalled an exception that the caller has declared: {@code claim(NotFound.TYPE)}. Code
 * that is generated with {@code --checked} has a class below it for each exception of the program,
 * in place of one below {@link SignalException}.
 */
public abstract class CheckedSignalException extends Exception {
  private static final long serialVersionUID = 1L;

  private final transient Failure failure;
  private final transient List<?> values;

  /**
   * Makes one; for generated code.
   *
   * @param failure the failure of the claimed call
   * @param values the values of the exception
   */
  protected CheckedSignalException(Failure failure, List<?> values) {
    super(failure.toString());
    this.failure = failure;
    this.values = Collections.unmodifiableList(new ArrayList<>(values));
  }

  /** Returns the failure: that of the claimed call, which follows from others. */
  public final Failure failure() {
    return failure;
  }

  /** Returns the calls between the one that was claimed and the one that failed, nearest first. */
  public final List<Failure.CallName> via() {
    return failure.via();
  }

  /** Returns the name of the exception in Theta. */
  public final String signal() {
    return ((Failure.Signal) failure.root()).name();
  }

  /** Returns the values of the exception; objects are stubs. */
  public final List<?> values() {
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
}
