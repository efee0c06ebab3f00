//! What the surroundings of a program say about a database.

/// Answers what an environment variable holds, if it holds anything.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where servers put their sockets: Debian's choice, and PostgreSQL's own.
pub(super) const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
