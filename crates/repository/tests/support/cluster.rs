//! A database server for one test program: in a temporary folder, reached by a socket there, and gone when the program
//! ends, however it does.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Who runs the server when the tests are run by root, for whom it does not start: `nobody`.
const NOBODY: u32 = 65534;

/// Its end of input is the end of this program, also if that is killed.
const SCRIPT: &str = r#"
"$BIN/initdb" -D "$FOLDER/data" -U bifrost -A trust -E UTF8 --locale=C --no-sync >"$FOLDER/log" 2>&1 || exit 1
"$BIN/postgres" -D "$FOLDER/data" -k "$FOLDER" -c listen_addresses= -c fsync=off -c full_page_writes=off \
  -c max_connections=200 -c shared_buffers=32MB "$@" >>"$FOLDER/log" 2>&1 &
server=$!
read -r end
kill -QUIT $server
wait $server
rm -rf "$FOLDER"
"#;

/// A running server.
pub struct Cluster {
    bin: PathBuf,
    folder: PathBuf,
    port: String,
    /// Holds the input of the script open.
    _script: Child,
    schemas: AtomicU64,
}

/// The server of this program, started when it is asked for first.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start("", &[], &[]))
}

/// Where the server's programs are.
fn bin() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut versions: Vec<PathBuf> = versions.flatten().map(|entry| entry.path().join("bin")).collect();
        versions.sort();
        folders.splice(0..0, versions.into_iter().rev());
    }
    let whole =
        |folder: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).is_file());
    folders.into_iter().find(whole).expect(
        "the programs of a PostgreSQL server are not here: these tests start one of their own; install it, on Debian with \
         `apt-get install postgresql`",
    )
}

impl Cluster {
    /// One that also listens on `localhost`, at that port, for who speaks TLS; with a certificate and its key.
    pub fn encrypted(port: u16, certificate: &str, key: &str) -> Cluster {
        let settings =
            ["ssl=on", "ssl_cert_file=../cert", "ssl_key_file=../key", "listen_addresses=localhost"];
        let port = format!("port={port}");
        Cluster::start("-tls", &[&settings[..], &[&port]].concat(), &[("cert", certificate), ("key", key)])
    }

    fn start(name: &str, settings: &[&str], files: &[(&str, &str)]) -> Cluster {
        let bin = bin();
        let folder = std::env::temp_dir().join(format!("bifrost-postgres-{}{name}", std::process::id()));
        // What a program with the same number has left.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let mut script = Command::new("sh");
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
            std::fs::set_permissions(folder.join(name), Permissions::from_mode(0o600)).unwrap();
        }
        if std::fs::metadata(&folder).unwrap().uid() == 0 {
            for path in files.iter().map(|(name, _)| folder.join(name)).chain([folder.clone()]) {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            script.uid(NOBODY).gid(NOBODY);
        }
        script
            .args(["-c", SCRIPT, "sh"])
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .env("BIN", &bin)
            .env("FOLDER", &folder)
            .env_remove("LC_ALL")
            .current_dir("/");
        script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // So that what is sent to the program's group does not end the server first.
        script.process_group(0);
        let script = script.spawn().unwrap();
        let port =
            settings.iter().find_map(|setting| setting.strip_prefix("port=")).unwrap_or("5432").to_owned();
        let cluster = Cluster { bin, folder, port, _script: script, schemas: AtomicU64::new(0) };
        let start = Instant::now();
        while !cluster.try_sql("SELECT 1").status.success() {
            let log = std::fs::read_to_string(cluster.folder.join("log")).unwrap_or_default();
            assert!(start.elapsed() < Duration::from_secs(60), "the database server does not start: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster
    }

    fn try_sql(&self, text: &str) -> Output {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "bifrost", "-d", "postgres", "-h"]);
        psql.arg(&self.folder).args(["-p", &self.port, "-c", text]).output().unwrap()
    }

    /// What a statement gives, as text.
    #[track_caller]
    pub fn sql(&self, text: &str) -> String {
        let output = self.try_sql(text);
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The same, if the statement can be run now: others may be about to make or drop its tables.
    pub fn sql_now(&self, text: &str) -> Option<String> {
        let output = self.try_sql(text);
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// The name of a new schema, which is a place for one store.
    pub fn schema(&self) -> String {
        let schema = format!("s{}", self.schemas.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("CREATE SCHEMA {schema}"));
        schema
    }

    /// The URL of a schema.
    pub fn url(&self, schema: &str) -> String {
        url(&self.folder, schema)
    }

    /// The URL of a new place for a store.
    pub fn fresh(&self) -> String {
        self.url(&self.schema())
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }
}

/// The URL of a schema, by way of a socket `.s.PGSQL.5432` in some folder.
pub fn url(folder: &Path, schema: &str) -> String {
    let folder = folder.display().to_string().replace('/', "%2F");
    format!("postgres://bifrost@{folder}/postgres?options=-csearch_path%3D{schema}")
}
