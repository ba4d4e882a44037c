package org.bifrost.veneer;

import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A field of contents; for generated code.
 *
 * @param <C> the record of the contents
 */
public final class Part<C> {
  final String theta;
  final Supplier<? extends Type<?>> type;
  final Function<C, ?> accessor;

  private Part(String theta, Supplier<? extends Type<?>> type, Function<C, ?> accessor) {
    this.theta = theta;
    this.type = type;
    this.accessor = accessor;
  }

  /**
   * Returns a field.
   *
   * @param theta its name in Theta
   * @param type its type, which may be a class that is not loaded yet
   * @param accessor its accessor in the record
   */
  public static <C> Part<C> of(
      String theta, Supplier<? extends Type<?>> type, Function<C, ?> accessor) {
    return new Part<>(theta, type, accessor);
  }
}
