//! `bifrost veneer`: stubs for a client language, from sources or from a running server.

use std::path::{Path, PathBuf};

use bifrost_engine::Mode;
use bifrost_native::Registry;
use bifrost_server::program;
use bifrost_session::Tables;
use bifrost_veneergen::{
    Exceptions, Ints, Lang, TEMPLATE, TablesLang, generate, generate_from, generate_go, generate_java,
    generate_typescript, is_go_package, tables,
};
use bifrost_wire::Interface;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;

use crate::client::ConnectArgs;
use crate::failure::{Exit, Failure, Outcome};

/// Write stubs for clients of a program
///
/// Stubs are made from the same sources that the server has, or from the answer of a running server
/// about its interface. Equal interfaces give equal files, so the files can be committed and kept
/// fresh with --check.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost veneer --lang rust database.theta -o src
  bifrost veneer --lang rust --from unix:///run/bifrost/main -o src
  bifrost veneer --lang java --class org.example.Database database.theta -o src/main/java
  bifrost veneer --from trader://trader.example.com/DataBase -o src
  bifrost veneer --template examples/templates/markdown database.theta -o docs
  bifrost veneer --lang rust database.theta -o src --check   for tests: fails if the files are stale")]
pub struct Args {
    /// The client language
    #[arg(long, default_value = "rust", value_name = "LANGUAGE", value_parser = languages())]
    lang: Lang,
    /// The type of ints in TypeScript: `bigint`, or `number`, where a claim beyond 2^53 fails
    #[arg(long, value_name = "TYPE", value_parser = ints())]
    ints: Option<Ints>,
    /// The name of the package in Go [default: that of the folder of --output]
    #[arg(long, value_name = "NAME", value_parser = package_name)]
    package: Option<String>,
    /// The class of the stubs in Java, with its package [default: bifrost.BifrostStubs]
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Make the program's exceptions checked ones in Java: a claim that names them throws them
    #[arg(long)]
    checked: bool,
    /// Make files from templates of your own instead: each `NAME.jinja` in the folder makes the
    /// file `NAME`. docs/book/templates.md describes what templates get
    #[arg(long, value_name = "DIR", conflicts_with = "lang")]
    template: Option<PathBuf>,
    /// The files of the program
    #[arg(value_name = "FILE.theta", required_unless_present_any = ["from", "tables"])]
    files: Vec<PathBuf>,
    /// A running server, or a service at a trader, whose interface is used instead
    #[arg(long, value_name = "URL", conflicts_with = "files")]
    from: Option<String>,
    /// Where to write
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Write nothing; fail if the files there are stale
    #[arg(long)]
    check: bool,
    /// Where imports start [default: the folder of the first file]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Write the tables of a language's runtime instead: codes, errors, limits, misuses
    #[arg(long, hide = true, value_name = "LANGUAGE", conflicts_with_all = ["lang", "files", "from", "root"],
        value_parser = tables_languages())]
    tables: Option<TablesLang>,
    #[command(flatten)]
    connect: ConnectArgs,
}

fn tables_languages() -> impl TypedValueParser<Value = TablesLang> {
    let names = TablesLang::ALL.iter().map(|l| l.name());
    PossibleValuesParser::new(names)
        .map(|name| TablesLang::from_name(&name).expect("the parser knows the names"))
}

fn ints() -> impl TypedValueParser<Value = Ints> {
    let names = Ints::ALL.iter().map(|ints| ints.name());
    PossibleValuesParser::new(names).map(|name| Ints::from_name(&name).expect("the parser knows the names"))
}

/// Reads the name of a package in Go.
fn package_name(text: &str) -> Result<String, String> {
    if is_go_package(text) {
        Ok(text.to_owned())
    } else {
        Err("a package has a name of small letters and digits".to_owned())
    }
}

/// Returns the name of the package in a folder.
fn package(args: &Args) -> Result<String, Failure> {
    if let Some(name) = &args.package {
        return Ok(name.clone());
    }
    let folder = std::path::absolute(&args.output).unwrap_or_else(|_| args.output.clone());
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().replace('-', "_");
    package_name(&name).map_err(|_| {
        let text = format!("the folder `{}` gives no name for a package: use --package", folder.display());
        Failure::new(Exit::Usage, text)
    })
}

