//! The engine over a database passes the suite, and several processes share one. A process is here what has a store of its own
//! open.

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bifrost_repository::postgres::{Address, Options, Postgres, exists, open};
use bifrost_repository::record::ClassDescriptor;
use bifrost_repository::{
    AllObjects, BatchId, CLASSES_MAX, COMMIT_BYTES_MAX, Changes, CommitError, Error, Holder, Mistake, Oref,
    REPLIES_KEPT_BYTES_MAX, REPLY_BYTES_MAX, Repository, SESSIONS_KEPT_MAX, Tid, go_on,
};
use bytes::Bytes;
use support::cluster::{Cluster, cluster, url};
use support::proxy::Proxy;
use support::{commit_reading, directory, fetch, fresh, links, links_class, put, sound};

/// Asks often, and waits shortly.
fn options(changes_kept: usize) -> Options {
    Options {
        changes_kept,
        poll_interval: Duration::from_millis(5),
        lease: Duration::from_millis(600),
        patience: Duration::from_secs(20),
        ..Options::default()
    }
}

#[track_caller]
fn store(url: &str) -> Postgres {
    open(&url.parse().unwrap(), &options(1 << 16)).unwrap()
}

/// Waits until something is so, which it must be soon.
#[track_caller]
fn soon(mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(20), "it should have been so by now");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn suite() {
    let slow = Duration::from_secs(30);
    support::suite::suite(|changes_kept| {
        let options = Options { lease: slow, ..options(changes_kept) };
        open(&cluster().fresh().parse().unwrap(), &options).unwrap()
    });
}

#[test]
fn processes_have_one_identity() {
    let cluster = cluster();
    let schema = cluster.schema();
    let url = cluster.url(&schema);
    // Both make the store at once.
    let [one, other] = [0, 1].map(|_| {
        std::thread::spawn({
            let url = url.clone();
            move || store(&url)
        })
    });
    let (one, other) = (one.join().unwrap(), other.join().unwrap());
    let identity = one.identity();
    assert_eq!(other.identity(), identity);
    drop((one, other));
    assert_eq!(store(&url).identity(), identity);
    assert_ne!(store(&cluster.fresh()).identity(), identity);
    // A store of an older program has no table of it; several processes open it at once.
    cluster.sql(&format!("DROP TABLE {schema}.bifrost_identity"));
    let opening = [0, 1, 2, 3].map(|_| {
        std::thread::spawn({
            let url = url.clone();
            move || store(&url).identity()
        })
    });
    let [given, others @ ..] = opening.map(|thread| thread.join().unwrap());
    assert_ne!(given, identity);
    assert_eq!(others, [given; 3]);
    assert_eq!(store(&url).identity(), given);
    cluster.sql(&format!("UPDATE {schema}.bifrost_identity SET identity = 'short'"));
    let error = open(&url.parse().unwrap(), &options(1)).err().unwrap();
    assert!(error.to_string().contains("an identity has 16 bytes"), "{error}");
}

#[test]
fn processes_see_what_the_others_have_committed() {
    let url = cluster().fresh();
    assert!(!exists(&url.parse().unwrap(), &options(1)).unwrap());
    let [one, other] = [store(&url), store(&url)];
    assert!(exists(&url.parse().unwrap(), &options(1)).unwrap());
    let class = one.define_class(&links_class()).unwrap();
    let a = fresh(&one, 1)[0];
    let start = put(&one, vec![], vec![(a, links(class, 1, 0, &[]))]);
    // A fetch is of now, and what it finds is known.
    let fetched = other.fetch(&[a]).unwrap();
    assert_eq!((fetched.as_of, fetched.states[0].as_ref().unwrap().tid), (start, start));
    assert_eq!(other.classes()[class.0 as usize - 1].name, "links");
    assert_eq!(other.define_class(&links_class()).unwrap(), class);
    // Who fetches nothing hears of it as well.
    let next = put(&one, vec![(a, links(class, 2, 0, &[]))], vec![]);
    soon(|| other.head() == next);
    assert_eq!(other.changes(start, &AllObjects), Changes::Written { orefs: vec![a], upto: next });
    // Orefs are given once.
    let (mine, theirs) = (fresh(&one, 3000), fresh(&other, 3000));
    assert!(mine.iter().all(|oref| !theirs.contains(oref)));
    for store in [&one, &other] {
        sound(store);
    }
}

