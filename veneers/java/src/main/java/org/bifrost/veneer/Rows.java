package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A table of rows, which loops append to; it comes back whole, and ends with its batch. */
public final class Rows extends Promise<List<Rows.Row>> {
  private final List<Type<?>> columns;

  Rows(Session session, List<Type<?>> columns) {
    super(session);
    this.columns = columns;
  }

  /** A row of a table that has come. */
  public static final class Row {
    private final List<@Nullable Object> cells;

    private Row(List<@Nullable Object> cells) {
      this.cells = Collections.unmodifiableList(cells);
    }

    /**
     * Returns a cell, which has the type of its column: {@code long visits = row.get(1)}.
     *
     * @param <T> the value that a claim of the column's type gives, or its stub
     */
    @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
    public <T> T get(int column) {
      return (T) cells.get(column);
    }

    /** Returns the cells. */
    public List<@Nullable Object> cells() {
      return cells;
    }

    /** Returns the cells as a list is shown. */
    @Override
    public String toString() {
      return cells.toString();
    }
  }

  /**
   * Appends a row of stubs and values. In structures and procedures it is appended whenever they
   * come to it.
   *
   * @throws IllegalArgumentException if the number of cells is not that of the columns
   */
  public void push(@Nullable Object... cells) {
    if (cells.length != columns.size()) {
      throw new IllegalArgumentException("a row has " + columns.size() + " cells");
    }
    Call row = session.call.beginEmit(this, cells.length);
    for (int index = 0; index < cells.length; index++) {
      row.add(columns.get(index), cells[index]);
    }
    row.post();
  }

  @Override
  @Nullable Object read(Value value) {
    if (value.tag != Tables.TAG_ROWS || value.table().columns().size() != columns.size()) {
      return Type.MISMATCH;
    }
    List<Row> rows = new ArrayList<>();
    List<@Nullable Object> row = new ArrayList<>();
    for (Value cell : value.table().cells()) {
      Object taken = columns.get(row.size()).take(session, cell);
      if (taken == Type.MISMATCH) {
        return taken;
      }
      row.add(taken);
      if (row.size() == columns.size()) {
        rows.add(new Row(row));
        row = new ArrayList<>();
      }
    }
    return rows;
  }
}
