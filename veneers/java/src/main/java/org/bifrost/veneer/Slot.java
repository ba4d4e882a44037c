package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/**
 * The knowledge about a stub. Copies of a stub share their slot, which counts them as its holders.
 * Programs release stubs, or leave that to the garbage collector: then the {@link Hold} of the slot
 * gives its handles back.
 */
class Slot {
  /** The state of a stub. */
  enum State {
    /** A result of the recorded batch. */
    FUTURE,
    /** A result of a batch without an answer. */
    UNDER_WAY,
    /** An object. */
    OBJECT,
    /** A value or a table. */
    VALUE,
    /** A failure. */
    FAILED
  }

  final Recorder core;
  State state = State.FUTURE;

  /** False for the result of a call without results that nobody has claimed. */
  boolean isWanted = true;

  /** The number of holders; 0 for a stub that was released. */
  int holders = 1;

  /** The position of a pending result in its batch, from 1; the handle of an object. */
  long number;

  /** The number of the batch of a result under way. */
  long batch;

  /** The value or the failure. */
  private @Nullable Object data;

  /** The handles and the failure that the slot holds; null for none. */
  @Nullable Hold hold;

  Slot(Recorder core) {
    this.core = core;
  }

  final Value value() {
    if (data instanceof Value value) {
      return value;
    }
    throw new IllegalStateException("the result is no value");
  }

  final Failure failure() {
    if (data instanceof Failure failure) {
      return failure;
    }
    throw new IllegalStateException("the result is no failure");
  }

  final void set(State settled, @Nullable Object outcome) {
    state = settled;
    data = outcome;
  }

  /** Returns true if the result is not known yet. */
  final boolean isPending() {
    return state == State.FUTURE || state == State.UNDER_WAY;
  }

  /** Returns true for the result of a call that was not sent. */
  final boolean isUnusable() {
    return state == State.FAILED
        && (data instanceof Failure.NotSent || data instanceof Failure.Misused);
  }

  /** Returns true for a table of rows that has come. */
  final boolean isRows() {
    return state == State.VALUE && value().tag == Tables.TAG_ROWS;
  }

  /** Returns true if two slots are known to have the same result. */
  final boolean hasSameResult(Slot other) {
    if (state != other.state) {
      return false;
    }
    return switch (state) {
      case OBJECT -> number == other.number && core == other.core;
      case VALUE -> value().equals(other.value());
      default -> false;
    };
  }

  /** Counts a further holder. */
  final Slot retain() {
    holders++;
    return this;
  }

  /** Counts a holder less. */
  final void drop() {
    if (holders > 0 && --holders == 0) {
      core.empty(this);
    }
  }
}
