//! The identity of this machine: addresses such as `unix:///path` have a meaning only there.

/// Returns the identity of this machine until its next boot, if the system has one.
pub fn host() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}
