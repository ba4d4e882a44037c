//! `bifrost lsp` with a scripted client: the real program, its real streams.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use support::{bifrost, example};
use tempfile::TempDir;

/// A client with a folder of its own. `$` in a text marks a place and is not part of it.
struct Client {
    child: Child,
    output: BufReader<ChildStdout>,
    folder: TempDir,
    last: u64,
    /// The diagnostics of each document as they came last.
    diagnostics: std::collections::HashMap<String, Value>,
}

impl Client {
    /// Starts a server, which is not initialised.
    fn start() -> Client {
        let mut command = bifrost();
        command.arg("lsp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let folder = tempfile::tempdir().unwrap();
        Client { child, output, folder, last: 0, diagnostics: Default::default() }
    }

    /// Starts a server with these capabilities of the client.
    fn with(capabilities: Value) -> (Client, Value) {
        let mut client = Client::start();
        let uri = client.uri("");
        let folders = json!([{ "uri": uri.trim_end_matches('/'), "name": "test" }]);
        let params = json!({ "capabilities": capabilities, "workspaceFolders": folders, "processId": null });
        let answer = client.request("initialize", params).unwrap();
        client.notify("initialized", json!({}));
        (client, answer)
    }

    fn new() -> Client {
        Client::with(json!({})).0
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}/{name}", self.folder.path().display())
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn send(&mut self, message: Value) {
        let text = message.to_string();
        self.send_bytes(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    /// The next message of the server; `None` at its end.
    fn receive(&mut self) -> Option<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some((_, value)) => length = value.parse().unwrap(),
                None => break,
            }
        }
        let mut bytes = vec![0; length];
        self.output.read_exact(&mut bytes).unwrap();
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    /// The next answer; diagnostics are kept.
    fn answer(&mut self) -> Value {
        loop {
            let message = self.receive().expect("an answer comes");
            if message["method"] != "textDocument/publishDiagnostics" {
                return message;
            }
            let uri = message["params"]["uri"].as_str().unwrap().to_owned();
            self.diagnostics.insert(uri, message["params"]["diagnostics"].clone());
        }
    }

    /// The result of a request, or its error.
    fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last += 1;
        let id = self.last;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Opens a document; gives the place of `$` in it.
    fn open(&mut self, name: &str, marked: &str) -> Value {
        let (before, after) = marked.split_once('$').unwrap_or((marked, ""));
        let document = json!({ "uri": self.uri(name), "languageId": "theta", "version": 1, "text": format!("{before}{after}") });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
        let column = before.rsplit('\n').next().unwrap().encode_utf16().count();
        let position = json!({ "line": before.matches('\n').count(), "character": column });
        json!({ "textDocument": { "uri": self.uri(name) }, "position": position })
    }

    /// What is wrong with a document: codes and lines.
    fn mistakes(&mut self, name: &str) -> Vec<(String, u64)> {
        // Answers come in order, so the diagnostics are there before this one.
        self.request("workspace/symbol", json!({ "query": "nothing is called so" })).unwrap();
        let found = self.diagnostics.get(&self.uri(name)).cloned().unwrap_or(json!([]));
        let mistake = |d: &Value| {
            (d["code"].as_str().unwrap().to_owned(), d["range"]["start"]["line"].as_u64().unwrap())
        };
        found.as_array().unwrap().iter().map(mistake).collect()
    }

    fn labels(&mut self, place: Value) -> Vec<String> {
        let items = self.request("textDocument/completion", place).unwrap();
        items.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    }

    /// Texts under the ranges of an answer, with their lines.
    fn texts(&self, name: &str, text: &str, ranges: &Value) -> Vec<(u64, String)> {
        let at = |range: &Value| {
            let line = range["start"]["line"].as_u64().unwrap();
            let column = |end: &str| range[end]["character"].as_u64().unwrap() as usize;
            (line, text.lines().nth(line as usize).unwrap()[column("start")..column("end")].to_owned())
        };
        let here =
            ranges.as_array().unwrap().iter().filter(|l| l["uri"].is_null() || l["uri"] == self.uri(name));
        here.map(|location| at(&location["range"])).collect()
    }

    /// Says goodbye; gives the exit status.
    fn end(mut self) -> Option<i32> {
        self.request("shutdown", Value::Null).unwrap();
        self.notify("exit", Value::Null);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SHAPES: &str = "\
Shape = type
  area () returns (real)
  % How large it is.
end Shape

module shapes exports square
  Square = class implements Shape
    side: real
    area () returns (real) return (side * side) end area
    grow (by: real) side := side + by end grow
  end Square

  remote square (side: real) returns (Shape)
  % A square.
    s: Square := Square{side := side}
    s.grow(1.0)
    return (s)
  end square
end shapes

main ()
  for s: Shape in sequence_of[Shape](.. square(2.0)).elements() do
    print(s.area().unparse())
  end
end main
";

/// `SHAPES` with `$` before the `count`-th `what`.
fn marked(what: &str, count: usize) -> String {
    let at = SHAPES.match_indices(what).nth(count).unwrap().0;
    format!("{}${}", &SHAPES[..at], &SHAPES[at..])
}

#[test]
fn mistakes_come_and_go() {
    let mut client = Client::new();
    client.open("a.theta", "f () returns (int)\n  n: int := \"a\"\n  return (m)\nend f\n");
    assert_eq!(client.mistakes("a.theta"), [("E0202".to_owned(), 1), ("E0208".to_owned(), 2)]);
    let change = |text: Value| json!({ "textDocument": { "uri": client.uri("a.theta"), "version": 2 }, "contentChanges": text });
    let parts = change(json!([
        { "range": { "start": { "line": 1, "character": 12 }, "end": { "line": 1, "character": 15 } }, "text": "1" },
        { "range": { "start": { "line": 2, "character": 10 }, "end": { "line": 2, "character": 11 } }, "text": "n" },
    ]));
    let whole = change(json!([{ "text": "f (" }]));
    client.notify("textDocument/didChange", parts);
    assert_eq!(client.mistakes("a.theta"), []);
    client.notify("textDocument/didChange", whole);
    assert!(!client.mistakes("a.theta").is_empty());
    let uri = client.uri("a.theta");
    client.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(client.mistakes("a.theta"), []);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn mistakes_in_imports_are_told() {
    let mut client = Client::new();
    std::fs::write(client.folder.path().join("lib.theta"), "f () returns (int) return (true) end f\n")
        .unwrap();
    std::fs::create_dir(client.folder.path().join("inner")).unwrap();
    // Imports start at the folder that the client has open.
    client.open("inner/a.theta", "import lib\nmain () f() end main\n");
    assert_eq!(client.mistakes("inner/a.theta"), []);
    assert_eq!(client.mistakes("lib.theta"), [("E0202".to_owned(), 0)]);
    // What is open counts, not what is on the disk.
    client.open("lib.theta", "f () returns (int) return (1) end f\n");
    assert_eq!(client.mistakes("lib.theta"), []);
    client.open("inner/a.theta", "import gone\n");
    assert_eq!(client.mistakes("inner/a.theta"), [("E0208".to_owned(), 0)]);
}

#[test]
fn what_is_built_in_can_be_imported() {
    let mut client = Client::new();
    let text = "import std.files\nf () returns (int) signals (not_found)\n  return (read_file(\"a\").length()) resignal not_found\nend f\n";
    let at = text.find("read_file").unwrap();
    let mut place = client.open("a.theta", &format!("{}${}", &text[..at], &text[at..]));
    assert_eq!(client.mistakes("a.theta"), []);
    let answer = client.request("textDocument/hover", place.clone()).unwrap();
    let said = answer["contents"]["value"].as_str().unwrap();
    assert!(
        said.contains("read_file (name: string) returns (bytes)") && said.contains("All bytes"),
        "{said}"
    );
    let definition = client.request("textDocument/definition", place.clone()).unwrap();
    assert_eq!(definition, Value::Null, "no editor can open it");
    place["newName"] = json!("slurp");
    let error = client.request("textDocument/rename", place).unwrap_err();
    assert_eq!(error["message"], "`read_file` is predeclared");
    client.open("a.theta", "$native \"std::fly\" fly (height: int)\n");
    assert_eq!(client.mistakes("a.theta"), [("E0213".to_owned(), 0)]);
}

#[test]
fn hover_shows_heading_and_comment() {
    let mut client = Client::new();
    let mut hover = |text: &str| {
        let place = client.open("a.theta", text);
        let answer = client.request("textDocument/hover", place).unwrap();
        answer["contents"]["value"].as_str().map(str::to_owned)
    };
    let area = "```theta\narea () returns (real)\n```\nmethod\n\nHow large it is.";
    assert_eq!(hover(&marked("area().unparse", 0)).as_deref(), Some(area));
    assert_eq!(
        hover(&marked("square(2.0)", 0)).as_deref(),
        Some("```theta\nremote square (side: real) returns (Shape)\n```\nroutine\n\nA square.")
    );
    assert_eq!(
        hover(&marked("side * side", 0)).as_deref(),
        Some("```theta\nside: real\n```\ninstance variable")
    );
    assert_eq!(hover(&marked("s.grow", 0)).as_deref(), Some("```theta\ns: Square\n```\nvariable"));
    assert!(hover(&marked("unparse", 0)).unwrap().contains("unparse () returns (string)"));
    assert!(hover(&marked("elements()", 0)).unwrap().contains("elements () yields (T)"));
    assert_eq!(hover(&marked("end main", 0)), None, "a reserved word means nothing");
}

#[test]
fn names_lead_to_their_definition() {
    let mut client = Client::new();
    client.open("lib.theta", "Point = type x () returns (int) end Point\n");
    let place = client.open("a.theta", "import lib (Point as Place)\nf (p: Pl$ace) p.x() end f\n");
    let answer = client.request("textDocument/definition", place).unwrap();
    assert_eq!(answer["uri"], client.uri("lib.theta"));
    assert_eq!(answer["range"]["start"], json!({ "line": 0, "character": 0 }));
    let place = client.open("a.theta", "import lib\nf (p: Point) p.$x() end f\n");
    let answer = client.request("textDocument/definition", place).unwrap();
    assert_eq!(
        (&answer["uri"], &answer["range"]["start"]["character"]),
        (&client.uri("lib.theta").into(), &13.into())
    );
    let place = client.open("a.theta", "f (p: in$t) end f\n");
    assert_eq!(client.request("textDocument/definition", place).unwrap(), Value::Null);
}

#[test]
fn references_are_those_of_all_that_share_a_name() {
    let mut client = Client::new();
    let mut place = client.open("a.theta", &marked("area ()", 0));
    place["context"] = json!({ "includeDeclaration": true });
    let answer = client.request("textDocument/references", place.clone()).unwrap();
    let lines: Vec<u64> = client
        .texts("a.theta", SHAPES, &answer)
        .iter()
        .map(|(line, text)| {
            assert_eq!(text, "area");
            *line
        })
        .collect();
    assert_eq!(lines, [1, 8, 8, 22], "the type's, the class's with its `end`, the call");
    place["context"] = json!({ "includeDeclaration": false });
    let answer = client.request("textDocument/references", place.clone()).unwrap();
    assert_eq!(client.texts("a.theta", SHAPES, &answer).len(), 2);
    let highlights = client.request("textDocument/documentHighlight", place).unwrap();
    assert_eq!(highlights.as_array().unwrap().len(), 4);
}

#[test]
fn new_names_are_given_everywhere() {
    let mut client = Client::new();
    std::fs::write(client.folder.path().join("user.theta"), "import a (square as sq)\ng () sq(1.0) end g\n")
        .unwrap();
    let mut place = client.open("a.theta", &marked("square (", 0));
    place["newName"] = json!("quad");
    let answer = client.request("textDocument/rename", place).unwrap();
    let edits = |name: &str| answer["changes"][client.uri(name)].as_array().map_or(0, Vec::len);
    assert_eq!(edits("a.theta"), 4, "the export, the definition, its end, the call: {answer}");
    assert_eq!(edits("user.theta"), 1, "the import, not the name it gives: {answer}");
}

/// Variables that stand for methods, with and without a type that asks for them.
const CELLS: &str = "\
cell_type = type
  v () returns (int)
  set_v (x: int)
end cell_type
sink = type set_v (x: int) end sink
pair = record[left: int, right: int]
side = oneof[left: int, none: null]
module cells exports new_cell
  C = class implements cell_type, sink
    v: int   other: int
    twice () v := v * 2 end twice
  end C
  D = class implements sink
    v: int
  end D
  E = class implements sink
    set_v (x: int) print(x.unparse()) end set_v
  end E
  F = class implements cell_type
    w: C
    v () returns (int) return (w.v()) end v
    set_v (x: int) w.set_v(x) end set_v
  end F
  new_cell () returns (cell_type) return (C{v := 1, other := 2}) end new_cell
end cells
use (c: cell_type, s: sink, p: pair, o: side)
  c.set_v(c.v() + 1)
  s.set_v(3)
  p.set_left(p.left)
  p.left := 4
  if o.is_left() then print(o.value_left().unparse()) except when wrong_tag: end end
end use
";

#[test]
fn variables_and_the_methods_that_they_stand_for_change_together() {
    let mut client = Client::new();
    let mut renamed = |place: &str, count: usize, new: &str| {
        let at = CELLS.match_indices(place).nth(count).unwrap().0;
        let mut place = client.open("a.theta", &format!("{}${}", &CELLS[..at], &CELLS[at..]));
        assert_eq!(client.mistakes("a.theta"), []);
        place["newName"] = json!(new);
        let answer = client.request("textDocument/rename", place).map_err(|e| e["message"].clone())?;
        let new = edited(CELLS, answer["changes"][client.uri("a.theta")].as_array().unwrap());
        client.open("a.theta", &format!("${new}"));
        assert_eq!(client.mistakes("a.theta"), [], "{new}");
        Ok(new)
    };
    let everywhere = CELLS.replace(" v ", " size ").replace(" v:", " size:").replace("set_v", "set_size");
    let everywhere =
        everywhere.replace(".v()", ".size()").replace("{v :", "{size :").replace("(w.v(", "(w.size(");
    // From the variable, from the method that reads it, from the method that sets it.
    let from_variable = renamed("v: int   other", 0, "size");
    assert_eq!(from_variable, renamed("v () returns", 0, "size"));
    assert_eq!(from_variable, renamed("set_v (x: int)", 0, "set_size"));
    assert_eq!(from_variable, renamed("set_v(3)", 0, "set_size"));
    assert_eq!(from_variable, Ok::<_, Value>(everywhere.replace("end v\n", "end size\n")));
    let error = renamed("set_v (x: int)", 0, "size").unwrap_err();
    assert_eq!(error, "instance variables `v` stand for `set_v`: its new name must begin with `set_`");
    assert_eq!(renamed("v: int   other", 0, "other").unwrap_err(), "`other` is used already (line 10)");
    let fields = renamed("left: int, right", 0, "west").unwrap();
    assert!(
        fields.contains("  p.set_west(p.west)\n  p.west := 4\n") && fields.contains("oneof[left"),
        "{fields}"
    );
    let tags = renamed("left: int, none", 0, "west").unwrap();
    assert!(tags.contains("o.is_west() then print(o.value_west()") && tags.contains("record[left"), "{tags}");
}

/// A text after edits that do not overlap.
fn edited(text: &str, edits: &[Value]) -> String {
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    let mut edits: Vec<(usize, usize, usize, &str)> = edits
        .iter()
        .map(|edit| {
            let (start, end) = (&edit["range"]["start"], &edit["range"]["end"]);
            assert_eq!(start["line"], end["line"]);
            let number = |value: &Value| value.as_u64().unwrap() as usize;
            let new = edit["newText"].as_str().unwrap();
            (number(&start["line"]), number(&start["character"]), number(&end["character"]), new)
        })
        .collect();
    edits.sort_unstable();
    for (line, start, end, new) in edits.into_iter().rev() {
        lines[line].replace_range(start..end, new);
    }
    lines.concat()
}

#[test]
fn new_names_are_refused_where_they_mean_something() {
    let mut client = Client::new();
    let mut refused = |what: &str, count: usize, new: &str| {
        let mut place = client.open("a.theta", &marked(what, count));
        place["newName"] = json!(new);
        let error = client.request("textDocument/rename", place).expect_err(new);
        assert_eq!(error["code"], -32803);
        error["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused("square (", 0, "end"), "`end` is a reserved word");
    assert_eq!(refused("square (", 0, "2x"), "`2x` is not a name");
    assert_eq!(refused("square (", 0, "print"), "`print` is predeclared");
    assert_eq!(refused("square (", 0, "Square"), "`Square` is used already (line 7)");
    assert_eq!(refused("area ()", 0, "grow"), "`grow` is used already (line 10)");
    assert_eq!(refused("by: real", 0, "side"), "`side` is used already (line 8)");
    assert_eq!(refused("print(", 0, "say"), "`print` is predeclared");
    assert_eq!(refused("for s", 0, "x"), "no known name is here");
    let place = client.open("a.theta", &marked("by: real", 0));
    let range = client.request("textDocument/prepareRename", place).unwrap();
    assert_eq!(range["start"], json!({ "line": 9, "character": 10 }));
}

#[test]
fn completion_knows_methods_and_names() {
    let mut client = Client::new();
    // Half-written, as it is when somebody asks.
    let half = SHAPES.replace("    s.grow(1.0)\n", "    s.$\n");
    let place = client.open("a.theta", &half);
    assert_eq!(client.labels(place), ["area", "grow", "side"]);
    let place = client.open("a.theta", "main ()\n  \"text\".$\nend main\n");
    assert!(client.labels(place).contains(&"starts_with".to_owned()));
    let place = client.open("a.theta", "f (a: array[string])\n  a[1].le$\nend f\n");
    assert!(client.labels(place).contains(&"length".to_owned()));
    let place = client.open("a.theta", &SHAPES.replace("    s.grow(1.0)\n", "    $\n"));
    let labels = client.labels(place);
    for label in
        ["s", "side", "square", "Square", "Shape", "print", "while", "if …", "end square", "end shapes"]
    {
        assert!(labels.contains(&label.to_owned()), "{label} is not in {labels:?}");
    }
    assert!(!labels.contains(&"by".to_owned()), "out of scope");
    let place = client.open("a.theta", "main ()\n  % Comments are left alone: $\nend main\n");
    assert_eq!(client.labels(place), [""; 0]);
}

#[test]
fn documents_are_formatted() {
    let mut client = Client::new();
    let mut format = |text: &str| {
        let place = client.open("a.theta", text);
        let params = json!({ "textDocument": place["textDocument"], "options": { "tabSize": 8, "insertSpaces": false } });
        client.request("textDocument/formatting", params).unwrap()
    };
    let edits = format("f( )\nreturn\nend f");
    assert_eq!(edits[0]["newText"], "f ()\n  return\nend f\n");
    assert_eq!(edits[0]["range"]["end"], json!({ "line": 2, "character": 5 }));
    assert_eq!(format("f ()\n  return\nend f\n"), json!([]));
    assert_eq!(format("f ("), Value::Null, "what does not parse stays as it is");
}

#[test]
fn outlines() {
    let mut client = Client::new();
    let place = client.open("a.theta", SHAPES);
    let symbols = client
        .request("textDocument/documentSymbol", json!({ "textDocument": place["textDocument"] }))
        .unwrap();
    fn names(symbols: &Value) -> Vec<String> {
        let children = |symbol: &Value| {
            names(&symbol["children"]).into_iter().map(|name| format!("  {name}")).collect::<Vec<_>>()
        };
        let each = symbols.as_array().unwrap().iter();
        each.flat_map(|s| [vec![s["name"].as_str().unwrap().to_owned()], children(s)].concat()).collect()
    }
    assert_eq!(
        names(&symbols),
        ["Shape", "  area", "shapes", "  Square", "    side", "    area", "    grow", "  square", "main"]
    );
    let found = client.request("workspace/symbol", json!({ "query": "SQU" })).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
}

#[test]
fn columns_count_as_was_agreed() {
    let text = "main ()\n  print(\"é𝄞\" || tex$t)\nend main\n";
    for (offered, chosen, column) in
        [(json!(["utf-16"]), "utf-16", 18), (json!(["utf-32", "utf-8"]), "utf-8", 21)]
    {
        let (mut client, answer) = Client::with(json!({ "general": { "positionEncodings": offered } }));
        assert_eq!(answer["capabilities"]["positionEncoding"], chosen);
        client.open("a.theta", text);
        client.mistakes("a.theta");
        let start = client.diagnostics[&client.uri("a.theta")][0]["range"]["start"]["character"].clone();
        assert_eq!(start, column - 1, "{chosen}");
    }
}

#[test]
fn the_order_of_a_life_is_kept() {
    let mut client = Client::start();
    let early = client.request("textDocument/hover", json!({})).unwrap_err();
    assert_eq!(early["code"], -32002);
    client.request("initialize", json!({ "capabilities": {} })).unwrap();
    assert_eq!(client.request("initialize", json!({ "capabilities": {} })).unwrap_err()["code"], -32600);
    assert_eq!(client.request("textDocument/nothing", json!({})).unwrap_err()["code"], -32601);
    assert_eq!(client.request("textDocument/hover", json!({ "position": 1 })).unwrap_err()["code"], -32602);
    client.request("shutdown", Value::Null).unwrap();
    assert_eq!(client.request("textDocument/hover", json!({})).unwrap_err()["code"], -32600);
    client.notify("exit", Value::Null);
    assert_eq!(client.child.wait().unwrap().code(), Some(0));

    let mut rude = Client::new();
    rude.notify("exit", Value::Null);
    assert_eq!(rude.child.wait().unwrap().code(), Some(1));
    let mut gone = Client::new();
    drop(gone.child.stdin.take());
    assert_eq!(gone.child.wait().unwrap().code(), Some(1));
}

#[test]
fn malformed_messages_end_nothing() {
    let mut client = Client::new();
    for (bytes, code) in [
        (&b"Content-Length: 4\r\n\r\n{no}"[..], -32700),
        (b"Content-Length: many\r\n", -32700),
        (b"who are you\r\n", -32700),
        (b"Content-Length: 2\r\n\r\n[]", -32600),
        (b"Content-Length: 8\r\n\r\n{\"id\":5}", -32600),
    ] {
        client.send_bytes(bytes);
        let answer = client.answer();
        assert_eq!(answer["error"]["code"], code, "{}", String::from_utf8_lossy(bytes));
    }
    client.notify("textDocument/didOpen", json!({ "nothing": "of use" }));
    client.notify("$/setTrace", json!({ "value": "off" }));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn requests_are_answered_once_whether_taken_back_or_not() {
    let mut client = Client::new();
    let symbols = |id: u64| json!({ "id": id, "method": "workspace/symbol", "params": { "query": "" } });
    client.send(symbols(1001));
    client.send(symbols(1002));
    client.notify("$/cancelRequest", json!({ "id": 1002 }));
    client.notify("$/cancelRequest", json!({ "id": 77 }));
    assert_eq!(client.answer()["id"], 1001);
    let second = client.answer();
    assert_eq!(second["id"], 1002);
    assert!(second.get("result").is_some() || second["error"]["code"] == -32800, "{second}");
    assert_eq!(client.end(), Some(0));
}

/// Every cut of a program, and a question about every kind of thing at the cut.
#[test]
fn half_written_programs_are_survived() {
    let mut client = Client::new();
    let whole = std::fs::read_to_string(example("lists")).unwrap();
    let definition = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tools/tests/definition/10-13-7-bounded-buffer-by-selection.theta");
    let actors = std::fs::read_to_string(definition).unwrap();
    for text in [&whole, &actors] {
        for at in (0..text.len()).step_by(41).filter(|at| text.is_char_boundary(*at)) {
            let mut place = client.open("a.theta", &format!("{}$", &text[..at]));
            place["context"] = json!({ "includeDeclaration": true, "triggerKind": 1 });
            place["newName"] = json!("fresh");
            place["options"] = json!({ "tabSize": 2, "insertSpaces": true });
            for method in ["hover", "definition", "references", "completion", "formatting", "documentSymbol"]
            {
                client.request(&format!("textDocument/{method}"), place.clone()).unwrap();
            }
            let _ = client.request("textDocument/rename", place);
        }
    }
    assert_eq!(client.end(), Some(0));
}
