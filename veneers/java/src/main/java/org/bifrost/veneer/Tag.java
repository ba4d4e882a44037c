package org.bifrost.veneer;

import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A tag of a oneof; for generated code.
 *
 * @param <C> the sealed interface of the contents
 */
public final class Tag<C> {
  final String theta;

  /** The type of its value; null if it has none. */
  final @Nullable Supplier<? extends Type<?>> type;

  private final Class<? extends C> shape;
  private final Function<Object, ?> accessor;
  private final Function<Object, ? extends C> make;

  private Tag(
      String theta,
      @Nullable Supplier<? extends Type<?>> type,
      Class<? extends C> shape,
      Function<Object, ?> accessor,
      Function<Object, ? extends C> make) {
    this.theta = theta;
    this.type = type;
    this.shape = shape;
    this.accessor = accessor;
    this.make = make;
  }

  /**
   * Returns a tag with a value.
   *
   * @param theta its name in Theta
   * @param type the type of its value
   * @param shape its record
   * @param accessor the accessor of the value
   * @param make the constructor of the record
   * @param <C> the sealed interface of the contents
   * @param <R> the record
   * @param <V> the value
   */
  @SuppressWarnings("unchecked")
  public static <C, R extends C, V> Tag<C> of(
      String theta,
      Supplier<? extends Type<?>> type,
      Class<R> shape,
      Function<R, V> accessor,
      Function<V, R> make) {
    return new Tag<>(
        theta, type, shape, it -> accessor.apply(shape.cast(it)), value -> make.apply((V) value));
  }

  /**
   * Returns a tag without a value.
   *
   * @param theta its name in Theta
   * @param shape its record
   * @param make the constructor of the record
   * @param <C> the sealed interface of the contents
   * @param <R> the record
   */
  public static <C, R extends C> Tag<C> of(String theta, Class<R> shape, Supplier<R> make) {
    return new Tag<>(theta, null, shape, it -> it, value -> make.get());
  }

  /** True if contents have this tag. */
  boolean isOf(Object contents) {
    return shape.isInstance(contents);
  }

  Object value(Object contents) {
    return accessor.apply(contents);
  }

  C make(Object value) {
    return make.apply(value);
  }
}
