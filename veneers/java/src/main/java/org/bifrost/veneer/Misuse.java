package org.bifrost.veneer;

/** A wrong use of a stub. */
public enum Misuse {
  /** A claim or flush where the batch cannot end. */
  OPEN_STRUCTURE("OpenStructure"),

  /** A claim, a flush or the end of a transaction in a batch that is a transaction. */
  IN_TRANSACTION("InTransaction"),

  /** The stub was made inside a structure that has ended. */
  OUT_OF_SCOPE("OutOfScope"),

  /** Rows are appended to a table of an earlier batch, or to something else. */
  ENDED_TABLE("EndedTable"),

  /** The stub belongs to another session. */
  OTHER_SESSION("OtherSession"),

  /** The session was connected with other generated stubs. */
  OTHER_INTERFACE("OtherInterface"),

  /** The second block of a choice, or a handler, does not follow its structure directly. */
  NOT_ADJACENT("NotAdjacent"),

  /** The innermost loop is left, or continued, outside a loop. */
  NO_LOOP("NoLoop"),

  /** A return outside a procedure. */
  NO_PROCEDURE("NoProcedure"),

  /** A procedure defined inside another structure. */
  NESTED_PROCEDURE("NestedProcedure"),

  /** A well-known object looked up inside a structure. */
  LOOKUP_INSIDE("LookupInside"),

  /** A table of rows made inside a structure. */
  TABLE_INSIDE("TableInside"),

  /** The contents of an object taken inside a structure. */
  CONTENTS_INSIDE("ContentsInside"),

  /** A value with items where no parameter or result says its type. */
  UNTYPED("Untyped"),

  /** A value with items that nests deeper than 64 levels. */
  VALUE_TOO_DEEP("ValueTooDeep"),

  /** The code of a block was left by a panic, an exception or their like. */
  ABANDONED("Abandoned"),

  /** A structure is longer than a batch may be. */
  TOO_LONG("TooLong"),

  /** Structures are nested deeper than the server accepts. */
  TOO_DEEP("TooDeep"),

  /**
   * A flush begun while as many batches are under way as may be, or a transaction before they were
   * answered.
   */
  UNDER_WAY("UnderWay"),

  /** A result awaited in a session whose claims wait. */
  NOT_ASYNCHRONOUS("NotAsynchronous"),

  /** A stub that was released by hand is used, in a language whose stubs are. */
  RELEASED("Released"),

  /**
   * A block was left by a jump of a language that does not tell it, so that its end was not
   * recorded.
   */
  LEFT_OPEN("LeftOpen"),

  /** A text or character of a language that does not check them is no Unicode. */
  NOT_TEXT("NotText"),

  /** Profiles of batches are asked for, and the server makes none. */
  NO_PROFILES("NoProfiles");

  private final String wireName;

  Misuse(String wireName) {
    this.wireName = wireName;
  }

  /** Returns its name in all languages: {@code OpenStructure}. */
  public String wireName() {
    return wireName;
  }

  /** Returns the sentence that all languages have for it. */
  public String text() {
    for (Tables.MisuseRow row : Tables.MISUSES) {
      if (row.name().equals(wireName)) {
        return row.text();
      }
    }
    return wireName;
  }
}
