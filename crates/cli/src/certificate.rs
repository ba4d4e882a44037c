//! `bifrost certificate`: authorities, and the certificates that they sign.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bifrost_transport::{Clients, KeyFiles, TlsServer};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::common::certificates::write_new;
use crate::failure::{Exit, Failure, Outcome, print};

/// The time for which an authority's certificate is valid.
const AUTHORITY_DAYS: u64 = 3650;
/// The time before now from which a certificate is valid: clocks differ.
const EARLIER: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Make certificates for `tls://`
///
/// Makes a certificate for a server, or with `--client` for a client, and its private key. An
/// authority signs it: that of `--ca`, or else a new one, which is made beside it. Files are PEM;
/// those of keys have mode 0600. No file is replaced.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost certificate --name db1.example -o certificates
      an authority and a server's certificate: ca.pem, ca-key.pem, db1.example.pem, db1.example-key.pem
  bifrost certificate --name db2.example --ca certificates/ca.pem -o certificates
      another server of the same authority
  bifrost certificate --client --name reports.example --ca certificates/ca.pem -o certificates
  bifrost serve --listen tls://0.0.0.0:7447 --certificate certificates/db1.example.pem \\
      --key certificates/db1.example-key.pem database.theta
  bifrost shell --ca certificates/ca.pem tls://db1.example:7447")]
pub struct Args {
    /// A name or an IP address of the certificate; several times for several. The first names the
    /// files
    #[arg(long, value_name = "NAME", required = true)]
    name: Vec<String>,
    /// The certificate of the authority that signs [default: a new one]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The authority's private key [default: `ca-key.pem` beside `ca.pem`]
    #[arg(long, value_name = "FILE", requires = "ca")]
    ca_key: Option<PathBuf>,
    /// A client's certificate, which no server can use
    #[arg(long, conflicts_with = "capsule")]
    client: bool,
    /// A capsule's certificate, which is that of a server and of a client
    #[arg(long)]
    capsule: bool,
    /// The number of days for which the certificate is valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=36_500))]
    days: u64,
    /// The folder of the files; it is made if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let name = &args.name[0];
    if name.starts_with('.') || name.contains('/') {
        return Err(Failure::new(Exit::Usage, format!("`{name}` is no name for a certificate")));
    }
    std::fs::create_dir_all(&args.output).map_err(|e| {
        Failure::new(Exit::Failed, format!("cannot make the folder `{}`: {e}", args.output.display()))
    })?;
    let path = |file: String| args.output.join(file);
    // `*.clients.example` would be a pattern of files.
    let stem = name.replace('*', "any");
    let files = KeyFiles { certificate: path(format!("{stem}.pem")), key: path(format!("{stem}-key.pem")) };
    for file in [&files.certificate, &files.key] {
        if file.exists() {
            return Err(Failure::new(Exit::Usage, format!("`{}` exists already", file.display()))
                .help("remove it, or give another folder with `-o DIR`"));
        }
    }
    let (issuer, authority) = match &args.ca {
        Some(ca) => (read_authority(ca, args.ca_key.as_deref())?, ca.clone()),
        None => make_authority(&args.output)?,
    };
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(args.name.clone()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, name.as_str());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let (server, client) = (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
    params.extended_key_usages = match (args.client, args.capsule) {
        (true, _) => vec![client],
        (_, true) => vec![server, client],
        _ => vec![server],
    };
    params.use_authority_key_identifier_extension = true;
    set_days(&mut params, args.days);
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    write_new(&files.key, 0o600, &key.serialize_pem())?;
    write_new(&files.certificate, 0o644, &certificate.pem())?;
    // Read again, so that a certificate which nobody could use is not handed out.
    let usable = TlsServer::load(files.clone(), Clients::Any).map_err(|e| Failure::new(Exit::Failed, e))?;
    Ok(print(&format!(
        "authority    {}\ncertificate  {}\nkey          {}\npin          {}\n",
        authority.display(),
        files.certificate.display(),
        files.key.display(),
        usable.pin(),
    ))?)
}

fn failed(error: rcgen::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot make the certificate: {error}"))
}

fn set_days(params: &mut CertificateParams, days: u64) {
    let now = SystemTime::now();
    params.not_before = (now - EARLIER).into();
    params.not_after = (now + DAY * u32::try_from(days).unwrap_or(u32::MAX)).into();
}

/// Makes an authority and its files.
fn make_authority(folder: &Path) -> Result<(Issuer<'static, KeyPair>, PathBuf), Failure> {
    let (file, key_file) = (folder.join("ca.pem"), folder.join("ca-key.pem"));
    if file.exists() {
        return Err(Failure::new(Exit::Usage, format!("`{}` exists already", file.display()))
            .help("have it sign with `--ca FILE`, or give another folder with `-o DIR`"));
    }
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    // Clients that know another authority of this name would try its key.
    let mut number = [0; 4];
    getrandom::fill(&mut number).map_err(|e| Failure::new(Exit::Failed, e))?;
    let name = format!("bifrost authority {:08x}", u32::from_be_bytes(number));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_days(&mut params, AUTHORITY_DAYS);
    let certificate = params.self_signed(&key).map_err(failed)?;
    write_new(&key_file, 0o600, &key.serialize_pem())?;
    write_new(&file, 0o644, &certificate.pem())?;
    Ok((Issuer::new(params, key), file))
}

/// Reads an authority of files.
fn read_authority(file: &Path, key: Option<&Path>) -> Result<Issuer<'static, KeyPair>, Failure> {
    let beside = || {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        file.with_file_name(format!("{stem}-key.pem"))
    };
    let key = key.map_or_else(beside, Path::to_owned);
    let wrong = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::new(Exit::Usage, format!("cannot sign with `{}`: {why}", path.display()))
    };
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| wrong(path, &e));
    let pair = KeyPair::from_pem(&read(&key)?).map_err(|e| wrong(&key, &e))?;
    Issuer::from_ca_cert_pem(&read(file)?, pair).map_err(|e| wrong(file, &e))
}
