//! The limits of the process, beside those of the settings.

use rustix::process::{Resource, geteuid, getrlimit};

use crate::config::Config;

/// Descriptors of a connection over a socket, and of one over shared memory.
const SOCKET_DESCRIPTORS: u64 = 1;
const SHARED_DESCRIPTORS: u64 = 2;
/// Descriptors of the process besides those of connections: listeners, workers, the store, standard
/// streams.
const OTHER_DESCRIPTORS: u64 = 64;
/// Threads of the process besides workers and nodes.
const OTHER_THREADS: u64 = 16;

/// The limits of the process that are too low for the settings, each in a sentence that names both.
pub(crate) fn shortcomings(config: &Config) -> Vec<String> {
    let descriptors = getrlimit(Resource::Nofile).current;
    // The system does not bound the threads of the superuser.
    let threads = if geteuid().is_root() { None } else { getrlimit(Resource::Nproc).current };
    compare(config, descriptors, threads)
}

fn compare(config: &Config, descriptors: Option<u64>, threads: Option<u64>) -> Vec<String> {
    let [sessions, newcomers] = [config.sessions_max, config.greetings_max].map(|most| most as u64);
    let connections = sessions.saturating_add(newcomers);
    let shared = config.listen.is_empty() || config.listen.iter().any(|url| url.starts_with("shm:"));
    let each = if shared { SHARED_DESCRIPTORS } else { SOCKET_DESCRIPTORS };
    let workers = config.workers.unwrap_or_else(bifrost_workers::threads_default) as u64;
    let needs = [
        (
            "open files (RLIMIT_NOFILE, `ulimit -n`)",
            format!("sessions_max = {sessions} with greetings_max = {newcomers}"),
            descriptors,
            connections.saturating_mul(each).saturating_add(OTHER_DESCRIPTORS),
        ),
        (
            "threads of this user (RLIMIT_NPROC, `ulimit -u`)",
            format!("workers = {workers} with nodes = {}", config.nodes),
            threads,
            workers.saturating_add(u64::from(config.nodes) + OTHER_THREADS),
        ),
    ];
    let short = needs.into_iter().filter_map(|(name, settings, limit, need)| {
        let limit = limit.filter(|limit| *limit < need)?;
        Some(format!(
            "the process may have {limit} {name}, and {settings} may need {need}: raise the limit, or \
                lower the settings"
        ))
    });
    short.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_too_low_are_named_with_the_settings() {
        let config = Config { sessions_max: 100, greetings_max: 10, workers: Some(4), ..Config::default() };
        assert!(compare(&config, None, None).is_empty());
        assert!(compare(&config, Some(284), Some(21)).is_empty());
        let short = compare(&config, Some(283), Some(20));
        assert_eq!(short.len(), 2);
        for (text, words) in [
            (&short[0], ["283 open files", "sessions_max = 100", "need 284"]),
            (&short[1], ["20 threads", "workers = 4", "need 21"]),
        ] {
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
        // Sockets alone take less.
        let sockets = Config { listen: vec!["tcp://127.0.0.1:0".into()], ..config };
        assert!(compare(&sockets, Some(174), None).is_empty());
    }
}
