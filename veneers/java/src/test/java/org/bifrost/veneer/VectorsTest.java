package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.hexed;
import static org.bifrost.veneer.Trees.list;
import static org.bifrost.veneer.Trees.number;
import static org.bifrost.veneer.Trees.plain;
import static org.bifrost.veneer.Trees.unhexed;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Tests of the wire form by the vectors that every language reads. */
class VectorsTest {
  private static List<Map<String, Object>> rows(String name) {
    List<Object> rows = list(Trees.parse(Trees.read(Trees.VECTORS.resolve(name))));
    assertTrue(rows.size() >= 10, name);
    return rows.stream().map(Trees::map).toList();
  }

  @Test
  void commandsAreTheirBytes() throws Exception {
    for (Map<String, Object> row : rows("commands.json")) {
      byte[] data = unhexed(row.get("hex"));
      assertEquals(row.get("commands"), plain(CommandReader.decodeAll(data)));
      Words encoded = new Words(64);
      list(row.get("commands")).forEach(command -> Encoding.command(encoded, command));
      assertEquals(hexed(data), hexed(encoded.copy()));
      for (int end = 0; end < data.length; end++) {
        // A command that is cut is no other one.
        try {
          assertTrue(CommandReader.decode(data, 0, end).length() <= end);
        } catch (IncompleteException more) {
          assertTrue(more.length > end);
        }
      }
    }
  }

  @Test
  void malformedCommandsAreRefused() {
    for (Map<String, Object> row : rows("malformed.json")) {
      byte[] data = unhexed(row.get("hex"));
      MalformedException bad =
          assertThrows(
              MalformedException.class,
              () -> CommandReader.decode(data, 0, data.length),
              row.get("what").toString());
      assertEquals(row.get("error"), Failure.errorName(bad.number), row.toString());
      assertEquals(number(row.get("offset")), bad.offset, row.toString());
    }
  }

  @Test
  void repliesAreTheirBytes() throws Exception {
    for (Map<String, Object> row : rows("replies.json")) {
      byte[] data = unhexed(row.get("hex"));
      Reply.Decoded decoded = Reply.decode(data, data.length, Tables.REPLY_BYTES_MAX);
      assertEquals(data.length, decoded.length());
      assertEquals(row.get("reply"), plain(Showing.reply(decoded.reply())));
      assertEquals(hexed(data), hexed(Encoding.reply(row.get("reply"))));
      for (int end = 0; end < data.length; end++) {
        int cut = end;
        assertThrows(
            IncompleteException.class, () -> Reply.decode(data, cut, Tables.REPLY_BYTES_MAX));
      }
    }
  }

  @Test
  void changedRepliesAreReadOrRefused() {
    int refused = 0;
    for (Map<String, Object> row : rows("replies.json")) {
      byte[] data = unhexed(row.get("hex"));
      for (int bit = 0; bit < 8 * data.length; bit++) {
        byte[] changed = data.clone();
        changed[bit / 8] ^= (byte) (1 << bit % 8);
        try {
          int length = Reply.decode(changed, changed.length, Tables.REPLY_BYTES_MAX).length();
          assertTrue(length <= changed.length);
        } catch (MalformedException | IncompleteException bad) {
          refused++;
        }
      }
    }
    assertTrue(refused > 1000, "only " + refused + " changes were refused");
  }

  @Test
  void countsBeyondTheBytesTakeNoMemory() {
    byte[] outcomes = Encoding.reply(Tables.OP_FLUSHED, 0, -1, new Words(16).word(0).word(0));
    byte[] rows =
        Encoding.reply(
            Tables.OP_FLUSHED,
            0,
            1,
            new Words(64)
                .word(0)
                .word(0)
                .word(Words.head(Tables.TAG_ROWS, 0, -1))
                .word(16)
                .word(1)
                .word(Tables.TAG_INT));
    byte[] items =
        Encoding.reply(
            Tables.OP_FLUSHED,
            0,
            1,
            new Words(64)
                .word(0)
                .word(0)
                .word(Words.head(Tables.TAG_COMPOUND, 0, 0))
                .word(8)
                .word(Words.pair(-1, -1)));
    byte[] limits =
        Encoding.reply(
            Tables.OP_WELCOME, 0, Tables.VERSION, new Words(64).zeros(48).word(Long.MIN_VALUE));
    for (byte[] reply : List.of(outcomes, rows, items, limits)) {
      assertThrows(
          MalformedException.class,
          () -> Reply.decode(reply, reply.length, Tables.REPLY_BYTES_MAX));
    }
  }

  @Test
  void theInterfaceHasItsNames() {
    Interface own = Interface.parse(Trees.read(Trees.VECTORS.resolve("interface.json")));
    int fetch = own.findMethod("DataBase.fetch");
    assertEquals(
        "fetch (user: string) returns (DataElem) signals (not_found)",
        own.shown(own.method(fetch)));
    assertEquals("DataBase.fetch", own.methodName(fetch));
    assertEquals("?", own.methodName(own.methodCount()));
    assertEquals("?", own.typeName(own.types.size()));
    assertEquals(Tables.NO_NUMBER, own.findMethod("DataBase.fetsh"));
  }

  @Test
  void badInterfacesAreRefused() {
    for (String bad :
        List.of(
            "",
            "[]",
            "{}",
            "{\"types\":[]}",
            "{\"types\":[{\"name\":\"x\",\"kind\":\"y\"}],\"routines\":[]}",
            "{\"types\":[],\"routines\":[{\"name\":\"x\",\"params\":[{\"name\":\"a\",\"type\":0}]}]}",
            "{\"types\":[],\"routines\":[{\"name\":\"x\",\"results\":[-1]}]}",
            "{\"types\":[{\"name\":\"x\",\"kind\":\"object\",\"supertypes\":[0]}],\"routines\":[]}",
            "{\"types\":[{\"name\":\"x\",\"kind\":\"object\",\"supertypes\":[1]},"
                + "{\"name\":\"y\",\"kind\":\"object\",\"supertypes\":[0]}],\"routines\":[]}",
            "{\"types\":[{\"name\":\"x\",\"kind\":\"cell\",\"element\":1}],\"routines\":[]}",
            "{\"types\":[{\"name\":\"x\",\"kind\":\"int\",\"methods\":"
                + "[{\"name\":\"m\",\"yields\":[7]}]}],\"routines\":[]}",
            "{\"types\":[],\"routines\":[]} x",
            "{\"types\":[],\"routines\":" + "[".repeat(100_000))) {
      assertThrows(IllegalArgumentException.class, () -> Interface.parse(bad), bad);
    }
  }
}
