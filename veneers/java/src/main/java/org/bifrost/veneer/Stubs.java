package org.bifrost.veneer;

import java.util.HexFormat;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The constants of generated code. A session is connected with those of one interface. */
public final class Stubs {
  /** The bytes of a digest. */
  static final int DIGEST_BYTES = 32;

  /** The digest of the interface; zeros have a session ask for that of its server. */
  final byte[] digest;

  private final Supplier<String> json;
  private volatile @Nullable Interface described;
  private int @Nullable [][] basic;
  private int @Nullable [][] builtin;
  private int @Nullable [] operators;
  private final Supplier<? extends List<? extends SignalType<?>>> signals;

  private Stubs(
      byte[] digest,
      Supplier<String> json,
      Supplier<? extends List<? extends SignalType<?>>> signals) {
    this.digest = digest;
    this.json = json;
    this.signals = signals;
  }

  /**
   * Returns the constants of an interface.
   *
   * @param digest the digest of the interface, in hexadecimal digits
   * @param json the description of the interface, which is read only when it is needed
   * @param basic the numbers of null, bool, int, real, char, string: the type, its cell, and the
   *     methods put, full and get of that
   * @param builtin the numbers of the built-in types: the same, and the first method
   * @param operators the numbers of the methods behind operators
   * @param signals the types of the program's exceptions; their classes may need these constants
   */
  public static Stubs of(
      String digest,
      Supplier<String> json,
      int[][] basic,
      int[][] builtin,
      int[] operators,
      Supplier<? extends List<? extends SignalType<?>>> signals) {
    byte[] bytes = HexFormat.of().parseHex(digest);
    if (bytes.length != DIGEST_BYTES) {
      throw new IllegalArgumentException("a digest has 32 bytes");
    }
    Stubs stubs = new Stubs(bytes, json, signals);
    stubs.basic = basic.clone();
    stubs.builtin = builtin.clone();
    stubs.operators = operators.clone();
    return stubs;
  }

  /** Returns the constants of an interface by its description alone. */
  static Stubs of(byte[] digest, Interface own, List<? extends SignalType<?>> signals) {
    Stubs stubs = new Stubs(digest, () -> "", () -> signals);
    stubs.described = own;
    return stubs;
  }

  /** Returns the types of the program's exceptions. */
  List<? extends SignalType<?>> signals() {
    return signals.get();
  }

  /** Returns the class that generated code is in: that of the function that gives its interface. */
  Class<?> host() {
    return json.getClass().getNestHost();
  }

  /** Returns the interface that the stubs were made from. */
  Interface own() {
    Interface known = described;
    if (known == null) {
      known = Interface.parse(json.get());
      described = known;
    }
    return known;
  }

  /** Returns the number of the method behind an operator. */
  int operator(int place) {
    if (operators == null) {
      operators = own().operators();
    }
    return operators[place];
  }

  /** Returns the numbers of a basic type: the type, its cell, put, full, get. */
  int[] basic(int place) {
    if (basic == null) {
      String[] kinds = {"null", "bool", "int", "real", "char", "string"};
      int[][] found = new int[kinds.length][];
      for (int index = 0; index < kinds.length; index++) {
        found[index] = numbersOf(own().findKind(kinds[index]));
      }
      basic = found;
    }
    return basic[place];
  }

  /** Returns the numbers of a built-in type: the type, its cell, put, full, get, first method. */
  int[] builtin(int place) {
    if (builtin == null) {
      int[][] found = new int[Tables.BUILTIN.size()][];
      for (int index = 0; index < found.length; index++) {
        found[index] = numbersOf(own().findType(Tables.BUILTIN.get(index).name()));
      }
      builtin = found;
    }
    return builtin[place];
  }

  /** Returns the numbers of a type: the type, its cell, put, full, get, its first method. */
  int[] numbersOf(int type) {
    Interface own = own();
    int cell = type == Tables.NO_NUMBER ? Tables.NO_NUMBER : own.findCell(type);
    boolean hasMethods = type != Tables.NO_NUMBER && !own.types.get(type).methods().isEmpty();
    return new int[] {
      type,
      cell,
      own.findMethod(cell, "put"),
      own.findMethod(cell, "full"),
      own.findMethod(cell, "get"),
      hasMethods
          ? own.findMethod(type, own.types.get(type).methods().get(0).name())
          : Tables.NO_NUMBER
    };
  }
}
