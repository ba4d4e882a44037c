//! The tables, and every statement that is used on them.
//!
//! They are plain SQL, so that databases that speak the protocol of PostgreSQL accept them as well.
//! The form of the tables is described in docs/spec/repository-format.md.

use tokio_postgres::Row;

use crate::postgres::link::{BEGIN, COMMIT, Pool, Request, Trouble};
use crate::record::Reader;
use crate::store::initial;
use crate::store::{decode_orefs, encode_orefs};
use crate::{Error, Identity, Oref};

/// The version of the tables.
pub const FORMAT: u64 = 1;
/// The number in its place while a store is being filled.
pub const FILLING: u64 = 0;

/// Makes the tables. The first is made first, so that an unfinished store can be told from a
/// database without one.
const CREATE: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS bifrost_store (one INT8 PRIMARY KEY, format INT8 NOT NULL, head INT8 NOT NULL, \
     classes INT8 NOT NULL, collection INT8 NOT NULL, collections INT8 NOT NULL, collector BYTEA NOT NULL)",
    "CREATE TABLE IF NOT EXISTS bifrost_orefs (one INT8 PRIMARY KEY, next INT8 NOT NULL)",
    "CREATE TABLE IF NOT EXISTS bifrost_objects (oref INT8 PRIMARY KEY, tid INT8 NOT NULL, record BYTEA NOT NULL)",
    "CREATE TABLE IF NOT EXISTS bifrost_changes (tid INT8 PRIMARY KEY, ticket BYTEA NOT NULL, written INT8 NOT NULL, \
     orefs BYTEA NOT NULL, marks BYTEA, unreadable INT8)",
    "CREATE TABLE IF NOT EXISTS bifrost_classes (number INT8 PRIMARY KEY, class BYTEA NOT NULL)",
    "CREATE TABLE IF NOT EXISTS bifrost_replies (session BYTEA PRIMARY KEY, number INT8 NOT NULL, tid INT8 NOT NULL, \
     reply BYTEA NOT NULL)",
    "CREATE INDEX IF NOT EXISTS bifrost_replies_by_tid ON bifrost_replies (tid)",
    "CREATE TABLE IF NOT EXISTS bifrost_processes (id BYTEA PRIMARY KEY, answered INT8 NOT NULL, seen TIMESTAMPTZ NOT NULL)",
    "CREATE TABLE IF NOT EXISTS bifrost_held (process BYTEA, part INT8, orefs BYTEA NOT NULL, PRIMARY KEY (process, part))",
    CREATE_IDENTITY,
];

/// Makes the table of the identity, which older stores do not have.
const CREATE_IDENTITY: &str =
    "CREATE TABLE IF NOT EXISTS bifrost_identity (one INT8 PRIMARY KEY, identity BYTEA NOT NULL)";

/// Removes the tables, all at once.
pub const DROP: &str = "DROP TABLE IF EXISTS bifrost_identity, bifrost_held, bifrost_processes, \
    bifrost_replies, bifrost_classes, bifrost_changes, bifrost_objects, bifrost_orefs, bifrost_store";

macro_rules! statements {
    ($($name:ident = $text:expr;)*) => {
        /// A statement that is prepared once for each connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sql { $(#[doc = $text] $name,)* }

        /// The texts, in the order of [`Sql`].
        pub const TEXTS: &[&str] = &[$($text),*];
    };
}

