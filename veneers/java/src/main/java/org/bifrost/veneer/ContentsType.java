package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A type of objects whose contents cross by value; for generated code.
 *
 * <p>The contents of a sequence, struct, oneof or maybe can be given where one is wanted, and stand
 * for it inside other contents. The others are objects there: arrays, vectors, lists, records and
 * maps.
 *
 * @param <S> the class of the stubs
 * @param <C> the contents
 */
public final class ContentsType<S extends Contents<C>, C> extends Type<S> {
  private final Stubs stubs;
  private final Function<Session, S> make;
  private final boolean isByValue;
  private final Form form;
  private final int[] numbers;

  private ContentsType(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      boolean isByValue,
      Form form,
      int[] numbers) {
    super(theta);
    this.stubs = stubs;
    this.make = make;
    this.isByValue = isByValue;
    this.form = form;
    this.numbers = numbers;
  }

  /** The form of contents: their items. */
  private interface Form {
    /** Returns the operands of contents. Throws {@link ClassCastException}. */
    List<Object> operands(Object contents);

    /** Returns the contents with these items; {@link Type#MISMATCH} if they are others. */
    Object take(Session session, List<Value> items);
  }

  /** The items of fields, in their order. */
  public static final class Items {
    private final List<@Nullable Object> items;

    private Items(List<@Nullable Object> items) {
      this.items = items;
    }

    /**
     * Returns an item.
     *
     * @param <V> the type of the field
     */
    @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals", "NullAway"})
    public <V> V get(int at) {
      return (V) items.get(at);
    }
  }

  @Override
  S make(Session session) {
    return make.apply(session);
  }

  @Override
  int[] numbersIn(Stubs other) {
    return numbers;
  }

  @Override
  Stubs module() {
    return stubs;
  }

  @Override
  void put(Calls calls, @Nullable Object value) {
    calls.operand(operandOf(value));
  }

  /**
   * Returns contents as an argument of an iterator.
   *
   * @throws ClassCastException if they are others
   */
  public Object operand(C contents) {
    return operandOf(contents);
  }

  private Object operandOf(@Nullable Object value) {
    if (value instanceof Stub) {
      return value;
    }
    if (value == null || !isByValue) {
      throw wrong(value);
    }
    return new Calls.Items(form.operands(value));
  }

  private static Object operandOf(Type<?> type, @Nullable Object value) {
    if (type instanceof ContentsType<?, ?> contents) {
      return contents.operandOf(value);
    }
    return type == Char.TYPE && value instanceof Integer codePoint
        ? Value.ofChar(codePoint)
        : Call.operandOf(value);
  }

  @Override
  @Nullable Object take(Session session, Value value) {
    if (isByValue) {
      return takeContents(session, value);
    }
    return value.isObject() ? session.core.object(make(session), value.word) : MISMATCH;
  }

  /** Returns contents that came; {@link Type#MISMATCH} for another type. */
  Object takeContents(Session session, Value value) {
    return value.isCompound() ? form.take(session, value.items()) : MISMATCH;
  }

  // Forms.

  private static <S extends Contents<C>, C> ContentsType<S, C> of(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      boolean isByValue,
      Form form,
      int... numbers) {
    return new ContentsType<>(theta, stubs, make, isByValue, form, numbers);
  }

  private static Form elementsOf(Supplier<? extends Type<?>> element) {
    return new Form() {
      @Override
      public List<Object> operands(Object contents) {
        List<Object> operands = new ArrayList<>();
        for (Object item : (List<?>) contents) {
          operands.add(operandOf(element.get(), item));
        }
        return operands;
      }

      @Override
      public Object take(Session session, List<Value> items) {
        List<@Nullable Object> taken = new ArrayList<>(items.size());
        for (Value item : items) {
          Object one = element.get().take(session, item);
          if (one == MISMATCH) {
            return MISMATCH;
          }
          taken.add(one);
        }
        return Collections.unmodifiableList(taken);
      }
    };
  }

