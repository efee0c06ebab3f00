//! Authenticates to a server, if the requested method is allowed.
//!
//! The server may belong to an attacker, or there may be an attacker between. So the requested
//! method is checked before the first byte that depends on the password is sent.

use crate::fault::Error;
use crate::objection::{Ground, Objection};
use crate::options::Options;
use crate::proof::{ChannelBinding as Wanted, Method};
use crate::tls;
use crate::wire::{Wire, unexpected};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use std::io::{self, ErrorKind};
use std::net::IpAddr;

/// How far what is sent goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It stays within the machine: a Unix socket, or an address of the loopback.
    Machine,
    /// Others may listen.
    Network,
}

impl Reach {
    /// How far what is sent to this address goes.
    pub(crate) fn of(address: IpAddr) -> Reach {
        if address.to_canonical().is_loopback() { Reach::Machine } else { Reach::Network }
    }
}

/// Answers what the server asks for, until it lets us in.
pub(crate) fn authenticate(wire: &mut Wire, reach: Reach, options: &Options) -> Result<(), Error> {
    let password = || match &options.password {
        Some(password) => Ok(password.as_bytes()),
        None => Err(Objection::new(Ground::PasswordMissing, "PostgreSQL asks for a password")),
    };
    let asked = wire.answer()?;
    judge(&asked, wire, reach, options)?;
    match asked {
        Message::AuthenticationOk => return Ok(()),
        Message::AuthenticationCleartextPassword => {
            frontend::password_message(password()?, wire.outbox())?;
            wire.send();
        }
        Message::AuthenticationMd5Password(body) => {
            let hash = md5_hash(options.user.as_bytes(), password()?, body.salt());
            frontend::password_message(hash.as_bytes(), wire.outbox())?;
            wire.send();
        }
        Message::AuthenticationSasl(body) => {
            scram(wire, &body, password()?, options.proof.channel_binding)?;
        }
        _ => {
            let what = "the server asks for another authentication method than a password";
            return Err(io::Error::new(ErrorKind::Unsupported, what).into());
        }
    }
    match wire.answer()? {
        Message::AuthenticationOk => Ok(()),
        _ => Err(unexpected()),
    }
}

/// Whether the server may ask for this.
fn judge(asked: &Message, wire: &Wire, reach: Reach, options: &Options) -> Result<(), Objection> {
    let method = match asked {
        Message::AuthenticationOk => Method::None,
        Message::AuthenticationCleartextPassword => Method::Password,
        Message::AuthenticationMd5Password(_) => Method::Md5,
        Message::AuthenticationSasl(_) => Method::ScramSha256,
        Message::AuthenticationGss => Method::Gss,
        Message::AuthenticationSspi => Method::Sspi,
        // Neither a request nor a success. The caller reports it.
        _ => return Ok(()),
    };
    if let Some(admitted) = &options.proof.require_auth
        && !admitted.admit(method)
    {
        let asked = match method {
            Method::None => "no authentication".to_owned(),
            method => format!("a proof by `{}`", method.name()),
        };
        let message = format!("the PostgreSQL server asks for {asked}: require_auth is {admitted}");
        return Err(Objection::new(Ground::ProofRefused, message));
    }
    if options.proof.channel_binding == Wanted::Require && method != Method::ScramSha256 {
        let message = "channel_binding=require, and the PostgreSQL server does not ask for SCRAM";
        return Err(Objection::new(Ground::ProofRefused, message));
    }
    let exposed = reach == Reach::Network && wire.socket().certificate().is_none();
    if method == Method::Password && exposed {
        let message = "the PostgreSQL server asks for the plain password, and the connection to it \
                       is not encrypted";
        return Err(Objection::new(Ground::PasswordExposed, message));
    }
    Ok(())
}

/// Proves that both sides know the password; where TLS allows it, over this connection only.
fn scram(
    wire: &mut Wire,
    offered: &AuthenticationSaslBody,
    password: &[u8],
    wanted: Wanted,
) -> Result<(), Error> {
    let (mut plain, mut bound) = (false, false);
    let mut mechanisms = offered.mechanisms();
    while let Some(mechanism) = mechanisms.next()? {
        plain |= mechanism == SCRAM_SHA_256;
        bound |= mechanism == SCRAM_SHA_256_PLUS;
    }
    let end_point = match wanted {
        Wanted::Disable => None,
        Wanted::Prefer | Wanted::Require => wire.socket().certificate().and_then(tls::end_point),
    };
    if wanted == Wanted::Require && !(bound && end_point.is_some()) {
        let what = match (wire.socket().certificate(), bound) {
            (None, _) => "the connection is not encrypted",
            (Some(_), false) => "the PostgreSQL server does not offer SCRAM-SHA-256-PLUS",
            (Some(_), true) => "the signature of the server's certificate names no digest",
        };
        let message = format!("channel_binding=require, and {what}");
        return Err(Objection::new(Ground::ProofRefused, message).into());
    }
    let (mechanism, binding) = match end_point {
        Some(end_point) if bound => {
            (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(end_point))
        }
        // Says that this client could bind. A server that can bind too then detects an attacker
        // between them.
        Some(_) if plain => (SCRAM_SHA_256, ChannelBinding::unrequested()),
        None if plain => (SCRAM_SHA_256, ChannelBinding::unsupported()),
        _ => {
            let what = "the server offers no SCRAM-SHA-256";
            return Err(io::Error::new(ErrorKind::Unsupported, what).into());
        }
    };
    let mut scram = ScramSha256::new(password, binding);
    frontend::sasl_initial_response(mechanism, scram.message(), wire.outbox())?;
    wire.send();
    let Message::AuthenticationSaslContinue(body) = wire.answer()? else {
        return Err(unexpected());
    };
    scram.update(body.data())?;
    frontend::sasl_response(scram.message(), wire.outbox())?;
    wire.send();
    let Message::AuthenticationSaslFinal(body) = wire.answer()? else {
        return Err(unexpected());
    };
    Ok(scram.finish(body.data())?)
}
