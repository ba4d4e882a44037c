//! `bifrost bench`: the program measures itself, so that anybody can repeat every figure.

mod actors;
mod bare;
#[rustfmt::skip]
#[allow(clippy::all, reason = "generated")]
pub(crate) mod bifrost_stubs;
mod blocking;
pub(crate) mod calls;
mod commits;
mod common;
mod echo;
mod files;
pub(crate) mod fit;
mod futex;
mod helper;
mod imports;
mod kills;
mod linked;
mod load;
mod oo7;
mod process;
mod raw;
pub(crate) mod report;
mod sandbox;
mod savina;
mod sessions;
mod sizes;
mod soak;
mod theta;
mod tools;
mod usage;
mod veneers;

use std::path::PathBuf;

use bifrost_native::Registry;
use clap::{Args as ClapArgs, Subcommand};

use crate::failure::{Exit, Failure, Outcome};

/// Measure this machine
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The cost of calls: crossings, batches, control structures, the five ways to batch a loop
    Calls(calls::Args),
    /// The cost of Theta programs, beside the same programs in C, Lua and Go; compiling
    Theta(theta::Args),
    /// The cost of actors: messages, requests, creation, memory; programs of many actors, beside C,
    /// rayon and other actors
    Actors(actors::Args),
    /// Ten programs of the Savina suite for actors, with its sizes
    Savina(savina::Args),
    /// Great numbers of actors: ten million that do nothing, chains, mailboxes, a method without
    /// end, a process that is killed
    Sizes(sizes::Args),
    /// The benchmark OO7: each operation in four ways and two baselines, with crossings and
    /// batching factors
    Oo7(oo7::Args),
    /// A server that is killed again and again under load, and the commits that it had acknowledged
    Kills(kills::Args),
    /// Durable commits through a server, beside a raw loop of writes on the same disk
    Commits(commits::Args),
    /// Ten thousand idle sessions, and up to 500 active ones beside Redis and gRPC
    Sessions(sessions::Args),
    /// An exchange of bytes with a server: raw sockets, the transports, a call; beside QUIC,
    /// omniORB, gRPC and Cap'n Proto
    Echo(echo::Args),
    /// Clients that copy files from a server with one task or several, beside omniORB and gRPC
    Files(files::Args),
    /// The same with reads that compute and block: the speed-up by tasks; a futex ping-pong
    Blocking(blocking::Args),
    /// Imports at a trader with many offers, beside a call of the same actor that does nothing
    Imports(imports::Args),
    /// Code of clients as modules in WebAssembly, beside batches, structures, procedures and Theta
    /// methods
    Sandbox(sandbox::Args),
    /// The client libraries of all languages, beside raw sockets and peers
    Veneers(veneers::Args),
    /// Many clients with mixed batches for a long time, under kills and stops: nothing acknowledged
    /// is lost, and the means of the server stay flat
    Soak(soak::Args),
    #[command(hide = true)]
    SoakClients { url: String, seed: u64, accounts: i64, clients: Vec<String> },
    #[command(hide = true)]
    SessionsHold { url: String, count: u64 },
    #[command(hide = true)]
    Server { folder: PathBuf, core: usize },
    #[command(hide = true)]
    ActorsNode {
        case: String,
        nodes: u32,
        #[arg(long)]
        untimed: bool,
    },
    #[command(hide = true)]
    EchoLines { file: PathBuf, core: usize },
    #[command(hide = true)]
    EchoSide(echo::SideArgs),
    #[command(hide = true)]
    FileServer(files::ServerArgs),
    #[command(hide = true)]
    Futex { file: PathBuf, core: Option<usize> },
    #[command(hide = true)]
    Oo7Linked { size: String, seed: u32, core: usize },
    #[command(hide = true)]
    Oo7Server {
        folder: PathBuf,
        core: usize,
        #[arg(long, default_value = "")]
        store: String,
        #[arg(long)]
        prefetch: Option<usize>,
    },
}

/// Returns a registry with the natives of the programs in `bench/`, too.
pub fn with_natives(registry: &Registry) -> Registry {
    files::registry(registry)
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    match &args.what {
        What::Calls(args) => calls::run(args),
        What::Theta(args) => theta::run(args),
        What::Actors(args) => actors::run(args),
        What::Savina(args) => savina::run(args),
        What::Sizes(args) => sizes::run(args),
        What::Oo7(args) => oo7::run(args),
        What::Kills(args) => kills::run(args),
        What::Commits(args) => commits::run(args),
        What::Echo(args) => echo::run(args),
        What::EchoSide(args) => echo::run_side(args),
        What::FileServer(args) => files::run_ours(args),
        What::Files(args) => files::run(args),
        What::Blocking(args) => blocking::run(args),
        What::Imports(args) => imports::run(args),
        What::Sandbox(args) => sandbox::run(args),
        What::Veneers(args) => veneers::run(args),
        What::Futex { file, core } => futex::serve(file, *core),
        What::Soak(args) => soak::run(args),
        What::SoakClients { url, seed, accounts, clients } => {
            soak::serve_clients(url, *seed, *accounts, clients)
        }
        What::Sessions(args) => sessions::run(args),
        What::SessionsHold { url, count } => sessions::hold(url, *count),
        What::Oo7Server { folder, core, store, prefetch } => oo7::serve(folder, *core, store, *prefetch),
        What::Oo7Linked { size, seed, core } => oo7::serve_linked(size, *seed, *core),
        What::ActorsNode { case, nodes, untimed } => actors::serve(case, *nodes, *untimed),
        What::Server { folder, core } => calls::serve(folder, *core),
        What::EchoLines { file, core } => calls::echo(file, *core),
    }
    .map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}