  /**
   * Returns the type of sequences, whose contents can be given.
   *
   * @param theta the name in Theta
   * @param stubs the stubs that it belongs to
   * @param make the constructor of the stubs
   * @param element the type of the elements
   * @param numbers the numbers of the type, its cell, and the cell's put, full and get
   * @param <S> the class of the stubs
   * @param <V> the elements
   */
  public static <S extends Contents<List<V>>, V> ContentsType<S, List<V>> sequence(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      Supplier<? extends Type<?>> element,
      int... numbers) {
    return of(theta, stubs, make, true, elementsOf(element), numbers);
  }

  /**
   * Returns the type of arrays, vectors or lists. The parameters are as those of {@link #sequence}.
   */
  public static <S extends Contents<List<V>>, V> ContentsType<S, List<V>> elements(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      Supplier<? extends Type<?>> element,
      int... numbers) {
    return of(theta, stubs, make, false, elementsOf(element), numbers);
  }

  /** Returns the pairs of a map; null for those of another one. */
  private static @Nullable List<Map.Entry<Object, Object>> pairsOf(
      Session session, List<Value> items, Type<?> key, Type<?> value) {
    if (items.size() % 2 != 0) {
      return null;
    }
    List<Map.Entry<Object, Object>> pairs = new ArrayList<>();
    for (int at = 0; at < items.size(); at += 2) {
      Object first = key.take(session, items.get(at));
      Object second = value.take(session, items.get(at + 1));
      if (first == null || second == null || first == MISMATCH || second == MISMATCH) {
        return null;
      }
      pairs.add(Map.entry(first, second));
    }
    return pairs;
  }

  /** The form of a map, whose contents are never given. */
  private abstract static class OfMap implements Form {
    @Override
    public List<Object> operands(Object contents) {
      throw new ClassCastException("the contents of a map are no argument");
    }
  }

  /** Returns the type of maps whose keys can be keys in Java. */
  public static <S extends Contents<Map<K, V>>, K, V> ContentsType<S, Map<K, V>> pairs(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      Supplier<? extends Type<?>> key,
      Supplier<? extends Type<?>> value,
      int... numbers) {
    Form form =
        new OfMap() {
          @Override
          public Object take(Session session, List<Value> items) {
            List<Map.Entry<Object, Object>> pairs = pairsOf(session, items, key.get(), value.get());
            if (pairs == null) {
              return MISMATCH;
            }
            Map<Object, Object> map = new LinkedHashMap<>();
            pairs.forEach(pair -> map.put(pair.getKey(), pair.getValue()));
            return Collections.unmodifiableMap(map);
          }
        };
    return of(theta, stubs, make, false, form, numbers);
  }

  /** Returns the type of maps whose keys are objects, reals or bytes. */
  public static <S extends Contents<List<Map.Entry<K, V>>>, K, V>
      ContentsType<S, List<Map.Entry<K, V>>> entries(
          String theta,
          Stubs stubs,
          Function<Session, S> make,
          Supplier<? extends Type<?>> key,
          Supplier<? extends Type<?>> value,
          int... numbers) {
    Form form =
        new OfMap() {
          @Override
          public Object take(Session session, List<Value> items) {
            List<Map.Entry<Object, Object>> pairs = pairsOf(session, items, key.get(), value.get());
            return pairs == null ? MISMATCH : Collections.unmodifiableList(pairs);
          }
        };
    return of(theta, stubs, make, false, form, numbers);
  }

  private static <C> Form fieldsOf(List<Part<C>> parts, Function<Items, C> fromItems) {
    return new Form() {
      @Override
      @SuppressWarnings("unchecked")
      public List<Object> operands(Object contents) {
        List<Object> operands = new ArrayList<>();
        for (Part<C> part : parts) {
          operands.add(operandOf(part.type.get(), part.accessor.apply((C) contents)));
        }
        return operands;
      }

      @Override
      public Object take(Session session, List<Value> items) {
        if (items.size() != parts.size()) {
          return MISMATCH;
        }
        List<@Nullable Object> taken = new ArrayList<>();
        for (int at = 0; at < items.size(); at++) {
          Object one = parts.get(at).type.get().take(session, items.get(at));
          if (one == MISMATCH) {
            return MISMATCH;
          }
          taken.add(one);
        }
        return fromItems.apply(new Items(taken));
      }
    };
  }

