package org.bifrost.veneer;

import java.lang.ref.PhantomReference;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The handles and the failure that a slot holds. When the garbage collector finds that the slot is
 * gone, the hold comes into a queue, from which the recorder takes it at the next flush: nothing
 * crosses for it at once.
 */
final class Hold extends PhantomReference<Slot> {
  long[] handles = {};
  @Nullable Failure failure;
  boolean isWanted;

  /** The neighbours in the recorder's list of holds, by which they stay reachable. */
  @Nullable Hold before;

  @Nullable Hold behind;

  Hold(Slot slot, Recorder core) {
    super(slot, core.gone);
  }

  void add(long handle) {
    handles = Arrays.copyOf(handles, handles.length + 1);
    handles[handles.length - 1] = handle;
  }
}
