//! What this side will not do, before any byte of it reaches the server.

use std::error::Error;
use std::fmt;

/// What stands against going on, in one lower-case line, and what to do about it.
#[derive(Debug)]
pub struct Objection {
    ground: Ground,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Who must act on an objection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// The server asks for a password and none is known.
    PasswordMissing,
    /// The password would be readable on the network.
    PasswordExposed,
    /// The server asks for a proof that is not admitted, or gives too little of one.
    ProofRefused,
    /// Others may read the key of our certificate.
    KeyExposed,
    /// A file with certificates or a key cannot be used.
    FileUnusable,
    /// The statement copies: neither side would end that.
    Copy,
    /// The statement cannot be sent as it is.
    Unsendable,
    /// The caller, or this driver, does not keep a rule of the interface.
    Misuse,
}

impl Objection {
    pub(crate) fn new(ground: Ground, message: impl Into<String>) -> Objection {
        Objection { ground, message: message.into(), hint: None, source: None }
    }

    pub(crate) fn hinted(mut self, hint: impl Into<String>) -> Objection {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Objection {
        self.source = Some(cause.into());
        self
    }

    /// Who must act.
    pub fn ground(&self) -> Ground {
        self.ground
    }

    /// What to do, in the words of libpq, where it is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Its cause, given away.
    pub fn into_source(self) -> Option<Box<dyn Error + Send + Sync>> {
        self.source
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Objection {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
