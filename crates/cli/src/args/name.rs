//! Names in arguments.
//!
//! They are refused here, as wrong usage, because the message of the failure alone would not say
//! which argument is meant.

use model::{PublicationName, RemoteId, ScriptVersion, UserName};

pub(super) fn parse_user(text: &str) -> Result<UserName, String> {
    UserName::new(text).map_err(|failure| failure.full_message())
}

pub(super) fn parse_publication(text: &str) -> Result<PublicationName, String> {
    PublicationName::new(text).map_err(|failure| failure.full_message())
}

pub(super) fn parse_script_version(text: &str) -> Result<ScriptVersion, String> {
    ScriptVersion::new(text).map_err(|failure| failure.full_message())
}

pub(super) fn parse_remote_id(text: &str) -> Result<RemoteId, String> {
    RemoteId::new(text).map_err(|failure| failure.full_message())
}

pub(super) fn parse_claim(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a claim is written as key=value".to_owned()),
    }
}
