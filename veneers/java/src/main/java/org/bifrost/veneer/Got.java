package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/**
 * A promise of contents. Objects in them are stubs, and are held as long as this one.
 *
 * @param <C> the contents
 */
public final class Got<C> extends Promise<C> {
  private final ContentsType<?, C> type;

  Got(Session session, ContentsType<?, C> type) {
    super(session);
    this.type = type;
  }

  @Override
  @Nullable Object read(Value value) {
    return type.takeContents(session, value);
  }
}
