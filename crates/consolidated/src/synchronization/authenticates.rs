//! Who decides whether a user may synchronize.

/// Which scripts of a version have a say in who may synchronize.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Authenticates {
    /// None.
    #[default]
    Nothing,
    /// Some run behind the check of the server, and can refuse.
    Behind,
    /// `authenticate_user` takes the place of the server's check of passwords.
    Instead,
}
