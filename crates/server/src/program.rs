//! Theta files from the disk, compiled and ready to run.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bifrost_engine::{Engine, LoadError, Run};
use bifrost_ir::Program;
use bifrost_native::Registry;
use bifrost_theta::{Colour, Diagnostic, NativeHeadings, Options, Sources, compile, imports, render_all};

/// The largest size of a source, in bytes.
const SOURCE_BYTES_MAX: u64 = 16 << 20;

/// The reason why files do not make a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// There are mistakes in the sources.
    #[error("{}", render_all(sources, diagnostics, Colour::Plain))]
    Theta {
        /// The texts.
        sources: Box<Sources>,
        /// The mistakes in them.
        diagnostics: Vec<Diagnostic>,
    },
    /// The program cannot run.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Reads the sources of a program: the files named, and their imports.
///
/// Imports start at `root`, or at the folder of the first file; files that are not there may be
/// among the registry's texts.
///
/// # Errors
/// [`ProgramError::Read`]; an import that is missing is a diagnostic of compiling.
pub fn read(
    files: &[PathBuf],
    root: Option<&Path>,
    registry: &Registry,
) -> Result<(Sources, Options), ProgramError> {
    let root = match (root, files.first().and_then(|f| f.parent())) {
        (Some(root), _) => root.to_path_buf(),
        (None, Some(folder)) => folder.to_path_buf(),
        (None, None) => PathBuf::new(),
    };
    let options = Options {
        root: root.to_string_lossy().into_owned(),
        natives: headings(registry),
        texts: registry.texts(),
        ..Options::default()
    };
    let mut sources = Sources::new();
    let mut pending = Vec::new();
    for path in files {
        let text = read_file(path).map_err(|source| ProgramError::Read { path: path.clone(), source })?;
        pending.push(sources.add(path.to_string_lossy(), text));
    }
    while let Some(file) = pending.pop() {
        for name in imports(&sources, file, &options) {
            if sources.find(&name).is_some() {
                continue;
            }
            let inside = Path::new(&name).strip_prefix(&root).ok().and_then(Path::to_str);
            let built_in = inside.and_then(|name| registry.text(name));
            match (read_file(Path::new(&name)), built_in) {
                (Ok(text), _) => pending.push(sources.add(name, text)),
                (Err(_), Some(text)) => pending.push(sources.add(name, text)),
                (Err(e), None) if e.kind() == io::ErrorKind::NotFound => {}
                (Err(source), None) => return Err(ProgramError::Read { path: name.into(), source }),
            }
        }
    }
    Ok((sources, options))
}

/// Returns the text of a source file.
///
/// # Errors
/// It cannot be read, is longer than 16 MiB, or is no UTF-8 text.
pub fn read_file(path: &Path) -> io::Result<String> {
    read_text(File::open(path)?)
}

/// Returns the text of a source.
///
/// # Errors
/// As for [`read_file`].
pub fn read_text(input: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    // Some files say that they are empty and never end.
    input.take(SOURCE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SOURCE_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {} MiB", SOURCE_BYTES_MAX >> 20)));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        io::Error::other(format!("it is not UTF-8 text, see line {line}"))
    })
}

fn headings(registry: &Registry) -> Option<Arc<NativeHeadings>> {
    Some(Arc::new(registry.headings()))
}

/// Compiles files to a program that is ready to run, with the standard natives, which reach no
/// files.
///
/// # Errors
/// [`ProgramError`]
pub fn load(
    files: &[PathBuf],
    root: Option<&Path>,
    run: impl Into<Run>,
) -> Result<Arc<Engine>, ProgramError> {
    load_with(files, root, run, &Registry::standard())
}

/// Compiles files to a program that is ready to run and may use these natives.
///
/// # Errors
/// [`ProgramError`]
pub fn load_with(
    files: &[PathBuf],
    root: Option<&Path>,
    run: impl Into<Run>,
    registry: &Registry,
) -> Result<Arc<Engine>, ProgramError> {
    engine(compile_files(files, root, registry)?, run, registry)
}

/// Makes the engine of a program for clients.
fn engine(program: Program, run: impl Into<Run>, registry: &Registry) -> Result<Arc<Engine>, ProgramError> {
    Ok(Engine::with_natives(program, run, registry.natives().clone())?)
}

/// Compiles files to a program that may use these natives, for a caller that looks at it before it
/// is made ready to run.
///
/// # Errors
/// [`ProgramError::Read`], [`ProgramError::Theta`]
pub fn compile_files(
    files: &[PathBuf],
    root: Option<&Path>,
    registry: &Registry,
) -> Result<Program, ProgramError> {
    let (sources, options) = read(files, root, registry)?;
    compile_sources(sources, &options)
}

/// Compiles texts to a program that is ready to run, with the standard natives, which reach no
/// files.
///
/// # Errors
/// [`ProgramError::Theta`], [`ProgramError::Load`]
pub fn load_sources(
    sources: Sources,
    options: &Options,
    run: impl Into<Run>,
) -> Result<Arc<Engine>, ProgramError> {
    load_sources_with(sources, options, run, &Registry::standard())
}

/// Compiles texts to a program that is ready to run and may use these natives.
///
/// # Errors
/// [`ProgramError::Theta`], [`ProgramError::Load`]
pub fn load_sources_with(
    sources: Sources,
    options: &Options,
    run: impl Into<Run>,
    registry: &Registry,
) -> Result<Arc<Engine>, ProgramError> {
    let options = Options { natives: headings(registry), ..options.clone() };
    engine(compile_sources(sources, &options)?, run, registry)
}

/// Compiles texts to a program, for a caller that has to look at it before it is made ready to run.
///
/// # Errors
/// [`ProgramError::Theta`]
pub fn compile_sources(sources: Sources, options: &Options) -> Result<Program, ProgramError> {
    let compiled = compile(&sources, options);
    compiled
        .program
        .ok_or_else(|| ProgramError::Theta { sources: Box::new(sources), diagnostics: compiled.diagnostics })
}
