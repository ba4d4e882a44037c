//! Conversations in the text form, at random ([`repeat`]). The body is that of the target
//! `text_form` in `fuzz/`.

#[path = "support/lines.rs"]
mod lines;
#[path = "../../session/tests/support/mod.rs"]
mod session;

use lines::text_form;
use session::random::{Random, each_of_corpus, repeat};

/// Words of which lines are made.
const WORDS: &[&str] = &[
    "$s",
    "$i",
    "$n",
    "$x",
    ":=",
    "lookup",
    "shelf",
    ": Shelf",
    ".put(",
    ".get(",
    ".items()",
    ".numbered()",
    ".touch()",
    ".name()",
    ".add(",
    "join(",
    "half(",
    "new_shelf()",
    "\"one\"",
    "\"x\\n",
    "1",
    "-7",
    "2.5",
    "'c'",
    "nil",
    "true",
    ")",
    ",",
    "(",
    "?",
    "flush",
    "free",
    "while",
    "do",
    "if",
    "then",
    "else",
    "foreach",
    "in",
    "except",
    "when not_found",
    "when worn($x: int)",
    "others",
    "others $x",
    "procedure p",
    "($n: int)",
    "returns int",
    "return",
    "p(",
    "end",
    "break",
    "continue",
    "cell int",
    ".put(3)",
    "commit",
    "abort",
    "transaction",
    "transaction 3",
    "history",
    "clear",
    "describe",
    "Item",
    "help",
    "bye",
    "@1",
    "@2",
    "h1",
    "h2",
    "send",
    "#",
    "\n",
    "\n",
    "\n",
    "\n",
    "\r\n",
];

#[test]
fn a_conversation_is_answered_however_it_is_cut() {
    let said = text_form(
        b"$s := lookup shelf: Shelf\nforeach $i in $s.items() do\n  except\n  $i.touch()\n  when worn\n  end\nend\n\
          ? $s.get(2).name()\n$s.get(9).touch()\nhistory\nclear\nprocedure p ($n: int) returns int\nreturn $n.add(1)\n\
          end\n? p(4)\nbye\n",
    );
    assert!(said.contains("= \"three\"") && said.contains("not_found") && said.ends_with("bye\n"), "{said}");
    assert!(said.contains("= 5\n"), "{said}");
}

#[test]
fn words_at_random() {
    repeat("words_at_random", |seed| {
        let mut random = Random::new(seed);
        let text: Vec<&str> = (0..random.below(120)).map(|_| random.pick(WORDS)).collect();
        text_form(text.join(" ").as_bytes());
    });
}

#[test]
fn conversations_of_the_corpus() {
    each_of_corpus("text_form", |data| drop(text_form(data)));
}
