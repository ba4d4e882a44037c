//! The conversations of the documents, held over bare sockets.
//!
//! A conversation is the script of a `bifrost shell` or an `nc` in a document, and the transcript
//! in `docs/spec/wire.md`. Each is held over a unix and a TCP socket, whole, a line at a time and a
//! byte at a time; the answers are those that the document shows. `BIFROST_UPDATE=1 cargo test -p
//! bifrost-cli --test conversations` writes the transcript.

mod document;
mod player;
mod support;

use std::path::Path;

use document::{Block, Document, blocks};
use player::{Cut, Player, converse};
use support::{EXAMPLES, Server, example, example_root, examples};

/// Further arguments of the server of a document.
const BARE: &str = " --listen unix://FOLDER/bare --listen tcp://127.0.0.1:0 --anonymous-loopback";
/// The one among them that lets clients in without a token.
const ANONYMOUS: &str = " --anonymous-loopback";

/// The script of a shell as a conversation over a socket: with its beginning, its end, and the
/// `flush` with which the shell ends a batch.
fn as_conversation(script: &str) -> String {
    let script = script.strip_suffix("bye\n").unwrap_or(script);
    let asked = script.lines().last().is_some_and(|line| line.starts_with('?') || line.starts_with("flush"));
    format!("hello 2\n{script}{}bye\n", if asked { "" } else { "flush\n" })
}

/// The answers without the words of beginning and end.
fn answers(said: &str) -> &str {
    let (welcome, rest) = said.split_once('\n').unwrap_or((said, ""));
    assert!(welcome.starts_with("welcome 2 bifrost "), "{said}");
    rest.strip_suffix("bye\n").unwrap_or_else(|| panic!("no end of\n{said}"))
}

/// Lines without those that a shell was told to repeat.
fn without_echo(shown: &str) -> String {
    shown.split_inclusive('\n').filter(|line| !line.starts_with('>')).collect()
}

/// Holds the conversations of a document at its servers; returns how many there are.
fn hold(path: &str, transport: &str, cut: Cut) -> usize {
    let document = Document::read(path);
    let mut player = Player::new();
    let mut url = String::new();
    let blocks = blocks(&document.text);
    let mut held = 0;
    for (i, block) in blocks.iter().enumerate() {
        let here = |text: &str| {
            let folder = player.folder.display().to_string();
            text.replace("/tmp/bifrost-tour", &folder).replace("FOLDER", &folder)
        };
        let commands = here(&block.text);
        let shown = || blocks.get(i + 1).filter(|b| b.info == "text" && b.follows(block));
        if let Some(name) = block.info.split(' ').find_map(|word| word.strip_prefix("file=")) {
            player.write(name, &block.text);
        } else if block.info == "sh background" && commands.starts_with("bifrost serve ") {
            let bare = here(BARE);
            // Roles and clients without one exclude each other.
            let bare = if has_roles(&document) { bare.replace(ANONYMOUS, "") } else { bare };
            let urls = player.start(&format!("{}{bare}", commands.trim()));
            url = urls.into_iter().rfind(|url| url.starts_with(transport)).expect("it listens there");
        } else if block.info == "sh socket" {
            let said = converse(url.clone(), player::lines(&commands), cut);
            let shown = shown().expect("a conversation has answers");
            assert_eq!(answers(&said), answers(&shown.text), "{path}, {transport}, {cut:?}");
            held += 1;
        } else if is_shell(block) {
            let script = player::lines(&commands);
            let said = converse(url.clone(), &as_conversation(script), cut);
            let shown = without_echo(&shown().expect("a conversation has answers").text);
            assert_eq!(answers(&said), shown, "{path}, {transport}, {cut:?}:\n{script}");
            held += 1;
        } else if block.info == "sh tested" && commands.contains("cat > ") {
            player.run(&commands);
        }
    }
    held
}

/// True if the clients of a document have roles, by the user of their sockets.
fn has_roles(document: &Document) -> bool {
    document.text.contains("\n[roles.")
}

fn is_shell(block: &Block) -> bool {
    block.info == "sh tested" && block.text.starts_with("bifrost shell") && block.text.contains(" <<'EOF'\n")
}

fn hold_all(path: &str) {
    let roles = has_roles(&Document::read(path));
    for transport in ["unix://", "tcp://"].into_iter().take(if roles { 1 } else { 2 }) {
        for cut in Cut::ALL {
            assert!(hold(path, transport, cut) > 0, "{path} has no conversation");
        }
    }
}

