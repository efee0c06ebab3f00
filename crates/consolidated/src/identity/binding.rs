//! The users and the file that own a remote ID (trap 30).

use model::{Code, Failure, RemoteId, UserName};

/// The stored value if all users may use the remote.
const ANY: &str = "*";

/// Most users of one remote.
const USERS_MAX: usize = 100;

/// The users who may synchronize as a remote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Binding {
    /// It has no owner yet: the first commit binds it.
    #[default]
    Open,
    /// These; none where the user was removed, until it is bound again.
    Users(Vec<UserName>),
    /// Every user.
    Any,
}

impl Binding {
    /// The binding to several users.
    pub fn users(users: Vec<UserName>) -> Result<Binding, Failure> {
        if users.len() > USERS_MAX {
            let message = format!("a remote is bound to at most {USERS_MAX} users; give --any");
            return Err(Failure::new(Code::TooManyUsers, message));
        }
        Ok(Binding::Users(users))
    }

    /// Understands what is stored.
    pub(crate) fn read(stored: Option<&str>) -> Result<Binding, Failure> {
        match stored {
            None => Ok(Binding::Open),
            Some(ANY) => Ok(Binding::Any),
            Some(users) => serde_json::from_str(users).map(Binding::Users).map_err(|error| {
                Failure::new(Code::Drift, "a stored binding does not read").source(error)
            }),
        }
    }

    /// As it is stored.
    pub(crate) fn stored(&self) -> Option<String> {
        match self {
            Binding::Open => None,
            Binding::Any => Some(ANY.to_owned()),
            Binding::Users(users) => Some(serde_json::json!(users).to_string()),
        }
    }

    /// Refuses all users except the owners of the remote, without naming the owners.
    pub fn require(&self, remote_id: &RemoteId, user: &UserName) -> Result<(), Failure> {
        let admitted = match self {
            Binding::Open | Binding::Any => true,
            Binding::Users(users) => users.contains(user),
        };
        if admitted {
            return Ok(());
        }
        let message = format!("remote {remote_id} does not belong to user {user}");
        Err(Failure::new(Code::RemoteOfAnother, message))
    }

    /// Binds a remote that has no owner yet.
    pub(crate) fn bind_first(&mut self, user: &UserName) {
        if *self == Binding::Open {
            *self = Binding::Users(vec![user.clone()]);
        }
    }
}
