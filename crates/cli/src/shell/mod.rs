//! `bifrost shell`: a person, or a script, in a session.
//!
//! `wire::text`, which knows nothing of terminals, translates lines; [`complete`] proposes words.
//! Commands are kept back until a line asks for an answer, so the commands between two flushes
//! cross at once.
//!
//! Read `Conversation` first: it owns the session and the commands that were not sent. [`run`]
//! opens it, and takes lines from `--command`, from a person at a terminal, or from a script at the
//! standard input. A person is asked before changes are dropped that were not committed.

mod complete;
mod live;

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use bifrost_wire::interface::Numbering;
use bifrost_wire::text::{Due, LineError, Translator};
use bifrost_wire::{ExceptionKind, Outcome as Sent, Reply, Value, encode, op};
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
/// Calls are collected until a line asks for an answer (`? $x` or `flush`) and then cross together.
/// `list $db.users()` shows the values of an iterator. `help` shows the commands, `describe` the
/// interface of the server, Tab completes names, Ctrl-D ends. If there are changes that are not
/// committed, the shell asks whether to commit or drop them.
///
/// `live ? $x` and `live list $db.users()` print their answer again whenever it has changed, until
/// Ctrl-C; `live 3 ? $x` prints three answers.
///
/// With a script on the standard input, or commands as arguments, there is no prompt; the first
/// line that is no command ends it with status 1. Exceptions of calls are answers and do not.
/// Changes that were not committed at the end are lost, and the shell prints a note.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost shell
  bifrost shell unix:///tmp/db
  BIFROST_TOKEN=secret bifrost shell tcp://db.example.com:7447
  bifrost shell 'trader://trader.example.com/DataBase?region=eu'
  echo '? lookup database' | bifrost shell
  bifrost shell -c '$db := lookup database: DataBase' -c '? $db.fetch(\"bob\").visits()' --json

A conversation:
  > $db := lookup database: DataBase
  > $bob := $db.fetch(\"bob\")
  > $bob.touch()
  > ? $bob.visits()
  @4 = 1")]
pub struct Args {
    /// The server, or a service at a trader [default: the server on this machine at the default
    /// address]
    #[arg(value_name = "URL", env = "BIFROST_URL")]
    url: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Run this command and end; several commands are run one after the other
    #[arg(short, long, value_name = "COMMAND")]
    command: Vec<String>,
    /// Print answers in JSON, an object a line
    #[arg(long)]
    json: bool,
    /// Print the lines of a script before their answers
    #[arg(long, conflicts_with = "json")]
    echo: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let mut client = args.connect.connect(args.url.as_deref())?;
    let numbering = Arc::new(client.describe()?);
    if let Some(imported) = client.imported() {
        let (name, service) = (imported.name(), &imported.offer().service);
        eprintln!("`{}`: {service} at {}", name.escape_debug(), imported.address());
    }
    let mut conversation = Conversation::new(client, numbering.clone());
    if args.json {
        conversation.translator.set_json();
    }
    if !args.command.is_empty() {
        let lines = args.command.iter().flat_map(|command| command.lines());
        script(conversation, lines.map(|line| Ok(line.to_owned())), args)
    } else if io::stdin().is_terminal() {
        interactive(conversation, &numbering)
    } else {
        script(conversation, io::stdin().lock().lines(), args)
    }
}

/// A session and the lines that have been said in it.
struct Conversation {
    client: Client,
    translator: Translator,
    /// Commands that have not been sent.
    kept: Vec<u8>,
    /// True if something was said that no answer has come to.
    pending: bool,
    ended: bool,
    /// True if the last batch has ended because its transaction is gone.
    overtaken: bool,
}

impl Conversation {
    fn new(client: Client, numbering: Arc<Numbering>) -> Conversation {
        let mut translator = Translator::new(numbering);
        translator.set_limits(client.limits.iter().copied());
        Conversation { client, translator, kept: Vec::new(), pending: false, ended: false, overtaken: false }
    }

    /// Says a line, and appends the answer if there is one.
    ///
    /// # Errors
    /// The session has ended. The inner result: the line is no command.
    fn say(&mut self, line: &str, answer: &mut String) -> Result<Result<(), LineError>, Failure> {
        match live::Live::read(line) {
            Some(live) => self.say_live(&live, answer),
            None => self.say_once(line, answer),
        }
    }

    /// Says a line that is a command of the wire.
    fn say_once(&mut self, line: &str, answer: &mut String) -> Result<Result<(), LineError>, Failure> {
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
            self.client.wait_for(&self.kept);
            self.client.send(&self.kept)?;
            self.kept.clear();
        }
        let mut due = due;
        while due == Due::Reply {
            let (translator, more) = (&mut self.translator, &mut self.kept);
            (self.ended, self.overtaken, due) = self.client.receive(|reply| {
                let due = translator.reply(reply, more, answer);
                Some((matches!(reply, Reply::Farewell), live::is_overtaken(reply), due))
            })?;
            self.pending = false;
            if due == Due::Reply {
                // Send the commands: the answer shows their results.
                self.client.send(&self.kept)?;
                self.kept.clear();
            }
        }
        Ok(Ok(()))
    }

    /// Returns true if the transaction under way has changed something. Commands said before are
    /// run, and an open structure is dropped.
    ///
    /// # Errors
    /// The session has ended.
    fn has_changes(&mut self) -> Result<bool, Failure> {
        let mut batch = std::mem::take(&mut self.kept);
        if self.translator.depth() > 0 || self.pending {
            encode::flush(&mut batch, [], true);
            self.client.send(&batch)?;
            self.client.receive(|reply| matches!(reply, Reply::Flushed(_)).then_some(()))?;
            self.pending = false;
            batch.clear();
        }
        // A batch that is a transaction begins only where nothing was changed, and no exception is
        // left that nobody has looked at.
        encode::history(&mut batch, false);
        encode::transaction(&mut batch, 1, None);
        encode::flush(&mut batch, [1], true);
        self.client.send(&batch)?;
        self.client.receive(|reply| matches!(reply, Reply::Exceptions(_)).then_some(()))?;
        self.client.receive(|reply| match reply {
            Reply::Flushed(flushed) => {
                Some(!matches!(flushed.outcomes().next(), Some(Sent::Value(Value::Nil))))
            }
            _ => None,
        })
    }

    /// Commits, or returns the reason why not.
    ///
    /// # Errors
    /// The session has ended.
    fn commit(&mut self) -> Result<Result<(), String>, Failure> {
        let mut batch = Vec::new();
        encode::plain(&mut batch, op::COMMIT);
        encode::flush(&mut batch, [1], true);
        self.client.send(&batch)?;
        self.client.receive(|reply| match reply {
            Reply::Flushed(flushed) => {
                Some(match flushed.exceptions().next().map(|exception| exception.kind) {
                    Some(ExceptionKind::Refused { text, .. }) => Err(text.to_owned()),
                    _ => Ok(()),
                })
            }
            _ => None,
        })
    }
}

