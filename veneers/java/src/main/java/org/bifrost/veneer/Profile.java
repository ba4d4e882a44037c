package org.bifrost.veneer;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The time of a batch, and the cost of its commands. Counts are unsigned.
 *
 * @param nanoseconds the time at the server
 * @param fetches the fetches of objects
 * @param objects the objects that came with them
 * @param runs the runs of the batch: more than one if it was repeated
 * @param entries the costs of commands outside structures, and of structures
 * @param omitted the number of commands without an entry
 * @param rest their cost; null if there are none
 */
public record Profile(
    long nanoseconds,
    int fetches,
    int objects,
    int runs,
    List<Entry> entries,
    int omitted,
    @Nullable Cost rest) {
  /**
   * The cost of a command, of a structure, or of several of them.
   *
   * @param nanoseconds the time
   * @param calls the calls
   * @param fuel the fuel
   * @param fetches the fetches of objects
   * @param objects the objects that came with them
   */
  public record Cost(long nanoseconds, int calls, int fuel, int fetches, int objects) {}

  /**
   * The cost of one command outside structures, or of one structure.
   *
   * @param call its first position
   * @param isStructure true for a structure
   * @param cost its cost
   */
  public record Entry(int call, boolean isStructure, Cost cost) {}
}
