//! Whether this process has a `/tmp` of its own.

/// The explanation for a process that has one.
pub(crate) const WHY: &str = "this process has a /tmp of its own, as a service with PrivateTmp or a \
     container has, so its locks are not those of others on this machine; where they are to be, give \
     all one place by the key 'socket' in /etc/navlock.toml";
