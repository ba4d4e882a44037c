package org.bifrost.veneer;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The numbers of stubs as the server has them. Equal interfaces map nothing. */
final class Numbers {
  final Stubs stubs;

  /** The interface of the server. */
  private final @Nullable Interface server;

  private final boolean isSame;
  private final int[] types;
  private final int[] methods;
  private final int[] routines;

  private Numbers(
      Stubs stubs,
      @Nullable Interface server,
      boolean isSame,
      int[] types,
      int[] methods,
      int[] routines) {
    this.stubs = stubs;
    this.server = server;
    this.isSame = isSame;
    this.types = types;
    this.methods = methods;
    this.routines = routines;
  }

  /** Returns the numbers for a server with the interface of the stubs. */
  static Numbers same(Stubs stubs) {
    return new Numbers(stubs, null, true, new int[0], new int[0], new int[0]);
  }

  /** Returns the numbers for a server with another interface. */
  static Numbers mapped(Stubs stubs, Interface server) {
    Interface own = stubs.own();
    int[] types = new int[own.types.size()];
    int[] methods = new int[own.methodCount()];
    Arrays.fill(methods, Tables.NO_NUMBER);
    int method = 0;
    for (int index = 0; index < types.length; index++) {
      Interface.TypeEntry entry = own.types.get(index);
      types[index] = server.findType(entry.name());
      for (Interface.Heading heading : entry.methods()) {
        int found = server.findMethod(types[index], heading.name());
        if (Interface.isSame(own, heading, server, server.method(found))) {
          methods[method] = found;
        }
        method++;
      }
    }
    List<Interface.Heading> headings = own.routines;
    int[] routines = new int[headings.size()];
    for (int index = 0; index < routines.length; index++) {
      Interface.Heading heading = headings.get(index);
      int found = server.findRoutine(heading.name());
      boolean isThere =
          found != Tables.NO_NUMBER
              && Interface.isSame(own, heading, server, server.routines.get(found));
      routines[index] = isThere ? found : Tables.NO_NUMBER;
    }
    return new Numbers(stubs, server, false, types, methods, routines);
  }

  /** Returns the interface of the server. */
  Interface server() {
    return server == null ? stubs.own() : server;
  }

  private int find(int[] mapped, int number) {
    if (isSame) {
      return number;
    }
    return number < 0 || number >= mapped.length ? Tables.NO_NUMBER : mapped[number];
  }

  /** Returns the server's number of a method; {@code NO_NUMBER} if it has none. */
  int method(int number) {
    return find(methods, number);
  }

  /** Returns the server's number of a routine; {@code NO_NUMBER} if it has none. */
  int routine(int number) {
    return find(routines, number);
  }

  /** Returns the server's number of a type; {@code NO_NUMBER} if it has none. */
  int type(int number) {
    return find(types, number);
  }
}
