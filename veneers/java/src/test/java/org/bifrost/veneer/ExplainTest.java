package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.bifrost.veneer.database.Database;
import org.bifrost.veneer.database.Database.DataBase;
import org.bifrost.veneer.database.Database.DataElem;
import org.junit.jupiter.api.Test;

/** Tests of commands as lines, by {@code vectors/explained.json}. */
class ExplainTest {
  @Test
  void commandsHaveTheLinesOfAllLanguages() {
    List<Object> rows =
        Trees.list(Trees.parse(Trees.read(Trees.VECTORS.resolve("explained.json"))));
    assertTrue(rows.size() > 100, "there are few explanations");
    for (Object row : rows) {
      Map<String, Object> parts = Trees.map(row);
      Object lines = parts.get("lines");
      if (parts.get("case") == null) {
        String names = Trees.read(Trees.VECTORS.resolve("interface.json"));
        assertEquals(lines, explained(names, Trees.unhexed(parts.get("commands"))));
        continue;
      }
      String file = Trees.text(parts.get("case"));
      Map<String, Object> test = Trees.map(Trees.parse(Trees.read(Cases.FOLDER.resolve(file))));
      List<byte[]> sent = new ArrayList<>();
      Cases.unfold(test).forEach(crossed -> sent.addAll(crossed.sent()));
      Object server = test.get("server_interface");
      String names = Cases.interfaceOf(server == null ? test.get("interface") : server);
      assertEquals(lines, explained(names, Trees.joined(sent)), file);
    }
  }

  private static String explained(String names, byte[] commands) {
    return new Explainer(Interface.parse(names), List.of()).lines(commands);
  }

  @Test
  void valuesHaveTheTextForm() {
    Map<String, Value> values =
        Map.of(
            "1.0", Value.of(1.0),
            "-0.0", Value.of(-0.0),
            "1e16", Value.of(1e16),
            "1.5e-5", Value.of(1.5e-5),
            "0.0001", Value.of(0.0001),
            "NaN", Value.of(Double.NaN),
            "-inf", Value.of(Double.NEGATIVE_INFINITY),
            "\"a\\\"b\\n\\\\\\u{1b}\"", Value.of("a\"b\n\\\u001b"),
            "nil", Value.nil(),
            "x\"00ff\"", Value.of(new byte[] {0, -1}));
    values.forEach((text, value) -> assertEquals(text, Explainer.shown(value)));
    assertThrows(
        IllegalArgumentException.class,
        () -> explained("{\"types\":[],\"routines\":[]}", new byte[8]));
  }

  @Test
  void aSessionExplainsItsBatch() throws IOException {
    try (Server server = Server.serve("cases/programs/database.theta");
        Session s = Database.connect(server.url())) {
      assertEquals("# batch 1: nothing is recorded\n", s.explain());
      DataBase db = s.lookup("database", DataBase.TYPE);
      s.foreach(db.users(), e -> s.if_(e.visits().lt(1), e::touch));
      assertEquals(
          """
          # batch 1: 10 commands, not sent
          @1 := lookup database: DataBase
          foreach $x2 in @1.users() do
            @3 := $x2.visits()
            @4 := @3.lt(1)
            if
            then @4
              @5 := $x2.touch()
            end
          end
          """,
          s.explain());
      DataElem ann = db.fetch("ann");
      for (int round = 0; round < 400; round++) {
        ann.touch();
      }
      String later = s.explain();
      assertTrue(later.contains(" bytes before, which the server has already\n"), later);
      assertTrue(later.endsWith("@406 := @6.touch()\n"), later);
    }
  }
}
