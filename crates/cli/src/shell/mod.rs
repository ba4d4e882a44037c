//! `bifrost shell`: a person, or a script, in a session.
//!
//! What a line means is up to `wire::text`, which knows nothing of terminals; [`complete`] proposes words.
//! Commands are kept back until a line asks for an answer, so what a person says between two
//! flushes crosses at once.

mod complete;

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use bifrost_wire::Reply;
use bifrost_wire::interface::Numbering;
use bifrost_wire::text::{Due, LineError, Translator};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::client::{Client, ConnectArgs};
use crate::failure::{Exit, Failure, Outcome, error, print};
use complete::Words;

/// Commands are sent without being asked for when there are so many bytes of them.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Talk to a server
///
/// Calls are collected until a line asks for an answer (`? $x` or `flush`) and then cross together. `help`
/// shows the commands, `describe` what the server has, Tab completes names, Ctrl-D ends.
///
/// With a script on the standard input there is no prompt; the first line that is no command ends it with
/// status 1. Exceptions of calls are answers and do not.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost shell
  bifrost shell unix:///tmp/db
  BIFROST_TOKEN=secret bifrost shell tcp://db.example.com:7447
  echo '? lookup database' | bifrost shell

A conversation:
  > $db := lookup database: DataBase
  > $bob := $db.fetch(\"bob\")
  > $bob.touch()
  > ? $bob.visits()
  @4 = 1")]
pub struct Args {
    /// The server [default: the one on this machine that was not told where to listen]
    #[arg(value_name = "URL", env = "BIFROST_URL")]
    url: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Print the lines of a script before their answers
    #[arg(long)]
    echo: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let mut client = args.connect.connect(args.url.as_deref())?;
    let numbering = Arc::new(client.describe()?);
    if io::stdin().is_terminal() {
        interactive(client, numbering)
    } else {
        script(Conversation::new(client, numbering), args.echo)
    }
}

/// A session and what has been said in it.
struct Conversation {
    client: Client,
    translator: Translator,
    /// Commands that have not been sent.
    kept: Vec<u8>,
    /// Whether something was said that no answer has come to.
    pending: bool,
    ended: bool,
}

impl Conversation {
    fn new(client: Client, numbering: Arc<Numbering>) -> Conversation {
        let translator = Translator::new(numbering);
        Conversation { client, translator, kept: Vec::new(), pending: false, ended: false }
    }

    /// Says a line, and appends the answer if there is one.
    ///
    /// # Errors
    /// The session has ended. The inner result: the line is no command.
    fn say(&mut self, line: &str, answer: &mut String) -> Result<Result<(), LineError>, Failure> {
        let before = self.kept.len();
        let due = match self.translator.line(line, &mut self.kept, answer) {
            Ok(due) => due,
            Err(bad) => {
                self.pending |= self.kept.len() > before;
                return Ok(Err(bad));
            }
        };
        self.pending |= self.kept.len() > before;
        if due == Due::Reply || self.kept.len() > KEPT_BYTES_MAX {
            self.client.send(&self.kept)?;
            self.kept.clear();
        }
        if due == Due::Reply {
            let translator = &mut self.translator;
            self.ended = self.client.receive(|reply| {
                translator.reply(reply, answer);
                Some(matches!(reply, Reply::Farewell))
            })?;
            self.pending = false;
        }
        Ok(Ok(()))
    }
}

/// Says the lines of the standard input.
fn script(mut conversation: Conversation, echo: bool) -> Outcome {
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let line = line?;
        let mut answer = if echo { format!("{}\n", format!("> {line}").trim_end()) } else { String::new() };
        let said = conversation.say(&line, &mut answer);
        print(&answer)?;
        if let Err(bad) = said? {
            return Err(Failure::new(Exit::Failed, format!("line {}, {bad}", number + 1))
                .help("`help` shows the commands, `describe` what the server has"));
        }
        if conversation.ended {
            return Ok(());
        }
    }
    if conversation.translator.depth() > 0 {
        return Err(Failure::new(Exit::Failed, "the script ends inside a structure").help("add `end`"));
    }
    if conversation.pending {
        let mut answer = String::new();
        // A flush is always a command where no structure is open.
        let _ = conversation.say("flush", &mut answer)?;
        print(&answer)?;
    }
    conversation.client.close()
}

type LineEditor = Editor<Words, FileHistory>;

fn interactive(client: Client, numbering: Arc<Numbering>) -> Outcome {
    let bold = Style::new().bold();
    anstream::println!("{bold}{}{bold:#} at {}, session {}", client.server, client.address(), client.session);
    anstream::println!("`help` shows the commands, `describe` what there is, Tab completes, Ctrl-D ends");
    let mut editor = editor(Words::new(&numbering))?;
    let history = history_file();
    if let Some(file) = &history {
        // The first time there is none.
        let _ = editor.load_history(file);
    }
    let outcome = converse(&mut Conversation::new(client, numbering), &mut editor);
    if let Some(file) = &history
        && file.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok())
        && let Err(e) = editor.save_history(file)
    {
        tracing::warn!(error = %e, "history.lost");
    }
    outcome
}

fn editor(words: Words) -> Result<LineEditor, Failure> {
    let config = Config::builder()
        .history_ignore_space(true)
        .max_history_size(10_000)
        .map_err(editor_failed)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor = LineEditor::with_config(config).map_err(editor_failed)?;
    editor.set_helper(Some(words));
    Ok(editor)
}

fn editor_failed(e: ReadlineError) -> Failure {
    Failure::new(Exit::Failed, format!("the terminal cannot be used: {e}"))
        .help("a script on the standard input needs no terminal")
}

fn converse(conversation: &mut Conversation, editor: &mut LineEditor) -> Outcome {
    while !conversation.ended {
        let depth = conversation.translator.depth();
        let prompt = format!("{}> ", "  ".repeat(depth));
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(other) => return Err(editor_failed(other)),
        };
        if !line.trim().is_empty() {
            editor.add_history_entry(line.as_str()).map_err(editor_failed)?;
        }
        let mut answer = String::new();
        match conversation.say(&line, &mut answer)? {
            Ok(()) => print(&answer)?,
            Err(bad) => point_at(&bad, prompt.len()),
        }
        if let Some(words) = editor.helper_mut() {
            words.follow(&conversation.translator, &line);
        }
    }
    if conversation.ended || conversation.translator.depth() > 0 {
        return Ok(());
    }
    let mut answer = String::new();
    let said = conversation.say("bye", &mut answer)?;
    said.map_err(|bad| Failure::new(Exit::Failed, bad))
}

/// Says what is wrong with the line above, under the place.
fn point_at(bad: &LineError, prompt: usize) {
    let red = AnsiColor::Red.on_default().bold();
    let indent = " ".repeat(prompt + bad.column.saturating_sub(1));
    anstream::eprintln!("{indent}{red}^{red:#}");
    error(&bad.text);
}

/// Where lines of earlier conversations are, if there is a place for them.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("bifrost/shell-history"))
}
