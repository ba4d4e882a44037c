//! `bifrost check`: the faults of sources, or the code that they compile to.

use std::path::PathBuf;

use bifrost_cache::{Schema, SchemaError};
use bifrost_engine::{Engine, Mode, Run};
use bifrost_ir::text::{print_func, print_program};
use bifrost_ir::{Func, FuncId, Program, Site, Var, requests};
use bifrost_native::Registry;
use bifrost_server::program;
use bifrost_session::Tables;
use bifrost_theta::{Colour, Severity, Sources, compile, render_all, to_json};
use clap::ValueEnum;
use serde_json::json;

use crate::common::store::open;
use crate::failure::{Exit, Failure, Outcome, print};

/// Check Theta sources
///
/// Reports mistakes with the source line and advice for each, and warnings if there are no
/// mistakes. Exit status 1 if there are errors, or warnings that are denied.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost check database.theta
  bifrost check --deny warnings *.theta     exit status 1 for warnings too, for continuous integration
  bifrost check --json src/*.theta          one JSON object a line, for editors and scripts
  bifrost check --emit interface db.theta   the interface that clients of a server with this file see
  bifrost check --store bank.store bank.theta   the migrations that stored objects need, ready to paste
  bifrost check --emit regions queens.theta   the requests that run at once, and the methods that wait for them
  bifrost check --emit asm --only main db.theta   the machine's instructions of one routine")]
pub struct Args {
    /// The files; their imports are found by themselves
    #[arg(required = true, value_name = "FILE.theta")]
    files: Vec<PathBuf>,
    /// Write mistakes to the standard output, one JSON object a line: code, severity, message,
    /// file, line, column, end_line, end_column, and help if there is one; lines and columns count
    /// from 1, columns in characters
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if there are such diagnostics
    #[arg(long, value_name = "CLASS")]
    deny: Option<Deny>,
    /// Write the result of compiling, in one of these forms, if there are no errors
    #[arg(long, value_name = "WHAT")]
    emit: Option<Emit>,
    /// Write only routines and methods of this name: `swap`, `Elem.touch`
    #[arg(long, value_name = "NAME", requires = "emit")]
    only: Option<String>,
    /// Where imports start [default: the folder of the first file]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Compare the classes with those of the objects in a store, a folder that no server has open
    /// or the URL of a database, and write every migration that is missing
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
}

/// Diagnostics that count as errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Deny {
    /// All codes that begin with W
    Warnings,
}

/// The forms of a compiled program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Emit {
    /// The checked program in the text form of the intermediate representation
    Ir,
    /// The code generator's form of each routine and method
    Clif,
    /// The machine's instructions of each routine and method
    Asm,
    /// Which requests of each method of an actor run at once, and where their replies are awaited
    Regions,
    /// The interface description that clients and `bifrost veneer` work from, as JSON
    Interface,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Outcome {
    let (sources, mut options) = program::read(&args.files, args.root.as_deref(), registry)?;
    options.warnings = true;
    let compiled = compile(&sources, &options);
    if args.json {
        let lines: Vec<String> = compiled.diagnostics.iter().map(|d| to_json(&sources, d) + "\n").collect();
        print(&lines.concat())?;
    } else {
        anstream::eprint!("{}", render_all(&sources, &compiled.diagnostics, Colour::Ansi));
    }
    let errors = compiled.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    let warnings = compiled.diagnostics.len() - errors;
    let denied = args.deny.is_some() && warnings > 0;
    if !args.json {
        let counts = [(errors, "error"), (warnings, "warning")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let text = counts.map(|(count, what)| counted(count, what)).collect::<Vec<_>>().join(", ");
        match text.is_empty() {
            true => {}
            false if denied => anstream::eprintln!("\n{text} (`--deny warnings`)"),
            false => anstream::eprintln!("\n{text}"),
        }
    }
    let Some(program) = compiled.program.filter(|_| !denied) else {
        return Err(Failure::reported(Exit::Failed));
    };
    if args.emit == Some(Emit::Ir) {
        print(&ir(&program, args.only.as_deref())?)?;
    }
    if args.emit == Some(Emit::Regions) {
        print(&regions(&program, &sources, args.only.as_deref())?)?;
    }
    // Natives are looked up, and the compiler's work is verified, as a server would do it.
    let run = match args.store {
        Some(_) => Run::kept(Mode::Interpreted),
        None => Mode::Interpreted.into(),
    };
    let engine = Engine::with_natives(program, run, registry.natives().clone())?;
    if let Some(store) = &args.store {
        migrations(&engine, store, args.json)?;
    }
    match args.emit {
        Some(Emit::Clif) => print(&code(&engine, args.only.as_deref(), bifrost_engine::Emit::Clif)?)?,
        Some(Emit::Asm) => print(&code(&engine, args.only.as_deref(), bifrost_engine::Emit::Assembly)?)?,
        _ => {}
    }
    if args.emit == Some(Emit::Interface) {
        let interface = Tables::new(engine).numbering().interface();
        let mut text = serde_json::to_string_pretty(interface).expect("strings and numbers always serialise");
        text.push('\n');
        print(&text)?;
    }
    Ok(())
}

/// Writes the migrations that the objects of a store need and the program lacks.
fn migrations(engine: &Engine, store: &str, json: bool) -> Outcome {
    let differences = Schema::differences(engine.image().clone(), open(store)?);
    let mut text = String::new();
    for difference in &differences {
        let migration = difference.migration();
        if json {
            let line = json!({"store": store, "message": difference.to_string(), "migration": migration});
            text += &format!("{line}\n");
        } else if let SchemaError::Changed { name, change, .. } = difference {
            let what = if migration.is_some() { "to place beside" } else { "no migration helps" };
            text += &format!("% {what} `{name}`: {change}\n{}\n", migration.unwrap_or_default());
        }
    }
    print(&text)?;
    match differences.len() {
        0 => Ok(()),
        count => Err(Failure::new(
            Exit::Failed,
            format!("{} of the store changed, and a migration is missing for each", counted(count, "class")),
        )
        .help("paste the text above beside the classes, and complete the bodies")),
    }
}

/// Returns the text form of a program, or of its functions of one name.
fn ir(program: &Program, only: Option<&str>) -> Result<String, Failure> {
    match only {
        None => Ok(print_program(program)),
        Some(_) => chosen(program, only)?.map(|(_, func)| Ok(print_func(program, func))).collect(),
    }
}

/// Returns the regions of all functions that request something, or of those of one name.
fn regions(program: &Program, sources: &Sources, only: Option<&str>) -> Result<String, Failure> {
    let mut out = String::new();
    // Sites are places in a text, and the program does not name the text among several.
    let mut ids = sources.ids();
    let file = ids.next().filter(|_| ids.next().is_none());
    let place = |site: Site| match file {
        Some(file) => sources.line(file, site.0).to_string(),
        None => format!("@{}", site.0),
    };
    for (_, func) in chosen(program, only)?.filter(|(_, func)| func.body.has_request()) {
        let names = |vars: &[Var]| {
            let name = |var: &Var| match &*func.vars[*var].name {
                "" => format!("%{}", var.as_u32()),
                name => name.to_owned(),
            };
            vars.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        out += &format!("{}\n", func.name);
        for (number, region) in requests::regions(func).iter().enumerate() {
            let lines: Vec<String> = region.requests.iter().map(|site| place(*site)).collect();
            let count = match region.replies {
                Some(1) => "1 reply".to_owned(),
                Some(count) => format!("{count} replies"),
                None => "one reply for each request".to_owned(),
            };
            out += &format!("  region {}: requests in line {}, {count}\n", number + 1, lines.join(", "));
            for join in &region.joins {
                let kept = match join.live.as_slice() {
                    [] => "nothing".to_owned(),
                    live => names(live),
                };
                out += &format!(
                    "    join in line {}: {}; keeps {kept}\n",
                    place(join.site),
                    names(&join.awaited)
                );
            }
        }
    }
    Ok(out)
}

/// Returns the code of functions, each behind a line with its name.
fn code(engine: &Engine, only: Option<&str>, emit: bifrost_engine::Emit) -> Result<String, Failure> {
    let texts = chosen(engine.program(), only)?.map(|(id, func)| {
        let text = engine.code_text(id, emit).unwrap_or_else(|why| format!("; not compiled: {why}\n"));
        format!("; {}\n{}\n", func.name, text.trim_end())
    });
    Ok(texts.collect())
}

/// Returns all functions, or those of one name.
fn chosen<'a>(
    program: &'a Program,
    only: Option<&'a str>,
) -> Result<impl Iterator<Item = (FuncId, &'a Func)>, Failure> {
    let is_chosen = move |func: &Func| only.is_none_or(|name| func.name == name);
    if let Some(name) = only
        && !program.funcs.values().any(is_chosen)
    {
        return Err(Failure::new(Exit::Failed, format!("there is no routine or method `{name}`")));
    }
    Ok(program.funcs.iter().filter(move |(_, func)| is_chosen(func)))
}

fn counted(count: usize, what: &str) -> String {
    let ending = match what {
        _ if count == 1 => "",
        "class" => "es",
        _ => "s",
    };
    format!("{count} {what}{ending}")
}
