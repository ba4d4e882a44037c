package org.bifrost.veneer;

/** The root directory: the names of well-known objects. */
public final class Directory extends Obj {
  /** The type. */
  public static final Type<Directory> TYPE =
      new Type.OfObject<>("directory", Directory::new) {
        @Override
        int[] numbersIn(Stubs stubs) {
          return stubs.builtin(Tables.BUILTIN_DIRECTORY);
        }
      };

  Directory(Session session) {
    super(session);
  }

  private int number(int method) {
    int first = session.stubs().builtin(Tables.BUILTIN_DIRECTORY)[5];
    return first == Tables.NO_NUMBER ? first : first + method;
  }

  /** Returns the object of a name; the server signals {@code not_found}. */
  public Any lookup(String name) {
    return call(number(0), 1).add(name).to(Any.TYPE);
  }

  /** Gives an object a name. */
  public Done insert(String name, Obj object) {
    return call(number(1), 2).add(name).add(object).done();
  }

  /** Takes a name back; the server signals {@code not_found}. */
  public Done remove(String name) {
    return call(number(2), 1).add(name).done();
  }

  /** Returns the names, for {@link Session#foreach}. */
  public Iter<Str> names() {
    return iter(number(3), Str.TYPE);
  }

  /** Returns the names, each with the type of its object. */
  public Iter.Two<Str, Str> list() {
    return iter(number(4), Str.TYPE, Str.TYPE);
  }
}
