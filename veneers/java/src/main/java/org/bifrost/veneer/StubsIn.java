package org.bifrost.veneer;

import java.lang.reflect.RecordComponent;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The stubs in the results of bodies: in lists, maps, arrays, records and each other. */
final class StubsIn {
  private StubsIn() {}

  /** Finds the stubs in a result. */
  static void find(@Nullable Object result, List<Stub> found) {
    if (result instanceof Stub stub) {
      found.add(stub);
    } else if (result instanceof Iterable<?> items) {
      items.forEach(item -> find(item, found));
    } else if (result instanceof Map<?, ?> map) {
      find(map.values(), found);
    } else if (result instanceof Object[] items) {
      find(List.of(items), found);
    } else if (result instanceof Record record) {
      for (RecordComponent component : record.getClass().getRecordComponents()) {
        try {
          var accessor = component.getAccessor();
          accessor.setAccessible(true);
          find(accessor.invoke(record), found);
        } catch (ReflectiveOperationException bad) {
          throw new IllegalArgumentException("a record that cannot be read: " + record, bad);
        }
      }
    }
  }
}
