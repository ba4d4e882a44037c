//! A client's end of a session, without stubs: whole commands out, whole replies in.
//!
//! For programs use the veneer. The shell has no stubs before it has asked for the interface, and
//! `demo` shows how many bytes and crossings each batch takes; so both send commands themselves.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bifrost_trader::url::is_trader;
use bifrost_transport::{
    Address, ConnectOptions, ReadError, Stream, TlsOptions, WriteError, default_directory,
};
use bifrost_veneer::import::Search;
use bifrost_veneer::{Closed, ConnectError, Imported, Session, Stubs};
use bifrost_wire::interface::{Interface, Numbering};
use bifrost_wire::{
    Command, Decoded, DecodedReply, ErrorNumber, Hello, Limit, REPLY_BYTES_MAX, Reply, TraceContext, VERSION,
    decode, decode_reply, encode, op,
};

use crate::common::arguments::token;
use crate::common::certificates::TlsArgs;
use crate::failure::{Exit, Failure};

/// The name of this client in the logs of servers.
const NAME: &str = concat!("bifrost-cli ", env!("CARGO_PKG_VERSION"));
/// The longest time that a server may take to answer, besides the time limit that it has for
/// batches itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// The longest time until a trader has named a server that answers.
const IMPORT_WITHIN: Duration = Duration::from_secs(10);
/// The first bytes that a server of TLS answers to a client that speaks none: an alert.
const TLS_ALERT: &[u8] = &[0x15, 3];
/// Most bytes taken from the stream at once.
const READ_BYTES: usize = 1 << 20;

/// The token for a server, and the certificates.
#[derive(clap::Args, Debug)]
pub struct ConnectArgs {
    /// The token to show a server that listens on TCP or TLS
    #[arg(long, value_name = "TOKEN", env = "BIFROST_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with the token on its first line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The trace context of W3C in which the server enters the spans of the session's batches
    #[arg(long, value_name = "CONTEXT", env = "TRACEPARENT", value_parser = parse_trace)]
    traceparent: Option<TraceContext>,
    #[command(flatten)]
    tls: TlsArgs,
}

fn parse_trace(text: &str) -> Result<TraceContext, &'static str> {
    TraceContext::parse(text).ok_or("it is no `traceparent` of W3C Trace Context")
}

impl ConnectArgs {
    /// Opens a session at `url`, or at the default address of a server. The URL may be that of a
    /// service at a trader.
    ///
    /// # Errors
    /// The address is none, nobody listens there, or the server refuses.
    pub fn connect(&self, url: Option<&str>) -> Result<Client, Failure> {
        let token = token(self.token.as_deref(), self.token_file.as_deref())?.unwrap_or_default();
        if let Some(url) = url.filter(|url| is_trader(url)) {
            return self.import(url, token);
        }
        let (address, tls) = (address(url)?, self.tls.options());
        Client::connect_with(&address, &token, &tls, self.traceparent)
    }

    /// Opens a session with a server of a service that a trader knows.
    fn import(&self, url: &str, token: String) -> Result<Client, Failure> {
        let mut search = Search::new(url)?.name(NAME).timeout(IMPORT_WITHIN);
        if let Some(authorities) = &self.tls.ca {
            search = search.authorities(authorities);
        }
        if let Some(own) = self.tls.key_files() {
            search = search.certificate(own.certificate, own.key);
        }
        let (tls, trace) = (self.tls.options(), self.traceparent);
        let found =
            search.connect(move |_, address, within| Client::dial(address, &token, &tls, trace, within));
        let (mut client, imported) = found?;
        client.within = ANSWER_WITHIN;
        client.imported = Some(imported);
        Ok(client)
    }

    /// Opens a session with stubs at `url`, or at the default address of a server.
    ///
    /// # Errors
    /// As [`ConnectArgs::connect`].
    pub fn session(&self, stubs: &'static Stubs, url: Option<&str>) -> Result<Session, Failure> {
        let token = token(self.token.as_deref(), self.token_file.as_deref())?;
        let mut builder = Session::builder(stubs).token(token.unwrap_or_default()).timeout(ANSWER_WITHIN);
        if let Some(authorities) = &self.tls.ca {
            builder = builder.authorities(authorities);
        }
        if let Some(own) = self.tls.key_files() {
            builder = builder.certificate(own.certificate, own.key);
        }
        if let Some(trace) = &self.traceparent {
            builder = builder.trace_parent(&trace.to_string())?;
        }
        let url = match url.filter(|url| is_trader(url)) {
            Some(url) => url.to_owned(),
            None => address(url)?.to_string(),
        };
        Ok(builder.name(NAME).connect(&url)?)
    }

