//! Certificates: the arguments of clients, and the certificate of a server that was given none.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bifrost_transport::{KeyFiles, TlsOptions};
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::failure::{Exit, Failure};

/// The trust in servers at `tls://`, and the client's own certificate.
#[derive(clap::Args, Debug)]
pub struct TlsArgs {
    /// The authorities that may sign the certificates of `tls://` servers, in PEM [default: the
    /// file that BIFROST_CA names, or else the system's]. An address with a pin needs none
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The own certificate, in PEM, for servers that ask for one
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM [default: in the certificate's file]
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

impl TlsArgs {
    /// Returns the options of connections.
    pub fn options(&self) -> TlsOptions {
        TlsOptions { authorities: self.ca.clone(), certificate: self.key_files() }
    }

    /// Returns the files of the own certificate.
    pub fn key_files(&self) -> Option<KeyFiles> {
        let certificate = self.certificate.clone()?;
        let key = self.key.clone().unwrap_or_else(|| certificate.clone());
        Some(KeyFiles { certificate, key })
    }
}

/// Returns the file with the certificate and key of servers of this user that were given none. The
/// first of them makes it.
///
/// # Errors
/// It cannot be made.
pub fn self_made() -> Result<PathBuf, Failure> {
    let folder = state_folder().ok_or_else(|| {
        Failure::new(Exit::Usage, "there is no place for a certificate: XDG_STATE_HOME and HOME are not set")
            .help("give the server a certificate with `--certificate FILE --key FILE`")
    })?;
    let file = folder.join("self-made.pem");
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(Exit::Failed, format!("cannot make a certificate in `{}`: {why}", folder.display()))
    };
    if file.exists() {
        return Ok(file);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|e| failed(&e))?;
    let pem = make_self_signed().map_err(|e| failed(&e))?;
    // Its mode is 0600.
    let mut written = tempfile::NamedTempFile::new_in(&folder).map_err(|e| failed(&e))?;
    written.write_all(pem.as_bytes()).and_then(|()| written.as_file().sync_all()).map_err(|e| failed(&e))?;
    match written.persist_noclobber(&file) {
        Ok(_) => Ok(file),
        // Another server was faster.
        Err(_) if file.exists() => Ok(file),
        Err(e) => Err(failed(&e.error)),
    }
}

/// Returns a new key and a certificate for this machine, in PEM. Clients trust its pin, so its name
/// and dates mean nothing.
///
/// # Errors
/// The system has no random numbers.
pub fn make_self_signed() -> Result<String, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "bifrost, self-made");
    let certificate = params.self_signed(&key)?;
    Ok(certificate.pem() + &key.serialize_pem())
}

/// Returns the folder of this user's lasting state.
fn state_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("bifrost"))
}

/// Writes a file that must not exist yet, with a mode.
///
/// # Errors
/// It exists, or cannot be written.
pub fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| Failure::new(Exit::Failed, format!("cannot write `{}`: {e}", path.display())))
}
