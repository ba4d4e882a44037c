//! The Debian package, by `dpkg-deb`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::PackageError;
use crate::archive::{Entry, gzip_best, with_folders};
use crate::source::{Source, run};

/// The compression of `dpkg-deb`.
const COMPRESSION: &str = "-Zxz";

/// Returns Debian's name of an architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Writes the package into a folder, and returns its path. `level` is that of the compression, 0 to
/// 9.
///
/// # Errors
/// [`PackageError`]
pub fn debian(source: &Source, folder: &Path, level: u32) -> Result<PathBuf, PackageError> {
    let staged = tempfile::tempdir().map_err(PackageError::file("the temporary folder"))?;
    let entries = [contents(source)?, control(source)?].concat();
    for entry in with_folders(&entries) {
        stage(staged.path(), &entry).map_err(PackageError::file(&entry.path))?;
    }
    let path = folder.join(format!("bifrost_{}-1_{}.deb", source.version, architecture()));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", COMPRESSION, &format!("-z{level}"), "--build"]);
    // Files that are newer get this time.
    command.arg(staged.path()).arg(&path).env("SOURCE_DATE_EPOCH", source.time.to_string());
    run(&mut command)?;
    Ok(path)
}

/// Returns the files of the package.
fn contents(source: &Source) -> Result<Vec<Entry>, PackageError> {
    let io = |error| PackageError::File { path: "a compressed file".to_owned(), source: error };
    let doc = "usr/share/doc/bifrost";
    let mut entries = vec![
        Entry::program("usr/bin/bifrost", source.program.clone()),
        Entry::file("usr/lib/systemd/system/bifrost.service", source.text("packaging/bifrost.service")?),
        Entry::file("etc/bifrost/bifrost.toml", source.installed_settings()?),
        Entry::file(format!("{doc}/README.md"), source.text("README.md")?),
        Entry::file(format!("{doc}/copyright"), copyright(source)?),
        Entry::file(
            format!("{doc}/changelog.gz"),
            gzip_best(source.text("CHANGELOG.md")?.as_bytes()).map_err(io)?,
        ),
        Entry::file(
            format!("{doc}/changelog.Debian.gz"),
            gzip_best(filled(source, "changelog")?.as_bytes()).map_err(io)?,
        ),
        Entry::file(
            "usr/share/lintian/overrides/bifrost",
            source.text("packaging/debian/lintian-overrides")?,
        ),
    ];
    for (page, text) in &source.pages {
        entries.push(Entry::file(format!("usr/share/man/man1/{page}.gz"), gzip_best(text).map_err(io)?));
    }
    for (place, text) in &source.completions {
        entries.push(Entry::file(format!("usr/share/{place}"), text.clone()));
    }
    entries.extend(source.examples()?.into_iter().map(|entry| entry.below(doc)));
    Ok(entries)
}

/// Returns the files that `dpkg` reads.
fn control(source: &Source) -> Result<Vec<Entry>, PackageError> {
    let mut entries = vec![
        Entry::file("DEBIAN/control", filled(source, "control")?),
        Entry::file("DEBIAN/conffiles", "/etc/bifrost/bifrost.toml\n"),
    ];
    for script in ["postinst", "prerm", "postrm"] {
        let text = source.text(&format!("packaging/debian/{script}"))?;
        entries.push(Entry::program(format!("DEBIAN/{script}"), text));
    }
    Ok(entries)
}

/// Returns a file of `packaging/debian` with the values of this package.
fn filled(source: &Source, name: &str) -> Result<String, PackageError> {
    let date = run(Command::new("date").args(["-u", "-R", "-d", &format!("@{}", source.time)]))?;
    let size = (source.program.len() >> 10) + 1024;
    let text = source.text(&format!("packaging/debian/{name}"))?;
    Ok(text
        .replace("@VERSION@", &source.version)
        .replace("@ARCHITECTURE@", architecture())
        .replace("@SIZE@", &size.to_string())
        .replace("@DATE@", String::from_utf8_lossy(&date).trim_end()))
}

/// Returns the copyright with the text of a licence, in the form of such files.
fn copyright(source: &Source) -> Result<String, PackageError> {
    let line = |line: &str| if line.is_empty() { " .".to_owned() } else { format!(" {line}") };
    let mit: Vec<String> = source.text("LICENSE-MIT")?.lines().map(line).collect();
    Ok(source.text("packaging/debian/copyright")?.replace("@MIT@", &mit.join("\n")))
}

/// Writes an entry below a folder.
fn stage(root: &Path, entry: &Entry) -> std::io::Result<()> {
    let path = root.join(&entry.path);
    match &entry.contents {
        Some(contents) => std::fs::write(&path, contents)?,
        None => std::fs::create_dir(&path)?,
    }
    std::fs::set_permissions(&path, Permissions::from_mode(entry.mode))
}
