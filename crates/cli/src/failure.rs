//! The end of the program when something is wrong: the message, and the exit status.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use bifrost_capsule::capsules::JoinError;
use bifrost_engine::LoadError;
use bifrost_server::program::ProgramError;
use bifrost_server::{ConfigError, StartError};
use bifrost_theta::{Colour, render_all};
use bifrost_transport::ConnectError;

/// The exit statuses besides 0; `bifrost --help` lists them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// The program or its sources failed.
    Failed = 1,
    /// The arguments or settings make no sense.
    Usage = 2,
    /// Nobody listens there, or nothing can listen there.
    Unreachable = 3,
    /// The server ended the session.
    Refused = 4,
}

/// The reason why a command did not succeed.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    /// Empty if everything has been said already.
    message: String,
    help: Option<String>,
}

/// The result of every command.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// Makes a failure with one line (or more) for people.
    pub fn new(exit: Exit, message: impl Display) -> Failure {
        Failure { exit, message: message.to_string(), help: None }
    }

    /// Makes a failure that has been reported already.
    pub fn reported(exit: Exit) -> Failure {
        Failure::new(exit, "")
    }

    /// Adds a line that says how to go on.
    pub fn help(mut self, help: impl Display) -> Failure {
        self.help = Some(help.to_string());
        self
    }

    /// Prints the failure on the standard error, and returns the exit status.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            error(&self.message);
        }
        if let Some(help) = &self.help {
            let bold = Style::new().bold();
            anstream::eprintln!("{bold}help{bold:#}: {help}");
        }
        ExitCode::from(self.exit as u8)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Prints `error: ...` on the standard error.
pub fn error(message: impl Display) {
    let red = AnsiColor::Red.on_default().bold();
    anstream::eprintln!("{red}error{red:#}: {message}");
}

impl From<bifrost_repository::Error> for Failure {
    fn from(error: bifrost_repository::Error) -> Failure {
        Failure::new(Exit::Failed, error)
    }
}

impl From<ProgramError> for Failure {
    fn from(error: ProgramError) -> Failure {
        match error {
            ProgramError::Theta { sources, diagnostics } => {
                // On a stream that is no terminal the colours are left out.
                anstream::eprint!("{}", render_all(&sources, &diagnostics, Colour::Ansi));
                Failure::reported(Exit::Failed)
            }
            other => Failure::new(Exit::Failed, other),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        Failure::new(Exit::Failed, error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::new(Exit::Usage, error)
            .help("`bifrost serve --print-config` shows all settings with their values")
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        match error {
            StartError::Config(error) => error.into(),
            StartError::Listen(error) => Failure::new(Exit::Unreachable, error)
                .help("stop the other server, or listen on another address with `--listen URL`"),
            other => Failure::new(Exit::Failed, other),
        }
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Failure {
        match error {
            JoinError::Connect(error) => unreachable(
                error,
                "start the capsule with `bifrost capsule --listen ADDRESS FILE.theta`, with the same file",
            ),
            JoinError::Count { .. } => Failure::new(Exit::Usage, error),
            JoinError::TooFew { .. } => Failure::new(Exit::Unreachable, error).help(
                "start more with `bifrost capsule --trader URL`, the same file and the same group, or ask for fewer",
            ),
            JoinError::Listen(_) | JoinError::Waited(_) | JoinError::Missing | JoinError::GivenUp => {
                Failure::new(Exit::Unreachable, error)
            }
            JoinError::Refused { .. } | JoinError::Version { .. } | JoinError::NoCapsule { .. } => {
                Failure::new(Exit::Refused, error)
            }
            JoinError::Token(_) => Failure::new(Exit::Refused, error).help(
                "pass the same token to all capsules with `--token-file FILE` or the variable BIFROST_TOKEN",
            ),
            JoinError::System(_) => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Failure {
        unreachable(error, "start a server with `bifrost serve FILE.theta`")
    }
}

/// Makes a failure of a connection that there is not. Errors of TLS say by themselves what to do.
fn unreachable(error: ConnectError, help: &str) -> Failure {
    match error {
        ConnectError::Tls { .. } | ConnectError::Quic { .. } => Failure::new(Exit::Unreachable, error),
        ConnectError::Certificates(_) | ConnectError::TwoTrusts { .. } => Failure::new(Exit::Usage, error),
        _ => Failure::new(Exit::Unreachable, error).help(help),
    }
}

impl From<bifrost_veneer::ConnectError> for Failure {
    fn from(why: bifrost_veneer::ConnectError) -> Failure {
        match why {
            bifrost_veneer::ConnectError::Connect(why) => why.into(),
            bifrost_veneer::ConnectError::Url(_)
            | bifrost_veneer::ConnectError::NoTraders
            | bifrost_veneer::ConnectError::TooManyTraders { .. }
            | bifrost_veneer::ConnectError::Address(_) => Failure::new(Exit::Usage, why),
            bifrost_veneer::ConnectError::Import(_) => Failure::new(Exit::Unreachable, why),
            other => Failure::new(Exit::Refused, other),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        // A reader that has seen enough, as `head` has, is no failure worth a word.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::reported(Exit::Failed);
        }
        Failure::new(Exit::Failed, error)
    }
}

/// Writes to the standard output and makes sure that it is out.
///
/// # Errors
/// The reader is gone.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
