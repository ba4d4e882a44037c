//! `bifrost token`: makes a token of a role.

use bifrost_server::roles::{random_token, token_entry};
use serde_json::json;

use crate::failure::{Outcome, print};

/// Make a token of a role, and its entry for the settings
///
/// The token is random (128 bits) and printed once: it is stored nowhere, and the settings have
/// only a hash of it. Give it to the clients of the role, which send it with `--token-file` or
/// BIFROST_TOKEN.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  bifrost token --role reader
  kill -HUP SERVER      after the entry was added to bifrost.toml: the server reads its roles again")]
pub struct Args {
    /// The role: the table [roles.NAME] of the settings
    #[arg(long, value_name = "NAME", value_parser = role)]
    role: String,
    /// Print one JSON object: role, token, entry
    #[arg(long)]
    json: bool,
}

fn role(name: &str) -> Result<String, String> {
    match bifrost_server::roles::is_name(name) {
        true => Ok(name.to_owned()),
        false => Err(bifrost_server::roles::RoleError::Name.to_string()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let (role, token) = (&args.role, random_token()?);
    let entry = token_entry(&token);
    Ok(print(&match args.json {
        true => format!("{}\n", json!({"role": role, "token": token, "entry": entry})),
        false => format!(
            "{token}\n\nThe line above is the token. In bifrost.toml:\n\n[roles.{role}]\ntokens = [\"{entry}\"]\n"
        ),
    })?)
}