#[test]
fn conflicts_between_processes_are_found() {
    let url = cluster().fresh();
    // The other one does not ask by itself.
    let lazy = Options { poll_interval: Duration::from_secs(3600), ..options(1 << 16) };
    let (one, other) = (store(&url), open(&url.parse().unwrap(), &lazy).unwrap());
    let [a, b] = fresh(&one, 2)[..] else { panic!() };
    let start = put(&one, vec![], vec![(a, "0".into()), (b, "0".into())]);
    fetch(&other, a);
    let head = commit_reading(&one, start, &[], vec![(a, "1".into())], vec![], None).unwrap();
    assert_eq!(other.head(), start);
    match commit_reading(&other, start, &[a], vec![(b, "2".into())], vec![], None) {
        Err(CommitError::Conflict { orefs, upto }) => assert_eq!((orefs, upto), (vec![a], head)),
        result => panic!("{result:?}"),
    }
    assert_eq!(other.head(), head);
    // What was read and not written by others does not hinder.
    let after = commit_reading(&one, head, &[], vec![(a, "2".into())], vec![], None).unwrap();
    assert_eq!(
        commit_reading(&other, head, &[], vec![(b, "2".into())], vec![], None).unwrap().0,
        after.0 + 1
    );
    // A batch that was committed over one process is known to the other.
    let id = BatchId { session: 1 << 100, number: 1 };
    let batch = Some((id, Bytes::from("reply")));
    let last = commit_reading(&one, one.head(), &[], vec![(a, "3".into())], vec![], batch.clone());
    let again = commit_reading(&other, head, &[], vec![(a, "4".into())], vec![], batch);
    // The one that was first did not know of the commit to `b`, and does not care.
    assert!(last.is_ok());
    assert!(matches!(again, Err(CommitError::Repeated(reply)) if reply == "reply"));
    assert_eq!(other.outcome(id).unwrap(), Some("reply".into()));
}