  /**
   * Returns the type of structs, whose contents can be given.
   *
   * @param theta the name in Theta
   * @param stubs the stubs that it belongs to
   * @param make the constructor of the stubs
   * @param parts the fields
   * @param fromItems makes the record of the contents
   * @param numbers the numbers of the type, its cell, and the cell's put, full and get
   * @param <S> the class of the stubs
   * @param <C> the record
   */
  public static <S extends Contents<C>, C> ContentsType<S, C> struct(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      List<Part<C>> parts,
      Function<Items, C> fromItems,
      int... numbers) {
    return of(theta, stubs, make, true, fieldsOf(parts, fromItems), numbers);
  }

  /** Returns the type of records. The parameters are as those of {@link #struct}. */
  public static <S extends Contents<C>, C> ContentsType<S, C> record(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      List<Part<C>> parts,
      Function<Items, C> fromItems,
      int... numbers) {
    return of(theta, stubs, make, false, fieldsOf(parts, fromItems), numbers);
  }

  private static List<Object> choice(int tag, Object value) {
    return Arrays.asList(Value.of((long) tag), value);
  }

  /** Returns the number of the tag of a choice; -1 if it is none of so many. */
  private static int tagOf(List<Value> items, int count) {
    if (items.size() != 2 || items.get(0).tag != Tables.TAG_INT) {
      return -1;
    }
    long tag = items.get(0).integer();
    return tag >= 0 && tag < count ? (int) tag : -1;
  }

  /**
   * Returns the type of oneofs, whose contents can be given.
   *
   * @param theta the name in Theta
   * @param stubs the stubs that it belongs to
   * @param make the constructor of the stubs
   * @param tags the tags
   * @param numbers the numbers of the type, its cell, and the cell's put, full and get
   * @param <S> the class of the stubs
   * @param <C> the sealed interface of the contents
   */
  public static <S extends Contents<C>, C> ContentsType<S, C> oneof(
      String theta, Stubs stubs, Function<Session, S> make, List<Tag<C>> tags, int... numbers) {
    Form form =
        new Form() {
          @Override
          public List<Object> operands(Object contents) {
            for (int at = 0; at < tags.size(); at++) {
              Tag<C> tag = tags.get(at);
              if (tag.isOf(contents)) {
                var type = tag.type;
                Object value =
                    type == null ? Value.nil() : operandOf(type.get(), tag.value(contents));
                return choice(at, value);
              }
            }
            throw new ClassCastException("`" + theta + "` has no such tag: " + contents);
          }

          @Override
          public Object take(Session session, List<Value> items) {
            int at = tagOf(items, tags.size());
            if (at < 0) {
              return MISMATCH;
            }
            var type = tags.get(at).type;
            if (type == null) {
              return items.get(1).isNil() ? tags.get(at).make(Value.nil()) : MISMATCH;
            }
            Object value = type.get().take(session, items.get(1));
            return value == null || value == MISMATCH ? MISMATCH : tags.get(at).make(value);
          }
        };
    return of(theta, stubs, make, true, form, numbers);
  }

  /**
   * Returns the type of maybes, whose contents can be given.
   *
   * @param theta the name in Theta
   * @param stubs the stubs that it belongs to
   * @param make the constructor of the stubs
   * @param some the type of the value that may be there
   * @param numbers the numbers of the type, its cell, and the cell's put, full and get
   * @param <S> the class of the stubs
   * @param <V> the value that may be there
   */
  public static <S extends Contents<Optional<V>>, V> ContentsType<S, Optional<V>> maybe(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      Supplier<? extends Type<?>> some,
      int... numbers) {
    Form form =
        new Form() {
          @Override
          public List<Object> operands(Object contents) {
            Optional<?> value = (Optional<?>) contents;
            return value.isPresent()
                ? choice(1, operandOf(some.get(), value.get()))
                : choice(0, Value.nil());
          }

          @Override
          public Object take(Session session, List<Value> items) {
            int at = tagOf(items, 2);
            if (at == 0) {
              return items.get(1).isNil() ? Optional.empty() : MISMATCH;
            }
            Object value = at < 0 ? MISMATCH : some.get().take(session, items.get(1));
            return value == null || value == MISMATCH ? MISMATCH : Optional.of(value);
          }
        };
    return of(theta, stubs, make, true, form, numbers);
  }
}
