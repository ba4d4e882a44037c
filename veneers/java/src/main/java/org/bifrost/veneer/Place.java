package org.bifrost.veneer;

/**
 * A place in the program of the server.
 *
 * @param routine the name of the routine
 * @param file the name of the file; empty if it is not known
 * @param line the number of the line; 0 if it is not known
 */
public record Place(String routine, String file, int line) {
  /** Returns the place as messages show it. */
  @Override
  public String toString() {
    if (file.isEmpty()) {
      return routine;
    }
    String at = line == 0 ? file : file + ":" + Integer.toUnsignedString(line);
    return routine + " (" + at + ")";
  }
}
