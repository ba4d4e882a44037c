//! The settings of the tasks, on which native actors run.

use std::collections::BTreeMap;
use std::time::Duration;

use bifrost_capsule::tasks::{ExportSettings, PoolSettings, TaskSettings};
use documented::DocumentedFields;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::config_error::ConfigError;

/// The settings of the tasks.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, DocumentedFields)]
#[serde(deny_unknown_fields, default)]
pub struct TasksConfig {
    /// The number of tasks: threads that run the methods of native actors.
    pub threads: u32,
    /// Most messages that wait for one native actor. With one more, that is answered with
    /// `failure("busy")`.
    pub queue_max: usize,
    /// Most messages that wait for all native actors.
    pub waiting_max: usize,
    /// Most bytes of those messages.
    pub waiting_bytes_max: usize,
    /// The time after which a task that is in one method is reported in the log, and replaced by
    /// another one, in milliseconds.
    pub stuck_ms: u64,
    /// The settings of native actors, by class: `concurrency`, `queue_max` and `priority`.
    pub actors: BTreeMap<String, ActorConfig>,
}

/// The settings of the native actors of a class. What is absent is as the class says, or as in
/// `tasks`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, DocumentedFields)]
#[serde(deny_unknown_fields, default)]
pub struct ActorConfig {
    /// Most methods of one actor that run at once; 0 is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Most messages that wait for one actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_max: Option<usize>,
    /// The priority of its messages, from 0 to 7; 4 if absent. A second of waiting counts as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

impl Default for TasksConfig {
    fn default() -> TasksConfig {
        let settings = TaskSettings::default();
        TasksConfig {
            threads: settings.pool.tasks,
            queue_max: settings.queue_max,
            waiting_max: settings.pool.limits.waiting_max,
            waiting_bytes_max: settings.pool.limits.waiting_bytes_max,
            stuck_ms: settings.pool.stuck_after.as_millis() as u64,
            actors: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Returns the settings of the tasks, for the registry of natives.
    ///
    /// # Errors
    /// [`ConfigError::Tasks`] and [`ConfigError::TaskPriority`].
    pub fn task_settings(&self) -> Result<TaskSettings, ConfigError> {
        let tasks = &self.tasks;
        if !(1..=PoolSettings::TASKS_MAX).contains(&tasks.threads) {
            return Err(ConfigError::Tasks(tasks.threads));
        }
        let mut exports = BTreeMap::new();
        for (class, actor) in &tasks.actors {
            if actor.priority.is_some_and(|priority| priority > 7) {
                return Err(ConfigError::TaskPriority(class.clone()));
            }
            let ActorConfig { concurrency, queue_max, priority } = *actor;
            exports.insert(class.clone(), ExportSettings { concurrency, queue_max, priority });
        }
        let mut settings = TaskSettings { queue_max: tasks.queue_max, exports, ..TaskSettings::default() };
        settings.pool.tasks = tasks.threads;
        settings.pool.limits.waiting_max = tasks.waiting_max;
        settings.pool.limits.waiting_bytes_max = tasks.waiting_bytes_max;
        // At least a millisecond: a task that is never reported is set by a long time.
        settings.pool.stuck_after = Duration::from_millis(tasks.stuck_ms.max(1));
        settings.limits = self.run_limits();
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_are_errors() {
        let with = |tasks: TasksConfig| Config { tasks, ..Config::default() }.task_settings();
        for threads in [0, 1_025] {
            let error = with(TasksConfig { threads, ..TasksConfig::default() }).unwrap_err().to_string();
            assert!(error.contains(&threads.to_string()) && error.contains("1024"), "{error}");
        }
        let actor = ActorConfig { priority: Some(8), ..ActorConfig::default() };
        let actors = [("std::FileServer".to_owned(), actor)].into();
        let error = with(TasksConfig { actors, ..TasksConfig::default() }).unwrap_err().to_string();
        assert!(error.contains("std::FileServer") && error.contains("0 to 7"), "{error}");
        let settings = with(TasksConfig::default()).unwrap();
        let default = TaskSettings::default();
        assert_eq!((settings.pool, settings.queue_max), (default.pool, default.queue_max));
        let known = (settings.pool.tasks, settings.queue_max, settings.pool.limits.waiting_max);
        assert_eq!(known, (8, 1_000, 100_000));
        assert_eq!(settings.pool.limits.waiting_bytes_max, 64 << 20);
        assert_eq!(settings.pool.stuck_after, Duration::from_secs(60));
    }
}