/// Says lines one after the other.
fn script(
    mut conversation: Conversation,
    lines: impl Iterator<Item = io::Result<String>>,
    args: &Args,
) -> Outcome {
    for (number, line) in lines.enumerate() {
        let line = line?;
        let echo = args.echo && args.command.is_empty();
        let mut answer = if echo { format!("{}\n", format!("> {line}").trim_end()) } else { String::new() };
        if ends(&line) && conversation.translator.depth() == 0 {
            finish(&mut conversation)?;
        }
        let said = conversation.say(&line, &mut answer);
        print(&answer)?;
        if let Err(bad) = said? {
            if args.json {
                print(&conversation.translator.bad_line(number as u64 + 1, &bad))?;
            }
            return Err(Failure::new(Exit::Failed, format!("line {}, {bad}", number + 1))
                .help("`help` shows the commands, `describe` the types and routines"));
        }
        if conversation.ended {
            return Ok(());
        }
    }
    if conversation.translator.depth() > 0 {
        return Err(Failure::new(Exit::Failed, "the script ends inside a structure").help("add `end`"));
    }
    finish(&mut conversation)?;
    conversation.client.close()
}

/// True if a line ends the session.
fn ends(line: &str) -> bool {
    line.split('#').next().unwrap_or_default().trim() == "bye"
}

/// Runs the last commands of a script, and tells if it leaves changes behind.
fn finish(conversation: &mut Conversation) -> Result<(), Failure> {
    if conversation.pending {
        let mut answer = String::new();
        // A flush is always a command where no structure is open.
        let _ = conversation.say("flush", &mut answer)?;
        print(&answer)?;
    }
    if conversation.has_changes()? {
        eprintln!("note: the changes that were not committed are lost; use `commit`");
    }
    Ok(())
}

type LineEditor = Editor<Words, FileHistory>;

fn interactive(mut conversation: Conversation, numbering: &Numbering) -> Outcome {
    let client = &conversation.client;
    let bold = Style::new().bold();
    anstream::println!("{bold}{}{bold:#} at {}, session {}", client.server, client.address(), client.session);
    anstream::println!(
        "`help` shows the commands, `describe` the types and routines, Tab completes, Ctrl-D ends"
    );
    let mut editor = editor(Words::new(numbering))?;
    let history = history_file();
    if let Some(file) = &history {
        // The first time there is none.
        let _ = editor.load_history(file);
    }
    let outcome = converse(&mut conversation, &mut editor);
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
            Err(ReadlineError::Eof) if leaves(conversation, editor)? => break,
            Err(ReadlineError::Eof) => continue,
            Err(other) => return Err(editor_failed(other)),
        };
        if ends(&line) && !leaves(conversation, editor)? {
            continue;
        }
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
    if conversation.ended {
        return Ok(());
    }
    let mut answer = String::new();
    let said = conversation.say("bye", &mut answer)?;
    said.map_err(|bad| Failure::new(Exit::Failed, bad))
}

/// Decides about leaving: asks a person whose transaction has changes that are not committed.
fn leaves(conversation: &mut Conversation, editor: &mut LineEditor) -> Result<bool, Failure> {
    if conversation.translator.depth() == 0 && conversation.pending {
        let mut answer = String::new();
        let _ = conversation.say("flush", &mut answer)?;
        print(&answer)?;
    }
    if !conversation.has_changes()? {
        return Ok(true);
    }
    if conversation.translator.depth() > 0 {
        conversation.translator.abandon();
    }
    anstream::println!("some changes are not committed");
    loop {
        let line = match editor.readline("commit them, drop them, or stay? [c/d/s] ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => return Ok(false),
            Err(ReadlineError::Eof) => return Ok(true),
            Err(other) => return Err(editor_failed(other)),
        };
        match line.trim() {
            "c" | "commit" => {
                return Ok(match conversation.commit()? {
                    Ok(()) => true,
                    Err(why) => {
                        error(&why);
                        false
                    }
                });
            }
            "d" | "drop" => return Ok(true),
            "s" | "stay" => return Ok(false),
            _ => {}
        }
    }
}

/// Prints the fault of the line above, under its place.
fn point_at(bad: &LineError, prompt: usize) {
    let red = AnsiColor::Red.on_default().bold();
    let indent = " ".repeat(prompt + bad.column.saturating_sub(1));
    anstream::eprintln!("{indent}{red}^{red:#}");
    error(&bad.text);
}

/// Returns the file of lines of earlier conversations, if there is a place for it.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("bifrost/shell-history"))
}