statements! {
    Format = "SELECT format FROM bifrost_store WHERE one = 1";
    Tables = "SELECT CAST(table_name AS TEXT) FROM information_schema.tables \
              WHERE table_schema = current_schema() AND table_name LIKE 'bifrost\\_%'";
    Init = "INSERT INTO bifrost_store VALUES (1, $1, $2, 0, 0, 0, $3) ON CONFLICT (one) DO NOTHING RETURNING one";
    SetFormat = "UPDATE bifrost_store SET format = $1 WHERE one = 1";
    InitIdentity = "INSERT INTO bifrost_identity VALUES (1, $1) ON CONFLICT (one) DO NOTHING";
    Identity = "SELECT identity FROM bifrost_identity WHERE one = 1";
    InitOrefs = "INSERT INTO bifrost_orefs VALUES (1, $1) ON CONFLICT (one) DO NOTHING";
    // Of one moment: where the store is, and what was written after a commit.
    Log = "SELECT s.head, s.classes, s.collection, p.answered, c.tid, c.ticket, c.orefs FROM bifrost_store s \
           LEFT JOIN bifrost_processes p ON p.id = $1 LEFT JOIN bifrost_changes c ON c.tid > $2 WHERE s.one = 1 ORDER BY c.tid";
    Fetch = "SELECT s.head, s.classes, p.answered, o.oref, o.tid, o.record FROM bifrost_store s \
             LEFT JOIN bifrost_processes p ON p.id = $1 LEFT JOIN bifrost_objects o ON o.oref = ANY($2) WHERE s.one = 1";
    // Puts a transaction in line: no other that does so, or that moves the head, overtakes it.
    Lock = "SELECT head FROM bifrost_store WHERE one = 1 FOR UPDATE";
    Touch = "UPDATE bifrost_store SET head = head WHERE one = 1";
    Head = "UPDATE bifrost_store SET head = $1 WHERE one = 1";
    CountClass = "UPDATE bifrost_store SET classes = $1 WHERE one = 1";
    Put = "INSERT INTO bifrost_objects (oref, tid, record) \
           SELECT * FROM unnest(CAST($1 AS INT8[]), CAST($2 AS INT8[]), CAST($3 AS BYTEA[])) \
           ON CONFLICT (oref) DO UPDATE SET tid = excluded.tid, record = excluded.record";
    Change = "INSERT INTO bifrost_changes (tid, ticket, written, orefs, marks, unreadable) \
              SELECT c.tid, CAST($1 AS BYTEA), c.written, c.orefs, c.marks, c.unreadable \
              FROM unnest(CAST($2 AS INT8[]), CAST($3 AS INT8[]), CAST($4 AS BYTEA[]), CAST($5 AS BYTEA[]), CAST($6 AS INT8[])) \
              AS c (tid, written, orefs, marks, unreadable)";
    Replies = "SELECT session, number, reply FROM bifrost_replies WHERE session = ANY($1)";
    Reply = "INSERT INTO bifrost_replies (session, number, tid, reply) \
             SELECT * FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS INT8[]), CAST($3 AS INT8[]), CAST($4 AS BYTEA[])) \
             ON CONFLICT (session) DO UPDATE SET number = excluded.number, tid = excluded.tid, reply = excluded.reply";
    Allocate = "UPDATE bifrost_orefs SET next = next + CAST($1 AS INT8) \
                WHERE one = 1 AND next <= CAST($2 AS INT8) - CAST($1 AS INT8) RETURNING next";
    Given = "SELECT next FROM bifrost_orefs WHERE one = 1";
    Classes = "SELECT number, class FROM bifrost_classes WHERE number > $1 ORDER BY number";
    Class = "INSERT INTO bifrost_classes (number, class) SELECT * FROM unnest(CAST($1 AS INT8[]), CAST($2 AS BYTEA[]))";
    Scan = "SELECT oref, tid, record FROM bifrost_objects WHERE oref >= $1 ORDER BY oref LIMIT $2";
    Info = "SELECT (SELECT head FROM bifrost_store), (SELECT classes FROM bifrost_store), (SELECT next FROM bifrost_orefs), \
            (SELECT count(*) FROM bifrost_objects), \
            (SELECT CAST(COALESCE(sum(length(record)), 0) AS INT8) FROM bifrost_objects), (SELECT count(*) FROM bifrost_replies)";
    Join = "INSERT INTO bifrost_processes (id, answered, seen) SELECT CAST($1 AS BYTEA), collection, now() FROM bifrost_store WHERE one = 1 \
            ON CONFLICT (id) DO UPDATE SET answered = excluded.answered, seen = excluded.seen";
    Leave = "DELETE FROM bifrost_processes WHERE id = $1";
    LeaveHeld = "DELETE FROM bifrost_held WHERE process = $1";
    Beat = "UPDATE bifrost_processes SET seen = now() WHERE id = $1";
    // Takes a process's place away if nothing was heard of it for so many milliseconds.
    Expire = "DELETE FROM bifrost_processes WHERE id = $1 AND seen < now() - CAST($2 AS INT8) * INTERVAL '1 millisecond'";
    Processes = "SELECT id, answered FROM bifrost_processes";
    // Processes of which something was heard within so many milliseconds.
    Alive = "SELECT id FROM bifrost_processes WHERE seen >= now() - CAST($1 AS INT8) * INTERVAL '1 millisecond'";
    Answered = "UPDATE bifrost_processes SET answered = $2, seen = now() WHERE id = $1 RETURNING answered";
    Hold = "INSERT INTO bifrost_held (process, part, orefs) \
            SELECT CAST($1 AS BYTEA), h.part, h.orefs FROM unnest(CAST($2 AS INT8[]), CAST($3 AS BYTEA[])) AS h (part, orefs)";
    Held = "SELECT orefs FROM bifrost_held WHERE process = $1 ORDER BY part";
    Collection = "SELECT head, collection, collections, collector FROM bifrost_store WHERE one = 1 FOR UPDATE";
    StartCollection = "UPDATE bifrost_store SET collection = $1, collections = $1, collector = $2 WHERE one = 1";
    EndCollection = "UPDATE bifrost_store SET collection = 0 WHERE one = 1";
    Marks = "SELECT tid, marks, unreadable FROM bifrost_changes WHERE tid > $1 ORDER BY tid";
    White = "SELECT oref FROM bifrost_objects WHERE oref >= $1 AND tid <= $2 ORDER BY oref LIMIT $3";
    Free = "DELETE FROM bifrost_objects WHERE oref = ANY($1) AND tid <= $2 RETURNING CAST(length(record) AS INT8)";
    Trim = "DELETE FROM bifrost_changes WHERE tid <= $1 AND (SELECT collection FROM bifrost_store WHERE one = 1) = 0";
    Excess = "SELECT CAST(COALESCE(max(tid), 0) AS INT8) FROM \
              (SELECT tid, sum(written + 1) OVER (ORDER BY tid DESC) AS kept FROM bifrost_changes) c WHERE kept > CAST($1 AS INT8)";
    // The last reply that is too old, by their number and by their bytes.
    OldReplies = "SELECT CAST(COALESCE(max(tid), 0) AS INT8) FROM (SELECT tid, row_number() OVER (ORDER BY tid DESC) AS many, \
                  sum(length(reply)) OVER (ORDER BY tid DESC) AS bytes FROM bifrost_replies) r WHERE many > CAST($1 AS INT8) OR bytes > CAST($2 AS INT8)";
    Forget = "DELETE FROM bifrost_replies WHERE tid <= $1";
}