/// Threads of several processes add to counters, and nothing is lost.
#[test]
fn counters_of_several_processes() {
    const EACH: u64 = 40;
    let url = cluster().fresh();
    let stores = [store(&url), store(&url), store(&url)];
    let [a, b] = fresh(&stores[0], 2)[..] else { panic!() };
    put(&stores[0], vec![], vec![(a, Bytes::from(vec![0; 8])), (b, Bytes::from(vec![0; 8]))]);
    let value = |bytes: &Bytes| u64::from_le_bytes(bytes[..].try_into().unwrap());
    std::thread::scope(|scope| {
        for store in &stores {
            for counter in [a, b] {
                scope.spawn(move || {
                    let mut done = 0;
                    while done < EACH {
                        let fetched = store.fetch(&[counter]).unwrap();
                        let next = value(&fetched.states[0].as_ref().unwrap().bytes) + 1;
                        let writes = vec![(counter, Bytes::copy_from_slice(&next.to_le_bytes()))];
                        match commit_reading(store, fetched.as_of, &[], writes, vec![], None) {
                            Ok(_) => done += 1,
                            Err(CommitError::Conflict { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        }
    });
    for counter in [a, b] {
        assert_eq!(value(&fetch(&stores[1], counter).unwrap().bytes), 3 * EACH);
    }
}

struct Holding(Mutex<Vec<Oref>>);

impl Holder for Holding {
    fn held(&self, found: &mut dyn FnMut(Oref)) {
        self.0.lock().unwrap().iter().for_each(|oref| found(*oref));
    }
}

#[test]
fn what_other_processes_hold_is_not_collected() {
    let url = cluster().fresh();
    let [one, other] = [store(&url), store(&url)];
    let class = one.define_class(&links_class()).unwrap();
    let [a, b, c, d] = fresh(&one, 4)[..] else { panic!() };
    let object = |targets: &[Oref]| links(class, 0, 0, targets);
    put(&one, vec![], vec![(a, object(&[b])), (b, object(&[])), (c, object(&[])), (d, object(&[]))]);
    let holder = Arc::new(Holding(Mutex::new(vec![a])));
    let registration = other.register(holder.clone());
    let mine = one.register(Arc::new(Holding(Mutex::new(vec![c]))));
    assert_eq!(one.collect(&mut go_on).unwrap().freed, 1);
    assert!(fetch(&other, a).is_some() && fetch(&other, b).is_some() && fetch(&other, d).is_none());
    *holder.0.lock().unwrap() = vec![b];
    assert_eq!(other.collect(&mut go_on).unwrap().freed, 1);
    assert!(fetch(&one, a).is_none() && fetch(&one, b).is_some() && fetch(&one, c).is_some());
    drop((registration, mine));
    assert_eq!(one.collect(&mut go_on).unwrap().freed, 2);
    // One that ends is not waited for.
    drop(other);
    assert_eq!(one.collect(&mut go_on).unwrap().freed, 0);
}

/// What sessions of one process do while another collects: they take references out of the store, hold them, and put them
/// back elsewhere.
#[test]
fn collection_beside_commits_of_other_processes() {
    let url = cluster().fresh();
    let [one, other] = [store(&url), store(&url)];
    let class = one.define_class(&links_class()).unwrap();
    let [left, right] = fresh(&one, 2)[..] else { panic!() };
    let entries = [("left", left), ("right", right)];
    let slots = vec![(left, links(class, 0, 0, &[])), (right, links(class, 0, 0, &[]))];
    put(&one, vec![(Oref::ROOT, directory(class, &entries))], slots);
    let holder = Arc::new(Holding(Mutex::default()));
    let _registration = other.register(holder.clone());
    soon(|| other.head() == one.head());
    let mut freed = 0;
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            for round in 0..60 {
                // Makes an object with one below it, cuts both off while it holds the upper one, and puts them in elsewhere.
                let [upper, lower] = fresh(&other, 2)[..] else { panic!() };
                let (from, to) = if round % 2 == 0 { (left, right) } else { (right, left) };
                holder.0.lock().unwrap().push(upper);
                let creates = vec![(upper, links(class, 1, 0, &[lower])), (lower, links(class, 2, 0, &[]))];
                put(&other, vec![(from, links(class, 3, 0, &[upper]))], creates);
                put(&other, vec![(from, links(class, 4, 0, &[]))], vec![]);
                let fetched = other.fetch(&[upper, lower]).unwrap();
                assert!(
                    fetched.states.iter().all(Option::is_some),
                    "what is held is there, and what it leads to"
                );
                put(&other, vec![(to, links(class, 5, 0, &[upper]))], vec![]);
                holder.0.lock().unwrap().clear();
            }
        });
        while !work.is_finished() {
            freed += one.collect(&mut go_on).unwrap().freed;
        }
        work.join().unwrap();
    });
    freed += one.collect(&mut go_on).unwrap().freed;
    assert!(freed > 0);
    sound(&one);
}

#[test]
fn a_process_that_was_silent_for_too_long_refuses_to_go_on() {
    let cluster = cluster();
    let schema = cluster.schema();
    let one = store(&cluster.url(&schema));
    let proxy = Proxy::start(&cluster.socket(), 1);
    let options = Options { patience: Duration::from_millis(300), ..options(1000) };
    let other = open(&url(proxy.folder(), &schema).parse().unwrap(), &options).unwrap();
    let a = fresh(&one, 1)[0];
    let class = one.define_class(&links_class()).unwrap();
    put(&one, vec![], vec![(a, links(class, 0, 0, &[]))]);
    let _registration = other.register(Arc::new(Holding(Mutex::new(vec![a]))));
    assert_eq!(one.collect(&mut go_on).unwrap().freed, 0);
    proxy.close();
    assert!(matches!(other.fetch(&[a]), Err(Error::Away { .. })));
    let put_root = || commit_reading(&other, other.head(), &[], vec![(Oref::ROOT, "".into())], vec![], None);
    assert!(matches!(put_root(), Err(CommitError::Store(Error::Away { .. }))));
    // Nobody knows whether it is still there, until it has been silent for as long as it may.
    assert_eq!(one.collect(&mut go_on).unwrap().freed, 1);
    proxy.open();
    soon(|| matches!(other.fetch(&[a]), Err(Error::Lost)));
    assert!(matches!(put_root(), Err(CommitError::Store(Error::Lost))));
    assert!(matches!(other.collect(&mut go_on), Err(Error::Lost)));
    assert_eq!(fetch(&one, Oref::ROOT).unwrap().tid, Tid(1));
}

/// A collection whose process is gone is not in the way of others for long.
#[test]
fn an_abandoned_collection_ends() {
    let cluster = cluster();
    let schema = cluster.schema();
    let one = store(&cluster.url(&schema));
    let table = format!("{schema}.bifrost_");
    cluster.sql(&format!(
        "INSERT INTO {table}processes VALUES ('gone', 0, now()); UPDATE {table}store SET collection = 1, collections = 1, \
         collector = 'gone'"
    ));
    // A commit leaves its marks, for nobody.
    let a = fresh(&one, 1)[0];
    put(&one, vec![], vec![(a, links(one.define_class(&links_class()).unwrap(), 0, 0, &[]))]);
    assert_eq!(cluster.sql(&format!("SELECT count(marks) FROM {table}changes")), "1");
    assert_eq!(one.collect(&mut go_on).unwrap().freed, 1);
    assert_eq!(cluster.sql(&format!("SELECT collection, collections FROM {table}store")), "0|2");
}

/// Nothing is done twice or lost when connections are cut, also while a commit is answered.
#[test]
fn cut_connections() {
    let cluster = cluster();
    let schema = cluster.schema();
    let proxy = Proxy::start(&cluster.socket(), 7);
    let store = store(&url(proxy.folder(), &schema));
    let a = fresh(&store, 1)[0];
    put(&store, vec![], vec![(a, Bytes::from(vec![0; 8]))]);
    proxy.cut_one_in(25);
    let start = store.head();
    for i in 1..=300u64 {
        let batch = (BatchId { session: 3, number: i }, Bytes::from("done"));
        let batch = (i % 3 == 0).then_some(batch);
        let writes = vec![(a, Bytes::copy_from_slice(&i.to_le_bytes()))];
        let tid = commit_reading(&store, store.head(), &[], writes, vec![], batch).unwrap();
        assert_eq!(tid.0, start.0 + i);
    }
    assert!(proxy.cuts() > 20, "{} connections were cut", proxy.cuts());
    proxy.cut_one_in(0);
    assert_eq!(fetch(&store, a).unwrap().tid.0, start.0 + 300);
}

/// Whoever ends the connections of two processes while they commit: no commit is lost, none is done twice, and both go on.
#[test]
fn terminated_connections() {
    const EACH: u64 = 150;
    const THREADS: u64 = 3;
    let cluster = cluster();
    let url = format!("{}&application_name=victims", cluster.fresh());
    let stores = [store(&url), store(&url)];
    let [a, b] = fresh(&stores[0], 2)[..] else { panic!() };
    let zero = Bytes::from(vec![0; 8]);
    let start = put(&stores[0], vec![], vec![(a, zero.clone()), (b, zero)]);
    let value = |bytes: &Bytes| u64::from_le_bytes(bytes[..].try_into().unwrap());
    let (running, mut ended) = (AtomicU64::new(2 * THREADS), 0);
    let add = |store: &Postgres, counter: Oref, session: u64| {
        for number in 1..=EACH {
            loop {
                let fetched = store.fetch(&[counter]).unwrap();
                let next = value(&fetched.states[0].as_ref().unwrap().bytes) + 1;
                let writes = vec![(counter, Bytes::copy_from_slice(&next.to_le_bytes()))];
                let id = BatchId { session: u128::from(session), number };
                // A third of them without a batch by which they could be known again.
                let batch = (number % 3 > 0).then(|| (id, Bytes::from("done")));
                match commit_reading(store, fetched.as_of, &[], writes, vec![], batch) {
                    Ok(_) => break,
                    Err(CommitError::Conflict { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
        running.fetch_sub(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for (at, store) in (0..).zip(&stores) {
            for thread in 0..THREADS {
                let counter = if thread == 0 { b } else { a };
                let add = &add;
                scope.spawn(move || add(store, counter, 1 + at * THREADS + thread));
            }
        }
        while running.load(Ordering::Relaxed) > 0 {
            let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'victims'";
            ended += cluster.sql(kill).parse::<u64>().unwrap();
        }
    });
    println!("{ended} connections were ended");
    assert!(ended > 20, "{ended} connections were ended");
    for store in &stores {
        let [of_a, of_b] = [a, b].map(|counter| value(&fetch(store, counter).unwrap().bytes));
        assert_eq!((of_a, of_b), (2 * (THREADS - 1) * EACH, 2 * EACH));
        assert_eq!(store.head().0, start.0 + 2 * THREADS * EACH);
        for session in 1..=2 * THREADS {
            let last = BatchId { session: u128::from(session), number: EACH - 1 };
            assert_eq!(store.outcome(last).unwrap(), Some("done".into()));
        }
    }
    assert_eq!(stores[0].collect(&mut go_on).unwrap().freed, 2);
}

/// An authority, a certificate of it for `localhost`, and the key of that; as text.
fn certificate() -> [String; 3] {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    [authority, params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem()]
}

#[test]
fn encrypted_connections() {
    let folder = tempfile::tempdir().unwrap();
    let [authority, certificate, key] = self::certificate();
    let [other_authority, _, _] = self::certificate();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string().replace('/', "%2F")
    };
    let (right, wrong) = (file("right.pem", &authority), file("wrong.pem", &other_authority));
    // One that is free now; who takes it in between makes this fail.
    let port = std::net::TcpListener::bind("localhost:0").unwrap().local_addr().unwrap().port();
    let cluster = Cluster::encrypted(port, &certificate, &key);
    let schema = cluster.schema();
    let address = |host: &str, tls: &str| -> Address {
        let place = format!("postgres://bifrost@{host}:{port}/postgres?options=-csearch_path%3D{schema}");
        format!("{place}&application_name=encrypted{tls}").parse().unwrap()
    };
    let encrypted = "SELECT count(*), bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'encrypted'";
    for mode in ["require", "verify-full"] {
        let with = |roots: &str| format!("&sslmode={mode}&sslrootcert={roots}");
        let store = open(&address("localhost", &with(&right)), &options(10)).unwrap();
        let a = fresh(&store, 1)[0];
        put(&store, vec![], vec![(a, "secret".into())]);
        assert_eq!(&fetch(&store, a).unwrap().bytes[..], b"secret");
        let told = cluster.sql(encrypted);
        assert!(told.ends_with("|t"), "{told}");
        drop(store);
        // Signed by another, or for another name: refused at once, before anything is sent.
        for (host, roots) in [("localhost", &wrong), ("127.0.0.1", &right)] {
            let start = Instant::now();
            let error = open(&address(host, &with(roots)), &options(10)).err().unwrap();
            assert!(matches!(error, Error::Untrusted { .. }), "{error}");
            assert!(error.to_string().contains("sslrootcert=FILE"), "{error}");
            assert!(start.elapsed() < Duration::from_secs(10));
        }
    }
    // Who asks for no encryption gets none.
    let plain = open(&address("localhost", ""), &options(10)).unwrap();
    soon(|| cluster.sql(encrypted).ends_with("|f"));
    drop(plain);
    // A server that has none is not talked to without.
    let without = [(self::cluster().url(&self::cluster().schema()), Duration::from_millis(50))];
    for (url, patience) in without {
        let options = Options { patience, ..options(10) };
        let address = format!("{url}&sslmode=require&sslrootcert={right}").parse().unwrap();
        assert!(open(&address, &options).is_err());
    }
}

/// A collection that frees many portions, and one whose process ended between two of them: what is left of the garbage is no mistake,
/// and goes with the next.
#[test]
fn garbage_is_freed_in_portions() {
    const GARBAGE: u32 = 20_000;
    let cluster = cluster();
    let schema = cluster.schema();
    let one = store(&cluster.url(&schema));
    let class = one.define_class(&links_class()).unwrap();
    let [root, kept] = fresh(&one, 2)[..] else { panic!() };
    let chain = |store: &Postgres| {
        let orefs = fresh(store, GARBAGE);
        let next = |at: usize| orefs[(at + 1) % orefs.len()];
        let creates = orefs.iter().enumerate().map(|(at, oref)| (*oref, links(class, 0, 0, &[next(at)])));
        put(store, vec![], creates.collect());
        orefs
    };
    let entries = vec![(Oref::ROOT, directory(class, &[("root", root)]))];
    put(&one, entries, vec![(root, links(class, 0, 0, &[kept])), (kept, links(class, 0, 0, &[]))]);
    chain(&one);
    let collected = one.collect(&mut go_on).unwrap();
    assert_eq!((collected.freed, collected.live), (u64::from(GARBAGE), 3));
    let count = || cluster.sql(&format!("SELECT count(*) FROM {schema}.bifrost_objects"));
    assert_eq!(count(), "3");
    let orefs = chain(&one);
    let gone = orefs[..10_000].iter().map(|oref| oref.get().to_string()).collect::<Vec<_>>().join(",");
    cluster
        .sql(&format!("DELETE FROM {schema}.bifrost_objects WHERE oref = ANY(CAST('{{{gone}}}' AS INT8[]))"));
    sound(&one);
    assert_eq!(one.collect(&mut go_on).unwrap().freed, u64::from(GARBAGE) - 10_000);
    assert_eq!(count(), "3");
    // Of what lives, the same is one.
    cluster.sql(&format!("DELETE FROM {schema}.bifrost_objects WHERE oref = {}", kept.get()));
    let mistakes = one.check(&mut |_| {}).unwrap().mistakes;
    assert_eq!(mistakes, [Mistake::Dangling { from: root, to: kept }]);
}

/// The limits that the database keeps by itself: at the limit, and one beyond.
#[test]
fn limits_of_a_database() {
    let cluster = cluster();
    let schema = cluster.schema();
    let store = store(&cluster.url(&schema));
    let table = format!("{schema}.bifrost_");
    // Bytes of a commit.
    let part = Bytes::from(vec![7; COMMIT_BYTES_MAX / 16]);
    let orefs = fresh(&store, 17);
    let creates: Vec<_> = orefs.iter().map(|oref| (*oref, part.clone())).collect();
    let refused = commit_reading(&store, store.head(), &[], vec![], creates.clone(), None);
    assert!(
        matches!(refused, Err(CommitError::Store(Error::Limit { limit, .. })) if limit == COMMIT_BYTES_MAX as u64)
    );
    put(&store, vec![], creates[..16].to_vec());
    assert!(orefs[..16].iter().all(|oref| fetch(&store, *oref).unwrap().bytes == part));
    assert!(fetch(&store, orefs[16]).is_none());
    // Sessions whose reply is kept, the one that is not there yet being the youngest; and the bytes of their replies.
    let kept = |sessions: usize, bytes: usize| {
        cluster.sql(&format!(
            "DELETE FROM {table}replies; INSERT INTO {table}replies SELECT CAST(lpad(CAST(n AS TEXT), 16, '0') AS BYTEA), 1, 1, \
             CAST(repeat('x', {bytes}) AS BYTEA) FROM generate_series(1, {sessions}) n"
        ));
    };
    // Whoever opens a store trims what others have left.
    let trim = || drop(self::store(&cluster.url(&schema)));
    let left = || cluster.sql(&format!("SELECT count(*), min(tid) = 1 FROM {table}replies"));
    let commit = |number| {
        let batch = (BatchId { session: 5, number }, Bytes::from("x"));
        commit_reading(&store, store.head(), &[], vec![], vec![], Some(batch)).unwrap()
    };
    for (sessions, bytes) in
        [(SESSIONS_KEPT_MAX, 0), (REPLIES_KEPT_BYTES_MAX / REPLY_BYTES_MAX, REPLY_BYTES_MAX)]
    {
        kept(sessions - 1, bytes);
        let number = store.head().0;
        commit(number);
        trim();
        let too_much = usize::from(bytes == 0);
        // Those before are all of one commit, and go together.
        assert_eq!(left(), format!("{sessions}|t"));
        kept(sessions + too_much, bytes);
        commit(number + 1);
        trim();
        assert_eq!(left(), "1|f");
        assert_eq!(store.outcome(BatchId { session: 5, number: number + 1 }).unwrap(), Some("x".into()));
    }
    // Classes.
    let last = CLASSES_MAX - 1;
    cluster.sql(&format!(
        "INSERT INTO {table}classes SELECT n, class FROM {table}classes, generate_series(2, {last}) n WHERE number = 1; \
         UPDATE {table}store SET classes = {last}"
    ));
    let class = store.define_class(&links_class()).unwrap();
    assert_eq!(class.0 as usize, CLASSES_MAX);
    let refused = store.define_class(&ClassDescriptor { version: 2, ..links_class() });
    assert!(matches!(refused, Err(Error::Limit { limit, .. }) if limit == CLASSES_MAX as u64));
    assert_eq!(store.define_class(&links_class()).unwrap(), class);
    put(&store, vec![(orefs[0], links(class, 0, 0, &[]))], vec![]);
}

#[test]
fn databases_that_are_no_stores_are_refused() {
    let cluster = cluster();
    let address = |schema: &str| cluster.url(schema).parse().unwrap();
    let said = |schema: &str| open(&address(schema), &options(1)).err().unwrap().to_string();
    // One of another version.
    let schema = cluster.schema();
    drop(store(&cluster.url(&schema)));
    cluster.sql(&format!("UPDATE {schema}.bifrost_store SET format = 7"));
    assert_eq!(said(&schema), "the store has format 7, and this program reads 1: use a newer program");
    // Tables of others.
    let schema = cluster.schema();
    cluster.sql(&format!("CREATE TABLE {schema}.bifrost_store (name TEXT)"));
    assert!(said(&schema).contains("tables that do not belong to a store"), "{}", said(&schema));
    let schema = cluster.schema();
    cluster.sql(&format!("CREATE TABLE {schema}.bifrost_objects (name TEXT)"));
    assert!(said(&schema).contains("tables that do not belong to a store"), "{}", said(&schema));
    let schema = cluster.schema();
    drop(store(&cluster.url(&schema)));
    cluster.sql(&format!("ALTER TABLE {schema}.bifrost_changes RENAME COLUMN orefs TO names"));
    assert!(said(&schema).contains("tables that do not belong to a store"), "{}", said(&schema));
    // One that was begun is finished.
    let schema = cluster.schema();
    drop(store(&cluster.url(&schema)));
    cluster.sql(&format!("DELETE FROM {schema}.bifrost_store; DELETE FROM {schema}.bifrost_classes; DROP TABLE {schema}.bifrost_held"));
    let store = store(&cluster.url(&schema));
    assert_eq!(store.head(), Tid(1));
}

/// Whatever is in the rows: an error, and no panic.
#[test]
fn damaged_rows() {
    let cluster = cluster();
    for damage in [
        "UPDATE bifrost_changes SET orefs = 'xyz'",
        "UPDATE bifrost_changes SET orefs = '\\x01ffffffffffffffffff01'",
        "DELETE FROM bifrost_store",
        "UPDATE bifrost_store SET head = -5",
        "UPDATE bifrost_store SET classes = 9; INSERT INTO bifrost_classes VALUES (7, 'a')",
        "UPDATE bifrost_store SET classes = 9; INSERT INTO bifrost_classes VALUES (3, 'a')",
        "UPDATE bifrost_objects SET tid = -1",
        "UPDATE bifrost_orefs SET next = 9223372036854775000",
        "UPDATE bifrost_orefs SET next = -7",
        "DELETE FROM bifrost_orefs",
        "UPDATE bifrost_objects SET record = ''",
        "DELETE FROM bifrost_objects",
        "INSERT INTO bifrost_objects VALUES (-5, 1, '')",
        "DELETE FROM bifrost_processes",
        "DROP TABLE bifrost_changes",
    ] {
        let schema = cluster.schema();
        let [one, other] = [0, 1].map(|_| store(&cluster.url(&schema)));
        let class = one.define_class(&links_class()).unwrap();
        let a = fresh(&one, 1)[0];
        put(&one, vec![(Oref::ROOT, directory(class, &[("a", a)]))], vec![(a, links(class, 0, 0, &[]))]);
        cluster.sql(&format!("SET search_path = {schema}; {damage}"));
        let mut failed = 0;
        for store in [&one, &other] {
            failed += u32::from(store.fetch(&[a, Oref::ROOT]).map_or(true, |f| f.states.contains(&None)));
            failed += u32::from(store.allocate(10_000).is_err());
            failed += u32::from(store.scan(Oref::ROOT, 10).is_err());
            failed += u32::from(store.check(&mut |_| {}).map_or(true, |report| !report.mistakes.is_empty()));
            failed += u32::from(store.collect(&mut go_on).is_err());
            failed += u32::from(store.outcome(BatchId { session: 1, number: 1 }).is_err());
            failed += u32::from(
                commit_reading(store, store.head(), &[], vec![(a, "".into())], vec![], None).is_err(),
            );
        }
        assert!(failed > 0, "{damage}");
    }
}

/// The log in the database is as short as the one in memory, and who was away for longer is told so.
#[test]
fn the_log_is_trimmed() {
    let cluster = cluster();
    let schema = cluster.schema();
    let address = cluster.url(&schema).parse().unwrap();
    let one = store(&cluster.url(&schema));
    let lazy = Options { poll_interval: Duration::from_secs(3600), ..options(1 << 16) };
    let other = open(&address, &lazy).unwrap();
    let a = fresh(&one, 1)[0];
    let start = put(&one, vec![], vec![(a, "0".into())]);
    fetch(&other, a);
    for _ in 0..20 {
        put(&one, vec![(a, "1".into())], vec![]);
    }
    // A process that keeps less comes.
    let small = open(&address, &options(10)).unwrap();
    assert_eq!(cluster.sql(&format!("SELECT count(*) FROM {schema}.bifrost_changes")), "5");
    let head = fetch(&other, a).unwrap().tid;
    assert_eq!(other.changes(start, &AllObjects), Changes::TooOld { upto: head });
    let late = commit_reading(&other, start, &[Oref::ROOT], vec![], vec![], None);
    assert!(matches!(late, Err(CommitError::TooOld { upto }) if upto == head));
    assert_eq!(small.head(), head);
}

#[test]
fn more_orefs_than_there_are() {
    let cluster = cluster();
    let schema = cluster.schema();
    let store = store(&cluster.url(&schema));
    cluster.sql(&format!("UPDATE {schema}.bifrost_orefs SET next = {}", Oref::MAX - 100));
    assert!(matches!(store.allocate(1), Err(Error::Limit { limit: Oref::MAX, .. })));
    let large = BatchId { session: 1, number: u64::MAX };
    let refused = commit_reading(&store, store.head(), &[], vec![], vec![], Some((large, Bytes::new())));
    assert!(matches!(refused, Err(CommitError::Store(Error::Limit { .. }))));
}

#[test]
fn a_server_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { patience: Duration::from_millis(50), ..options(1) };
    let address = url(folder.path(), "s").replace("bifrost@", "bifrost:s3cret@").parse().unwrap();
    let error = open(&address, &options).err().unwrap();
    assert!(matches!(error, Error::Away { .. }));
    assert!(!format!("{error} {error:?} {address:?}").contains("s3cret"), "{error}");
}
