//! Connections to the database: statements sent together, and failures told apart.
//!
//! Read [`Connection`] first. The statements are in `tables.rs`, and the transactions that they
//! make up in the modules that call them.
//!
//! - [`Connection::run`] sends several statements together, and then waits for all answers.
//! - Each failure is one of three kinds of [`Trouble`], by which the caller tries again or gives
//!   up.
//! - [`Pool`] owns the connections; a thread has one for the time of its call. [`Pool::once`] does
//!   some work over a connection, and [`Pool::repeated`] does it again, with the waits of
//!   [`Backoff`], until it succeeds or is refused.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use bifrost_workers::{Condvar, blocking};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use crate::Error;
use crate::postgres::Options;
use crate::postgres::address::Address;
use crate::postgres::tables::{Sql, TEXTS};

/// The reason why the database did not answer a request.
#[derive(Debug)]
pub enum Trouble {
    /// Another transaction was in the way: nothing was done, and it may be tried again at once.
    Again,
    /// The connection is lost, and with it the answer.
    Away(String),
    /// Nothing was done, and trying again is no use.
    Refused(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Refused(error)
    }
}

/// One of several statements that are sent together.
pub enum Request<'a> {
    /// Without arguments and answer: begins and ends transactions.
    Plain(&'static str),
    /// With arguments.
    With(Sql, Vec<&'a (dyn ToSql + Sync)>),
}

pub const BEGIN: Request<'_> = Request::Plain("BEGIN ISOLATION LEVEL SERIALIZABLE");
/// Begins a transaction that decides nothing: no other is undone because of it.
pub const BEGIN_ASIDE: Request<'_> = Request::Plain("BEGIN ISOLATION LEVEL READ COMMITTED");
pub const COMMIT: Request<'_> = Request::Plain("COMMIT");

/// A connection, which is driven by the thread that uses it.
pub struct Connection {
    client: Client,
    statements: Vec<Option<Statement>>,
    timeout: Duration,
    // Ends after the client.
    runtime: Runtime,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, tokio_postgres::Error>> + 'a>>;

/// Waits for all; each sends its parts in this order.
async fn all<T>(mut answers: Vec<Answer<'_, T>>) -> Vec<Result<T, tokio_postgres::Error>> {
    let mut results: Vec<Option<_>> = answers.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut waits = false;
        for (answer, result) in answers.iter_mut().zip(&mut results) {
            if result.is_none() {
                match answer.as_mut().poll(cx) {
                    Poll::Ready(ready) => *result = Some(ready),
                    Poll::Pending => waits = true,
                }
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().flatten().collect()
}

impl Connection {
    fn open(address: &Address, options: &Options) -> Result<Connection, Trouble> {
        let away = |error: std::io::Error| Trouble::Away(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(away)?;
        let mut config = address.config.clone();
        config.connect_timeout(options.statement_timeout);
        let client = wait_for(
            &runtime,
            limited(options.statement_timeout, async {
                let client = match &address.tls {
                    Some(tls) => {
                        let (client, connection) = config.connect(tls.clone()).await?;
                        tokio::spawn(connection);
                        client
                    }
                    None => {
                        let (client, connection) = config.connect(NoTls).await?;
                        tokio::spawn(connection);
                        client
                    }
                };
                // Transactions of clients that have gone without a word must not stay in the way of
                // others.
                let milliseconds = options.statement_timeout.as_millis();
                let set = format!(
                    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE; \
                 SET idle_in_transaction_session_timeout = {milliseconds}; SET statement_timeout = {milliseconds}"
                );
                client.batch_execute(&set).await?;
                Ok(client)
            }),
        )?;
        let statements = TEXTS.iter().map(|_| None).collect();
        Ok(Connection { client, statements, timeout: options.statement_timeout, runtime })
    }

    /// Sends all, and then waits for the answers: one way there and back. After a failure the
    /// transaction, if one was begun, must be rolled back.
    pub fn run(&mut self, requests: &[Request<'_>]) -> Result<Vec<Vec<Row>>, Trouble> {
        let Connection { client, statements, timeout, runtime } = self;
        wait_for(
            runtime,
            limited(*timeout, async {
                let mut missing: Vec<usize> = Vec::new();
                for request in requests {
                    if let Request::With(sql, _) = request
                        && statements[*sql as usize].is_none()
                        && !missing.contains(&(*sql as usize))
                    {
                        missing.push(*sql as usize);
                    }
                }
                if !missing.is_empty() {
                    let prepared = missing
                        .iter()
                        .map(|at| Box::pin(client.prepare(TEXTS[*at])) as Answer<'_, _>)
                        .collect();
                    for (at, statement) in missing.iter().zip(all(prepared).await) {
                        statements[*at] = Some(statement?);
                    }
                }
                let mut answers: Vec<Answer<'_, Vec<Row>>> = Vec::with_capacity(requests.len());
                for request in requests {
                    answers.push(match request {
                        Request::Plain(text) => Box::pin(async {
                            client.batch_execute(text).await?;
                            Ok(Vec::new())
                        }),
                        Request::With(sql, arguments) => {
                            let statement =
                                statements[*sql as usize].as_ref().expect("it was prepared above");
                            Box::pin(client.query(statement, arguments))
                        }
                    });
                }
                // The first failure is the reason of the others.
                all(answers).await.into_iter().collect()
            }),
        )
    }

    /// Returns the answer to one statement.
    pub fn ask(&mut self, sql: Sql, arguments: Vec<&(dyn ToSql + Sync)>) -> Result<Vec<Row>, Trouble> {
        Ok(self.run(&[Request::With(sql, arguments)])?.pop().unwrap_or_default())
    }

    /// Runs texts that have no place among the prepared ones, each a transaction of its own.
    pub fn define(&mut self, text: &str) -> Result<(), Trouble> {
        let Connection { client, timeout, runtime, .. } = self;
        wait_for(runtime, limited(*timeout, client.batch_execute(text)))
    }

    /// Prepares every statement, to check that the tables are the known ones.
    pub fn prepare_all(&mut self) -> Result<(), Trouble> {
        let Connection { client, statements, timeout, runtime } = self;
        wait_for(
            runtime,
            limited(*timeout, async {
                let prepared =
                    TEXTS.iter().map(|text| Box::pin(client.prepare(text)) as Answer<'_, _>).collect();
                for (place, statement) in statements.iter_mut().zip(all(prepared).await) {
                    *place = Some(statement?);
                }
                Ok(())
            }),
        )
    }
}

/// Waits for the database. Other workers go on meanwhile.
fn wait_for<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    blocking(|| runtime.block_on(work))
}

async fn limited<T>(
    timeout: Duration,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(timeout, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(trouble(&error)),
        Err(_) => Err(Trouble::Away("no answer in time".to_owned())),
    }
}

/// Returns the kind of trouble that an error is.
fn trouble(error: &tokio_postgres::Error) -> Trouble {
    let Some(database) = error.as_db_error() else {
        if let Some(reason) = distrusted(error) {
            return Trouble::Refused(Error::Untrusted { reason });
        }
        let reason = std::error::Error::source(error).map(ToString::to_string);
        return Trouble::Away(reason.map_or(error.to_string(), |reason| format!("{error}: {reason}")));
    };
    let code = database.code();
    let said = || format!("{} ({})", database.message(), code.code());
    match code {
        &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => Trouble::Again,
        &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_COLUMN
        | &SqlState::UNDEFINED_FUNCTION
        | &SqlState::DATATYPE_MISMATCH => Trouble::Refused(Error::NotAStore { what: said() }),
        // The statement may have been done: connections that end, servers that stop, statements
        // that take too long.
        _ if code.code().starts_with("08")
            || code.code().starts_with("57")
            || *code == SqlState::TOO_MANY_CONNECTIONS
            || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN =>
        {
            Trouble::Away(said())
        }
        _ => Trouble::Refused(Error::Database { reason: said() }),
    }
}

/// Returns the fault of the certificate that was shown, if that is the cause of a failure.
fn distrusted(error: &tokio_postgres::Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // The source of an error of input or output is the error behind it, and not itself.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(rustls::Error::InvalidCertificate(why)) = inner.and_then(|inner| inner.downcast_ref()) {
            return Some(why.to_string());
        }
        cause = error.source();
    }
    None
}

/// Some connections, each used by one thread at a time.
pub struct Pool {
    address: Address,
    options: Options,
    idle: Mutex<Idle>,
    returned: Condvar,
}

#[derive(Default)]
struct Idle {
    connections: Vec<Connection>,
    used: usize,
}

/// The waits between attempts: short ones first, each at random up to twice as long as the last.
pub struct Backoff {
    deadline: Instant,
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(250);

    pub fn new(patience: Duration) -> Backoff {
        Backoff { deadline: Instant::now() + patience, next: Backoff::FIRST }
    }

    /// Waits; returns false if it is time to give up.
    pub fn wait(&mut self) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        let mut byte = [0];
        // Without random numbers all wait as long as each other.
        let _ = getrandom::fill(&mut byte);
        bifrost_workers::sleep(self.next.mul_f32(f32::from(byte[0]) / 255.0));
        self.next = (self.next * 2).min(Backoff::LONGEST);
        true
    }
}

impl Pool {
    pub fn new(address: Address, options: Options) -> Pool {
        Pool { address, options, idle: Mutex::default(), returned: Condvar::new() }
    }

    /// Does some work once over a connection. After a failure its transaction is rolled back.
    pub fn once<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let mut connection = self.take()?;
        let result = work(&mut connection);
        let mut whole = true;
        match &result {
            Ok(_) => {}
            Err(Trouble::Away(_)) => whole = false,
            Err(_) => whole = connection.run(&[Request::Plain("ROLLBACK")]).is_ok(),
        }
        let mut idle = self.idle.lock();
        idle.used -= 1;
        if whole {
            idle.connections.push(connection);
        } else {
            // The others may have gone the same way.
            idle.connections.clear();
        }
        drop(idle);
        self.returned.notify_one();
        result
    }

    /// Does some work, and again if others are in the way or the connection is lost: it must be
    /// right to do it twice.
    pub fn repeated<T>(
        &self,
        mut work: impl FnMut(&mut Connection) -> Result<T, Trouble>,
    ) -> Result<T, Error> {
        let mut backoff = Backoff::new(self.options.patience);
        loop {
            let reason = match self.once(&mut work) {
                Ok(value) => return Ok(value),
                Err(Trouble::Refused(error)) => return Err(error),
                Err(Trouble::Again) => BUSY.to_owned(),
                Err(Trouble::Away(reason)) => reason,
            };
            if !backoff.wait() {
                return Err(Error::Away { reason });
            }
        }
    }

    fn take(&self) -> Result<Connection, Trouble> {
        let mut idle = self.idle.lock();
        while idle.used >= self.options.connections.max(1) {
            self.returned.wait(&mut idle);
        }
        idle.used += 1;
        if let Some(connection) = idle.connections.pop() {
            return Ok(connection);
        }
        drop(idle);
        Connection::open(&self.address, &self.options).inspect_err(|_| {
            self.idle.lock().used -= 1;
            self.returned.notify_one();
        })
    }
}

/// The reason why it is given up after [`Trouble::Again`].
pub const BUSY: &str = "conflicts with other transactions persist";
