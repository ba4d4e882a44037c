//! `bifrost ping`: whether a server answers, for supervisors and containers.

use crate::client::ConnectArgs;
use crate::failure::{Outcome, print};

/// Ask whether a server answers
///
/// Says `hello`, and ends with status 0 when the server has answered it: with a session, or with
/// the request for a token or a role. No token is needed, so a check of health knows no secret.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost ping
  bifrost ping tls://db.example:7447 --ca ca.pem && echo it serves
  HEALTHCHECK CMD [\"bifrost\", \"ping\", \"unix:///run/bifrost/socket\"]")]
pub struct Args {
    /// The server, or a service at a trader [default: the server on this machine at the default
    /// address]
    #[arg(value_name = "URL", env = "BIFROST_URL")]
    url: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    Ok(print(match args.connect.ping(args.url.as_deref())? {
        true => "the server gives sessions\n",
        false => "the server answers, and asks for a token or a role\n",
    })?)
}