/// True if the database has a store. An error if it has one that is not whole, or of another
/// version, or tables that are no store.
pub fn look(pool: &Pool) -> Result<bool, Error> {
    let ask = |sql| pool.repeated(|connection| connection.ask(sql, vec![]));
    let tables = ask(Sql::Tables)?;
    let is_there = |table| tables.iter().any(|row| row.try_get(0).is_ok_and(|name: &str| name == table));
    if !is_there("bifrost_store") {
        if tables.is_empty() {
            return Ok(false);
        }
        return Err(Error::NotAStore { what: "the table `bifrost_store` is missing".to_owned() });
    }
    let rows = ask(Sql::Format)?;
    // One that was begun has the table without its row.
    let Some(row) = rows.first() else { return Ok(false) };
    let format = number(row, 0)?;
    if format == FORMAT && !is_there("bifrost_identity") {
        define(pool, CREATE_IDENTITY)?;
    }
    match format {
        FORMAT => pool.repeated(|connection| connection.prepare_all()).map(|()| true),
        FILLING => Err(Error::Unfinished),
        found => Err(Error::Format { found, known: FORMAT }),
    }
}

/// Makes a table, if it is not there.
fn define(pool: &Pool, text: &'static str) -> Result<(), Error> {
    pool.repeated(|connection| match connection.define(text) {
        // Another process makes the same table at this moment.
        Err(Trouble::Refused(Error::Database { reason }))
            if ["(23505)", "(42710)", "(42P07)"].iter().any(|code| reason.ends_with(code)) =>
        {
            Err(Trouble::Again)
        }
        other => other,
    })
}

