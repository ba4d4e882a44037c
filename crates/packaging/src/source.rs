//! [`Source`]: the contents that packages have in common.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::archive::Entry;
use crate::{PackageError, build};

/// The shells that have completions, with the place of the file below `usr/share`.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/bifrost"),
    ("zsh", "zsh/vendor-completions/_bifrost"),
    ("fish", "fish/vendor_completions.d/bifrost.fish"),
];

/// The program and the files from which packages are made.
#[derive(Debug)]
pub struct Source {
    /// The folder of the workspace.
    pub root: PathBuf,
    /// The program, which runs on this machine.
    pub binary: PathBuf,
    /// The time of all files, in seconds since 1970.
    pub time: u64,
    /// The version.
    pub version: String,
    /// The program's bytes.
    pub program: Vec<u8>,
    /// Man pages: the name of each, and its text.
    pub pages: Vec<(String, Vec<u8>)>,
    /// Completions, each with its place below `usr/share`.
    pub completions: Vec<(&'static str, Vec<u8>)>,
}

/// Runs a program; returns its standard output.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>, PackageError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(PackageError::file(&program))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(PackageError::Program { program, said })
}

impl Source {
    /// Gathers the contents. `root` is the folder of the workspace.
    ///
    /// # Errors
    /// The program does not run, or a file is missing.
    pub fn load(root: &Path, binary: &Path, time: u64) -> Result<Source, PackageError> {
        let program = std::fs::read(binary).map_err(PackageError::file(binary))?;
        let folder = tempfile::tempdir().map_err(PackageError::file("the temporary folder"))?;
        run(Command::new(binary).arg("man").arg("-o").arg(folder.path()))?;
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(folder.path()).map_err(PackageError::file(folder.path()))? {
            let entry = entry.map_err(PackageError::file(folder.path()))?;
            let page = std::fs::read(entry.path()).map_err(PackageError::file(entry.path()))?;
            pages.push((entry.file_name().to_string_lossy().into_owned(), page));
        }
        pages.sort();
        let mut completions = Vec::new();
        for (shell, place) in SHELLS {
            completions.push((place, run(Command::new(binary).args(["completions", shell]))?));
        }
        Ok(Source {
            root: root.to_owned(),
            binary: binary.to_owned(),
            time,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program,
            pages,
            completions,
        })
    }

    /// Returns the time of the packages: SOURCE_DATE_EPOCH, or else that of the last commit.
    pub fn time_of(root: &Path) -> u64 {
        let variable = std::env::var("SOURCE_DATE_EPOCH").ok();
        let commit = || {
            let mut command = Command::new("git");
            let out = run(command.current_dir(root).args(["log", "-1", "--format=%ct"])).ok()?;
            String::from_utf8(out).ok()
        };
        variable.or_else(commit).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Returns the text of a file of the workspace.
    pub(crate) fn text(&self, path: &str) -> Result<String, PackageError> {
        let path = self.root.join(path);
        std::fs::read_to_string(&path).map_err(PackageError::file(path))
    }

    /// Returns the annotated settings with those of an installation: its store, and its sockets.
    pub(crate) fn settings(&self, more: &[&str]) -> Result<Vec<u8>, PackageError> {
        let mut command = Command::new(&self.binary);
        // Neither settings of this folder nor of the environment belong there.
        command.env_clear().args(["serve", "--print-config", "--config", "/dev/null"]).args(more);
        run(&mut command)
    }

    /// Returns the settings of a server that listens below `/run/bifrost`.
    pub(crate) fn installed_settings(&self) -> Result<Vec<u8>, PackageError> {
        let listen = ["--listen", "unix:///run/bifrost/socket", "--listen", "shm:///run/bifrost/shm"];
        self.settings(&[&["--store", "/var/lib/bifrost/store"], &listen[..]].concat())
    }

    /// Returns the files of the examples that a server and its clients without a compiler need.
    pub(crate) fn examples(&self) -> Result<Vec<Entry>, PackageError> {
        let mut found = Vec::new();
        let top = self.root.join("examples");
        let mut folders = vec![top.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).map_err(PackageError::file(&folder))? {
                let path = entry.map_err(PackageError::file(&folder))?.path();
                let name = path.strip_prefix(&self.root).unwrap_or(&path).display().to_string();
                let kind = path.extension().and_then(|kind| kind.to_str());
                match kind {
                    _ if path.is_dir()
                        && !["target", "rust", "tasks"].iter().any(|no| path.ends_with(no)) =>
                    {
                        folders.push(path);
                    }
                    Some("theta" | "bifrost" | "md" | "toml") if path.is_file() => {
                        let contents = std::fs::read(&path).map_err(PackageError::file(&path))?;
                        found.push(Entry::file(name, contents));
                    }
                    _ => {}
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Returns the name of the architecture in the names of archives.
    pub(crate) fn target(&self) -> String {
        build::target().replace("-unknown", "")
    }
}
