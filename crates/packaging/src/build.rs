//! The static program, built by cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::PackageError;

/// Returns the target of static programs of this machine.
pub fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Builds the program, and returns its path. `root` is the folder of the workspace.
///
/// # Errors
/// Cargo fails. Without `musl-gcc` (package `musl-tools`) or the target (`rustup target add`) it
/// says so.
pub fn build(root: &Path, profile: &str) -> Result<PathBuf, PackageError> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["build", "--locked", "--package", "bifrost-cli", "--bin", "bifrost"]);
    // Modules of clients are off until `limits.modules_max` is set.
    command.args(["--features", "wasm"]);
    command.args(["--profile", profile, "--target", &target()]);
    // Paths of the machine are neither in messages nor in the bytes: others get the same program.
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
    let mut flags = vec![format!("--remap-path-prefix={}=bifrost", root.display())];
    flags.extend(home.into_iter().map(|home| format!("--remap-path-prefix={home}=cargo")));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    let status = command.status().map_err(PackageError::file("cargo"))?;
    if !status.success() {
        let said = format!(
            "{status}; it needs musl-gcc (`apt-get install musl-tools`) and `rustup target add {}`",
            target()
        );
        return Err(PackageError::Program { program: "cargo build".to_owned(), said });
    }
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let profile = if profile == "dev" { "debug" } else { profile };
    Ok(folder.join(target()).join(profile).join("bifrost"))
}
