//! The limits of the process, beside those of the settings.

use rustix::process::{Resource, geteuid, getrlimit};

use crate::config::Config;

/// Descriptors of a connection over a socket, and of one over shared memory.
const SOCKET_DESCRIPTORS: u64 = 1;
const SHARED_DESCRIPTORS: u64 = 2;
/// Descriptors of a session besides: it watches its client while it waits for commits of others,
/// and, if the program has actors, while it waits for their answers.
const WATCH_DESCRIPTORS: u64 = 1;
/// Descriptors of the process besides those of connections: listeners, the store, standard streams.
const OTHER_DESCRIPTORS: u64 = 64;
/// Threads of the process besides those of connections and nodes.
const OTHER_THREADS: u64 = 16;

/// The limits of the process that are too low for the settings, each in a sentence that names both.
pub(crate) fn shortcomings(config: &Config, actors: bool) -> Vec<String> {
    let descriptors = getrlimit(Resource::Nofile).current;
    // The system does not bound the threads of the superuser.
    let threads = if geteuid().is_root() { None } else { getrlimit(Resource::Nproc).current };
    compare(config, actors, descriptors, threads)
}

fn compare(config: &Config, actors: bool, descriptors: Option<u64>, threads: Option<u64>) -> Vec<String> {
    let [sessions, newcomers] = [config.sessions_max, config.greetings_max].map(|most| most as u64);
    let connections = sessions.saturating_add(newcomers);
    let shared = config.listen.is_empty() || config.listen.iter().any(|url| url.starts_with("shm:"));
    let each = if shared { SHARED_DESCRIPTORS } else { SOCKET_DESCRIPTORS };
    let watches = sessions.saturating_mul(if actors { 2 * WATCH_DESCRIPTORS } else { WATCH_DESCRIPTORS });
    let settings = format!("sessions_max = {sessions} with greetings_max = {newcomers}");
    let needs = [
        (
            "open files (RLIMIT_NOFILE, `ulimit -n`)",
            descriptors,
            connections.saturating_mul(each).saturating_add(watches).saturating_add(OTHER_DESCRIPTORS),
        ),
        (
            "threads of this user (RLIMIT_NPROC, `ulimit -u`)",
            threads,
            connections.saturating_add(u64::from(config.nodes) + OTHER_THREADS),
        ),
    ];
    let short = needs.into_iter().filter_map(|(name, limit, need)| {
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
        let config = Config { sessions_max: 100, greetings_max: 10, ..Config::default() };
        let said = |descriptors, threads| compare(&config, true, descriptors, threads);
        assert!(said(None, None).is_empty());
        assert!(said(Some(484), Some(127)).is_empty());
        let short = said(Some(483), Some(126));
        assert_eq!(short.len(), 2);
        for (text, limit, need) in [(&short[0], "483 open files", "484"), (&short[1], "126 threads", "127")] {
            assert!(
                text.contains(limit) && text.contains(need) && text.contains("sessions_max = 100"),
                "{text}"
            );
        }
        // Sockets alone take less.
        let sockets = Config { listen: vec!["tcp://127.0.0.1:0".into()], ..config.clone() };
        assert!(compare(&sockets, false, Some(274), None).is_empty());
    }
}