    /// Says `hello` at `url`, or at the default address of a server. True if that opens a session,
    /// false if the server asks for a token or a role.
    ///
    /// # Errors
    /// As [`ConnectArgs::connect`], but not for a token that is missing.
    pub fn ping(&self, url: Option<&str>) -> Result<bool, Failure> {
        let token = token(self.token.as_deref(), self.token_file.as_deref())?;
        if token.is_some_and(|token| !token.is_empty()) || url.is_some_and(is_trader) {
            return self.connect(url)?.close().map(|()| true);
        }
        let mut client = Client::open(&address(url)?, &self.tls.options())?;
        match client.greet("", None) {
            Ok(()) => client.close().map(|()| true),
            Err(_) if client.refused == Some(ErrorNumber::BadToken as u32) => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

/// Returns the address of a URL, or the one to try without a URL.
fn address(url: Option<&str>) -> Result<Address, Failure> {
    if let Some(url) = url {
        return url.parse().map_err(|e| Failure::new(Exit::Usage, e));
    }
    let folder = default_directory();
    let (shm, unix) = (folder.join("shm"), folder.join("socket"));
    Ok(if !shm.exists() && unix.exists() { Address::Unix(unix) } else { Address::Shm(shm) })
}

/// An open session.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    address: Address,
    input: Vec<u8>,
    /// The number of bytes of `input` that have been worked off.
    done: usize,
    /// The number of the error by which the server has ended the session.
    refused: Option<u32>,
    /// The server's name for itself.
    pub server: String,
    /// The session's number there.
    pub session: u64,
    /// The limits that the server has announced, each by its number.
    pub limits: Vec<(u32, u64)>,
    /// The number of batches that went out and were answered.
    pub crossings: u64,
    /// The time that the batch under way may wait for changes of others.
    waits: Duration,
    /// The longest time for an answer, besides.
    within: Duration,
    /// The server that a trader has named.
    imported: Option<Imported>,
}

impl Client {
    /// Opens a session. The token is sent only to a server that asks for it, by refusing a client
    /// without, and over TCP and TLS only: no honest server asks at a socket file.
    ///
    /// # Errors
    /// Nobody listens, or the server refuses.
    pub fn connect_with(
        address: &Address,
        token: &str,
        tls: &TlsOptions,
        trace: Option<TraceContext>,
    ) -> Result<Client, Failure> {
        let mut client = Client::open(address, tls)?;
        if let Err(failure) = client.greet("", trace) {
            let asked = client.refused == Some(ErrorNumber::BadToken as u32) && address.may_ask_for_token();
            if !asked || token.is_empty() {
                return Err(failure);
            }
            client = Client::open(address, tls)?;
            client.greet(token, trace)?;
        }
        Ok(client)
    }

    /// Makes a connection on which nothing has been said.
    fn open(address: &Address, tls: &TlsOptions) -> Result<Client, Failure> {
        let options = ConnectOptions { tls: tls.clone(), ..ConnectOptions::default() };
        Ok(Client::over(Stream::connect(address, &options)?, address))
    }

    fn over(stream: Stream, address: &Address) -> Client {
        Client {
            stream,
            address: address.clone(),
            input: Vec::new(),
            done: 0,
            refused: None,
            server: String::new(),
            session: 0,
            limits: Vec::new(),
            crossings: 0,
            waits: Duration::ZERO,
            within: ANSWER_WITHIN,
            imported: None,
        }
    }

    /// Opens a session with a server that a trader has named. The token is not shown where others
    /// could read it.
    fn dial(
        address: &Address,
        token: &str,
        tls: &TlsOptions,
        trace: Option<TraceContext>,
        within: Duration,
    ) -> Result<Client, ConnectError> {
        let mut tls = tls.clone();
        if address.pin().is_some() {
            tls.authorities = None;
        }
        let deadline = Instant::now() + within;
        let open = |token: &str| {
            let timeout = deadline.saturating_duration_since(Instant::now());
            let options = ConnectOptions { tls: tls.clone(), timeout, ..ConnectOptions::default() };
            let mut client = Client::over(Stream::connect(address, &options)?, address);
            client.within = deadline.saturating_duration_since(Instant::now());
            let greeted = client.greet(token, trace);
            Ok::<_, ConnectError>((client, greeted))
        };
        let (mut client, mut greeted) = open("")?;
        let asks = |client: &Client| client.refused == Some(ErrorNumber::BadToken as u32);
        if greeted.is_err() && asks(&client) && address.may_ask_for_token() && !token.is_empty() {
            if !address.is_private() {
                return Err(ConnectError::PlainToken { address: address.clone() });
            }
            (client, greeted) = open(token)?;
        }
        match (greeted, client.refused) {
            (Ok(()), _) => Ok(client),
            (Err(failure), Some(number)) => {
                let text = failure.to_string();
                Err(ConnectError::Closed(Closed::ByServer { number, position: 0, text }))
            }
            (Err(failure), None) => Err(ConnectError::Dial(Box::new(failure))),
        }
    }

    /// Says `hello`, and waits for the welcome.
    fn greet(&mut self, token: &str, trace: Option<TraceContext>) -> Result<(), Failure> {
        let mut out = Vec::new();
        let hello = Hello { version: VERSION, digest: [0; 32], token, client: NAME, trace };
        encode::hello(&mut out, &hello);
        self.send(&out)?;
        (self.server, self.session, self.limits) = self.receive(|reply| match reply {
            Reply::Welcome(welcome) => {
                Some((welcome.server.to_owned(), welcome.session, welcome.limits.iter().collect()))
            }
            _ => None,
        })?;
        Ok(())
    }

    /// Returns the server's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the server that a trader has named.
    pub fn imported(&self) -> Option<&Imported> {
        self.imported.as_ref()
    }

    /// Asks for the server's interface.
    ///
    /// # Errors
    /// The session has ended.
    pub fn describe(&mut self) -> Result<Numbering, Failure> {
        let mut out = Vec::new();
        encode::plain(&mut out, op::DESCRIBE);
        self.send(&out)?;
        let interface = self.receive(|reply| match reply {
            Reply::Interface(json) => Some(Interface::from_json(json)),
            _ => None,
        })?;
        Ok(Numbering::new(interface.map_err(|e| Failure::new(Exit::Refused, e))?))
    }

    /// Waits longer for the answer to the batch under way, by the times of its `wait` commands.
    pub fn wait_for(&mut self, commands: &[u8]) {
        let limit = self.limits.iter().find(|(number, _)| *number == Limit::WaitMs as u32);
        let most = limit.map_or(u64::from(u32::MAX), |(_, most)| *most);
        let mut rest = commands;
        while let Ok(Decoded::Command(command, length)) = decode(rest, usize::MAX) {
            if let Command::Wait { ms } = command {
                self.waits = self.waits.saturating_add(Duration::from_millis(u64::from(ms).min(most)));
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    /// Sends commands.
    ///
    /// # Errors
    /// The session has ended; if the server gave a reason, that is returned.
    pub fn send(&mut self, commands: &[u8]) -> Result<(), Failure> {
        let written = self.stream.write(commands, Some(Instant::now() + ANSWER_WITHIN));
        self.stream.flush();
        match written {
            Ok(()) => Ok(()),
            // The server has closed the stream; its last words may still be there.
            Err(WriteError::Closed | WriteError::Io(_)) => match self.receive(|_| None::<()>) {
                Err(last_words) => Err(last_words),
                Ok(()) => Err(self.gone()),
            },
            Err(other) => Err(Failure::new(Exit::Refused, other)),
        }
    }

    /// Waits for the next reply and returns the value that `take` finds in it.
    ///
    /// # Errors
    /// The session has ended, or the reply is another one than expected.
    pub fn receive<T>(&mut self, take: impl FnOnce(&Reply<'_>) -> Option<T>) -> Result<T, Failure> {
        let within = self.within.saturating_add(self.waits);
        let deadline = Instant::now().checked_add(within);
        loop {
            let decoded = decode_reply(&self.input[self.done..], REPLY_BYTES_MAX).map_err(|e| {
                Failure::new(Exit::Refused, format!("{} sent a malformed reply: {e}", self.address))
            })?;
            if let DecodedReply::Reply(reply, length) = decoded {
                let taken = match &reply {
                    Reply::Error { number, text, .. } => {
                        self.refused = Some(*number);
                        Err(refusal(&self.address, *number, text))
                    }
                    reply => take(reply).ok_or_else(|| {
                        Failure::new(Exit::Refused, format!("{} sent an unexpected reply", self.address))
                    }),
                };
                if let Reply::Flushed(_) = reply {
                    self.crossings += 1;
                    self.waits = Duration::ZERO;
                }
                self.done += length;
                if self.done == self.input.len() {
                    self.input.clear();
                    self.done = 0;
                }
                return taken;
            }
            match self.stream.read(&mut self.input, READ_BYTES, deadline) {
                Ok(0) => return Err(self.gone()),
                // No reply begins so.
                Ok(_) if self.server.is_empty() && self.input.starts_with(TLS_ALERT) => {
                    let said = format!("{} speaks TLS: connect to `tls://...`", self.address);
                    return Err(Failure::new(Exit::Refused, said));
                }
                Ok(_) => {}
                Err(ReadError::TimedOut) => {
                    let message = format!("{} did not answer within {} s", self.address, within.as_secs());
                    return Err(Failure::new(Exit::Refused, message));
                }
                Err(other) => return Err(Failure::new(Exit::Refused, other)),
            }
        }
    }

    /// Ends the session in order.
    ///
    /// # Errors
    /// It had ended already.
    pub fn close(mut self) -> Result<(), Failure> {
        let mut out = Vec::new();
        encode::plain(&mut out, op::BYE);
        self.send(&out)?;
        self.receive(|reply| matches!(reply, Reply::Farewell).then_some(()))
    }

    fn gone(&self) -> Failure {
        Failure::new(Exit::Refused, format!("{} closed the connection", self.address))
    }
}

/// Makes a failure of the server's last words, with a line that says how to go on.
fn refusal(address: &Address, number: u32, text: &str) -> Failure {
    let failure = Failure::new(Exit::Refused, format!("{address} ended the session: {text}"));
    if number == ErrorNumber::BadToken as u32 {
        return failure.help(match address.may_ask_for_token() {
            true => "pass the server's token with `--token-file FILE` or the variable BIFROST_TOKEN",
            false => "the server has roles: its settings say in [roles.NAME] which `uids` have one",
        });
    }
    failure
}