#[test]
fn those_of_the_readme() {
    hold_all("README.md");
}

#[test]
fn those_of_the_book() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book");
    let mut found = Vec::new();
    for folder in ["", "tutorial", "language"] {
        for entry in std::fs::read_dir(book.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("docs/book/{folder}/{name}");
            let is_page = name.ends_with(".md");
            if is_page && blocks(&Document::read(&path).text).iter().any(is_shell) {
                found.push(path);
            }
        }
    }
    assert!(found.len() >= 4, "{found:?}");
    found.iter().for_each(|path| hold_all(path));
}

/// The client's lines of the transcript.
fn client_lines(transcript: &str) -> String {
    let lines = transcript.lines().filter_map(|line| line.strip_prefix("> "));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Puts each answer behind the line that asked for it, as a person at a terminal sees them.
fn interleave(url: &str, lines: &str) -> String {
    let mut shown = String::new();
    let mut answers = String::new();
    for line in lines.split_inclusive('\n') {
        // What the conversation has answered up to here, and what up to the line before.
        let upto = &lines[..line.as_ptr() as usize - lines.as_ptr() as usize + line.len()];
        let ends = upto.ends_with("bye\n");
        let open = upto.lines().map(|l| match l.split_whitespace().next() {
            Some("foreach" | "while" | "if" | "except" | "procedure") => 1,
            Some("end") => -1,
            _ => 0,
        });
        shown += &format!("> {line}");
        if open.sum::<i32>() > 0 {
            continue;
        }
        let script = if ends { upto.to_owned() } else { format!("{upto}bye\n") };
        let said = converse(url.to_owned(), &script, Cut::Whole);
        let said = if ends { said } else { said.strip_suffix("bye\n").expect("an end").to_owned() };
        let said = said.replacen(session_of(&said), "session 1", 1);
        shown += said.strip_prefix(&answers).unwrap_or_else(|| panic!("{said}\ndoes not go on\n{answers}"));
        answers = said;
    }
    shown
}

/// The number that a session has in its first answer.
fn session_of(said: &str) -> &str {
    let first = said.lines().next().unwrap_or_default();
    &first[first.find("session ").unwrap_or_else(|| panic!("no number in {said}"))..]
}

#[test]
fn that_of_the_specification() {
    let folder = "--listen=tcp://127.0.0.1:0";
    let server = Server::start("database", &[folder, "--anonymous-loopback"]);
    let mut document = Document::read("docs/spec/wire.md");
    let mark = document.text[..document.text.find("<!-- transcript -->").expect("a mark")].lines().count();
    let all = blocks(&document.text);
    let block = all.iter().find(|block| block.lines.start > mark).expect("a transcript");
    let lines = client_lines(&block.text);
    let shown = interleave(&server.urls[0], &lines);
    document.compare(block, &lines, shown);
    if let Some(wrong) = document.finish() {
        panic!("{wrong}\nBIFROST_UPDATE=1 cargo test -p bifrost-cli --test conversations");
    }
    let document = Document::read("docs/spec/wire.md");
    let all = blocks(&document.text);
    let block = all.iter().find(|block| block.lines.start > mark).expect("a transcript");
    for url in &server.urls {
        for cut in Cut::ALL {
            let said = converse(url.clone(), &lines, cut);
            assert_eq!(answers(&said), answers(&without_echo(&block.text)), "{url}, {cut:?}");
        }
    }
}

#[test]
fn those_of_the_examples() {
    let ways = ["unix://", "tcp://"].into_iter().flat_map(|transport| Cut::ALL.map(|cut| (transport, cut)));
    for (name, (transport, cut)) in EXAMPLES.iter().zip(ways.cycle()) {
        let root = example_root(name);
        let mut arguments: Vec<&str> = root.iter().map(String::as_str).collect();
        arguments.extend(["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"]);
        let server = Server::serve(&example(name), &arguments);
        let url = server.urls.iter().find(|url| url.starts_with(transport)).expect("it listens there");
        let folder = examples().join(name);
        let script = std::fs::read_to_string(folder.join("client.bifrost")).unwrap();
        let shown = without_echo(&std::fs::read_to_string(folder.join("transcript.txt")).unwrap());
        let said = converse(url.clone(), &as_conversation(&script), cut);
        let shown = shown.strip_suffix("bye\n").unwrap_or(&shown);
        assert_eq!(answers(&said), shown, "{name}, {transport}, {cut:?}");
    }
}