/// Makes a store in a database that has none; several processes may do so at once. Returns true if
/// it was this one.
///
/// With the name of a process it is one that is being filled, and the process has its place in it
/// from the start.
pub fn create(pool: &Pool, filling: Option<&[u8]>) -> Result<bool, Error> {
    CREATE.iter().try_for_each(|text| define(pool, text))?;
    let (loaded, root) = initial();
    let format = if filling.is_some() { FILLING } else { FORMAT };
    let (format, head, next) = (format as i64, loaded.head.0 as i64, loaded.reserved as i64);
    pool.repeated(|connection| {
        let none: &[u8] = &[];
        let made = connection.run(&[BEGIN, Request::With(Sql::Init, vec![&format, &head, &none])])?;
        if made.last().is_none_or(Vec::is_empty) {
            connection.run(&[COMMIT])?;
            return Ok(false);
        }
        let (oref, tid, record) =
            (vec![Oref::ROOT.get() as i64], vec![root.tid.0 as i64], vec![&root.bytes[..]]);
        let mut requests = vec![
            Request::With(Sql::InitOrefs, vec![&next]),
            Request::With(Sql::Put, vec![&oref, &tid, &record]),
        ];
        let classes: Vec<Vec<u8>> = loaded.classes.iter().map(|class| encoded(class)).collect();
        let count = classes.len() as i64;
        let numbers: Vec<i64> = (1..=count).collect();
        requests.push(Request::With(Sql::Class, vec![&numbers, &classes]));
        requests.push(Request::With(Sql::CountClass, vec![&count]));
        if let Some(process) = &filling {
            requests.push(Request::With(Sql::Join, vec![process]));
        }
        requests.push(COMMIT);
        connection.run(&requests)?;
        Ok(true)
    })
}

/// Returns a class as bytes.
pub fn encoded(class: &crate::record::ClassDescriptor) -> Vec<u8> {
    let mut bytes = Vec::new();
    class.encode(&mut bytes);
    bytes
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::Damaged { what: format!("a row of the database is wrong: {what}") }
}

/// Returns a column that is a number, which none of the tables has below 0.
pub fn number(row: &Row, column: usize) -> Result<u64, Error> {
    let number: i64 = row.try_get(column).map_err(damaged)?;
    u64::try_from(number).map_err(|_| damaged(format!("{number} is below 0")))
}

/// Returns a column that is a number or nothing.
pub fn maybe_number(row: &Row, column: usize) -> Result<Option<u64>, Error> {
    let number: Option<i64> = row.try_get(column).map_err(damaged)?;
    let positive = |number| u64::try_from(number).map_err(|_| damaged(format!("{number} is below 0")));
    number.map(positive).transpose()
}

/// Returns a column that has an oref.
pub fn oref(row: &Row, column: usize) -> Result<Oref, Error> {
    Oref::new(number(row, column)?).ok_or_else(|| damaged("0 is not an oref"))
}

/// Returns a column that has bytes.
pub fn bytes(row: &Row, column: usize) -> Result<&[u8], Error> {
    row.try_get(column).map_err(damaged)
}

/// Returns the identity in the row that has it.
pub fn identity(rows: &[Row]) -> Result<Identity, Error> {
    let row = rows.first().ok_or_else(|| damaged("the identity of the store is missing"))?;
    let bytes = bytes(row, 0)?.try_into().map_err(|_| damaged("an identity has 16 bytes"))?;
    Ok(Identity::from_bytes(bytes))
}

/// Returns orefs as bytes, in order and each once.
pub fn orefs_as_bytes(orefs: &[Oref]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_orefs(orefs, &mut bytes);
    bytes
}

/// Returns all orefs of bytes that have nothing else.
pub fn orefs_of_bytes(bytes: &[u8]) -> Result<Vec<Oref>, Error> {
    let mut from = Reader::raw(bytes);
    decode_orefs(&mut from).and_then(|orefs| from.end().map(|()| orefs)).map_err(damaged)
}

/// Returns the additions of a commit to a collection, as bytes. They are the objects that it
/// created, and the references of the states that it wrote and of those that it replaced; both in
/// order.
pub fn encoded_marks(created: &[Oref], references: &[Oref]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_orefs(created, &mut bytes);
    encode_orefs(references, &mut bytes);
    bytes
}

/// Reads the output of [`encoded_marks`].
pub fn decoded_marks(bytes: &[u8]) -> Result<(Vec<Oref>, Vec<Oref>), Error> {
    let mut from = Reader::raw(bytes);
    let created = decode_orefs(&mut from).map_err(damaged)?;
    let references = decode_orefs(&mut from).map_err(damaged)?;
    from.end().map_err(damaged)?;
    Ok((created, references))
}