fn languages() -> impl TypedValueParser<Value = Lang> {
    let names = Lang::ALL.iter().map(|l| l.name());
    PossibleValuesParser::new(names).map(|name| Lang::from_name(&name).expect("the parser knows the names"))
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Outcome {
    let is = |lang: Lang| args.lang == lang && args.template.is_none() && args.tables.is_none();
    for (is_given, name, lang) in [
        (args.ints.is_some(), "--ints", Lang::TypeScript),
        (args.package.is_some(), "--package", Lang::Go),
        (args.class.is_some(), "--class", Lang::Java),
        (args.checked, "--checked", Lang::Java),
    ] {
        if is_given && !is(lang) {
            let text = format!("`{name}` is for `--lang {}` only", lang.name());
            return Err(Failure::new(Exit::Usage, text));
        }
    }
    let exceptions = if args.checked { Exceptions::Checked } else { Exceptions::Unchecked };
    let files = match args.tables {
        Some(language) => tables(language).map(|text| vec![(language.file().to_owned(), text)]),
        None => match &args.template {
            Some(folder) => {
                let templates = templates(folder)?;
                generate_from(&interface(args, registry)?, &templates)
            }
            None if is(Lang::TypeScript) => {
                generate_typescript(&interface(args, registry)?, args.ints.unwrap_or_default())
            }
            None if is(Lang::Go) => generate_go(&interface(args, registry)?, &package(args)?),
            None if is(Lang::Java) => {
                generate_java(&interface(args, registry)?, args.class.as_deref(), exceptions)
            }
            None => generate(&interface(args, registry)?, args.lang),
        },
    };
    let files = files.map_err(|e| Failure::new(Exit::Failed, e))?;
    if args.check { check(args, &files) } else { write(&args.output, &files) }
}

/// The most bytes of a user's template.
const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// Reads the templates of a folder and of those in it, by name.
fn templates(folder: &Path) -> Result<Vec<(String, String)>, Failure> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::new(Exit::Failed, format!("cannot read the template `{}`: {why}", path.display()))
    };
    let (mut templates, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(inner) = folders.pop() {
        for entry in std::fs::read_dir(&inner).map_err(|why| cannot(&inner, &why))? {
            let path = entry.map_err(|why| cannot(&inner, &why))?.path();
            // What a link leads to may be anywhere, or the folder itself.
            let kind = path.symlink_metadata().map_err(|why| cannot(&path, &why))?;
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).ok().and_then(Path::to_str).map(str::to_owned);
            let Some(name) = name.filter(|name| name.ends_with(TEMPLATE)) else { continue };
            if kind.len() > TEMPLATE_BYTES_MAX {
                return Err(cannot(&path, &format!("it has more than {TEMPLATE_BYTES_MAX} bytes")));
            }
            templates.push((name, std::fs::read_to_string(&path).map_err(|why| cannot(&path, &why))?));
        }
    }
    templates.sort();
    Ok(templates)
}

fn interface(args: &Args, registry: &Registry) -> Result<Interface, Failure> {
    if let Some(url) = &args.from {
        let mut client = args.connect.connect(Some(url))?;
        let numbering = client.describe()?;
        client.close()?;
        return Ok(numbering.interface().clone());
    }
    // Nothing runs, so no machine code is made.
    let engine = program::load_with(&args.files, args.root.as_deref(), Mode::Interpreted, registry)?;
    Ok(Tables::new(engine).numbering().interface().clone())
}

fn write(folder: &Path, files: &[(String, String)]) -> Outcome {
    for (name, text) in files {
        let path = folder.join(name);
        let written =
            path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.map_err(|e| Failure::new(Exit::Failed, format!("cannot write `{}`: {e}", path.display())))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

fn check(args: &Args, files: &[(String, String)]) -> Outcome {
    let stale: Vec<String> = files
        .iter()
        .map(|(name, text)| (args.output.join(name), text))
        .filter(|(path, text)| std::fs::read(path).ok().as_deref() != Some(text.as_bytes()))
        .map(|(path, _)| format!("`{}`", path.display()))
        .collect();
    if stale.is_empty() {
        return Ok(());
    }
    let verb = if stale.len() == 1 { "is" } else { "are" };
    Err(Failure::new(Exit::Failed, format!("{} {verb} stale", stale.join(", ")))
        .help("write them again: the same command without `--check`"))
}
