//! Events to the standard error, as `BIFROST_LOG` asks for.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The form of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Starts writing events: warnings and errors, or those that `BIFROST_LOG` names (`info`,
/// `bifrost=debug`).
pub fn start(format: Format) {
    let asked = std::env::var("BIFROST_LOG").ok().filter(|asked| !asked.is_empty());
    // The code generator tells of each function that it compiles; a user who asks for `info` does
    // not mean that.
    let quiet = |asked: String| format!("cranelift_jit=warn,cranelift_codegen=warn,regalloc2=warn,{asked}");
    let filter = asked.and_then(|asked| EnvFilter::try_new(quiet(asked)).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("warn"));
    // An event that cannot be written is lost: a server goes on when its terminal is gone.
    let events = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    // There is one subscriber in a process; a second call changes nothing.
    let _ = match format {
        Format::Text => events.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        Format::Json => events.json().try_init(),
    };
}
