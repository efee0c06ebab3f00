//! From Hello to the session of an admitted remote.

use super::authentication::ask_scripts;
use super::summary::Summary;
use super::surroundings::Shared;
use crate::authenticate::{Claim, Evidence, Granted, Verified};
use crate::network::Connection;
use crate::phases::Phase;
use crate::turns::Origin;
use crate::worker::{Admission, Admitted, Costed};
use consolidated::{Answered, Authenticates, Identity, Passed, Session, TableMark};
use model::{Code, Failure, UserName};
use protocol::{
    FormerWatermark, Hello, LastUpload, Message, Mode, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN,
    TableWatermark, unsupported,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) async fn expect_hello(connection: &mut Connection) -> Result<Hello, Failure> {
    let hello = match connection.receive().await? {
        Message::Hello(hello) => *hello,
        other => return Err(other.unexpected("Hello")),
    };
    if !(PROTOCOL_VERSION_MIN..=PROTOCOL_VERSION).contains(&hello.protocol_version) {
        return Err(unsupported(hello.protocol_version));
    }
    if let Some(name) = hello.database.as_deref().filter(|name| !name.is_empty()) {
        let message =
            format!("this server has one database, which has no name; {name:?} was requested");
        return Err(Failure::new(Code::WrongDatabase, message).hint("name no database in Hello"));
    }
    Ok(hello)
}

/// Verifies the user before anything else is answered.
pub(super) async fn admit(
    shared: &Shared,
    hello: &Hello,
    origin: &Origin,
    mut claim: Claim,
    summary: &mut Summary,
) -> Result<(Session, Verified), Failure> {
    let authenticator = &shared.authenticator;
    let mut newcomer = Newcomer { hello, origin, granted: claim.granted(), renamed: None };
    let mut admitted = newcomer.ask(shared, summary).await?;
    let scripts = admitted.authenticates();
    if scripts != Authenticates::Instead {
        claim = authenticator.ask_service(claim, origin, scripts).await?;
        let registers = admitted.credentials.is_none() && authenticator.registers(&claim);
        if registers {
            shared.registrar.register(&hello.user).await?;
        }
        if newcomer.learns(claim.granted()) || registers {
            admitted = newcomer.ask(shared, summary).await?;
        }
    }
    let known = admitted.credentials.as_ref();
    let (mut verified, evidence) = match scripts {
        Authenticates::Instead => {
            (Verified::default(), authenticator.leave_to_scripts(claim, origin, known)?)
        }
        Authenticates::Nothing | Authenticates::Behind => {
            (authenticator.verify(claim, origin, known, scripts).await?, Evidence::default())
        }
    };
    let mut session = admitted.session?;
    if session.authenticates != scripts {
        return Err(deployed_meanwhile());
    }
    if scripts != Authenticates::Nothing {
        let (asked, changes) = (Arc::new(session), evidence.new.is_some());
        let answered = ask_scripts(shared, &asked, origin, evidence, summary).await?;
        verified = verified.and(&answered, changes);
        session = newcomer.settle(shared, &asked, answered, summary).await?;
    }
    // Before anything is done in the name of the remote: its lease, its epoch, what it is owed.
    admitted.binding.require(&hello.remote_id, &hello.user)?;
    if hello.database_id.as_ref().is_some_and(|id| *id != session.database_id) {
        return Err(Failure::new(
            Code::WrongDatabase,
            "the remote belongs to another consolidated database",
        ));
    }
    Ok((session, verified))
}

fn deployed_meanwhile() -> Failure {
    Failure::new(Code::Superseded, "a new model was deployed in the meantime")
}

/// Somebody who is to be admitted, and what is known of it beside Hello.
struct Newcomer<'a> {
    hello: &'a Hello,
    origin: &'a Origin,
    /// The claims that somebody else decides.
    granted: Option<Arc<Granted>>,
    /// What scripts call the user.
    renamed: Option<UserName>,
}

impl Newcomer<'_> {
    /// Takes note of claims; says whether there are others than before.
    fn learns(&mut self, granted: Option<Arc<Granted>>) -> bool {
        let learns = granted != self.granted;
        self.granted = granted;
        learns
    }

    /// The session with the claims and the name of the user that scripts have set.
    async fn settle(
        mut self,
        shared: &Shared,
        session: &Arc<Session>,
        answered: Answered,
        summary: &mut Summary,
    ) -> Result<Session, Failure> {
        let set = Granted::set(answered.user_values);
        if set.is_empty() && answered.user == session.user {
            return Ok(Session::clone(session));
        }
        let granted = self.granted.as_ref().map_or_else(|| set.clone(), |known| known.and(&set));
        (self.granted, self.renamed) = (Some(Arc::new(granted)), Some(answered.user));
        let settled = self.ask(shared, summary).await?.session?;
        match settled.deployment == session.deployment {
            true => Ok(settled),
            false => Err(deployed_meanwhile()),
        }
    }

    /// Asks the database who this is, and what the remote shares.
    async fn ask(&self, shared: &Shared, summary: &mut Summary) -> Result<Admitted, Failure> {
        let Newcomer { hello, origin, .. } = self;
        let turn = shared.admissions.take_in_time(&origin.user, &origin.address).await?;
        let Costed { value: admitted, cost: spent } = shared
            .worker
            .admit(Admission {
                user: hello.user.clone(),
                renamed: self.renamed.clone(),
                remote_id: hello.remote_id.clone(),
                script_version: hello.script_version.clone(),
                publications: hello.publications.clone(),
                holds: holds(hello),
                passed: Passed::new(hello.parameters.values()),
                granted: self.granted.clone(),
            })
            .await?;
        drop(turn);
        summary.cost += spent;
        summary.phases.end_work(Phase::Admission, spent.worked_us);
        Ok(admitted)
    }
}

/// The digests of what the remote holds.
fn holds(hello: &Hello) -> Option<(Option<String>, Vec<String>)> {
    let digests = hello.watermarks.iter().map(|table| table.fingerprint.clone());
    let holds = || (hello.schema_fingerprint.clone(), digests.collect());
    (hello.mode != Mode::Ping).then(holds)
}

pub(super) fn uploads(hello: &Hello) -> bool {
    matches!(hello.mode, Mode::Full | Mode::UploadOnly)
}

pub(super) fn identity(hello: &Hello) -> Identity {
    Identity {
        counter: hello.counter,
        nonce_confirmed: hello.nonce_confirmed,
        nonce_attempt: hello.nonce_attempt,
        attempt: hello.attempt,
        progress: hello.progress,
        outcome_unknown: hello.outcome == LastUpload::Unknown,
        secret: hello.file_secret.as_ref().map(consolidated::secret_digest),
    }
}

/// What the remote holds, in the order of the session's schema. Tables are recognized by their
/// digest, so a table that changed meanwhile counts as one that the remote does not have.
pub(super) fn marks(hello: &Hello, session: &Session) -> Arc<Vec<TableMark>> {
    let held: HashMap<&str, _> =
        hello.watermarks.iter().map(|w| (w.fingerprint.as_str(), &w.watermark)).collect();
    let mark = |fingerprint: &String| TableMark {
        fingerprint: fingerprint.clone(),
        watermark: held.get(fingerprint.as_str()).and_then(|watermark| (*watermark).clone()),
    };
    Arc::new(session.schema.tables.iter().map(|table| mark(&table.fingerprint)).collect())
}

/// What the remote says of the tables that it holds and that are not those of today, and of rows
/// that it received before its tables or its identity changed. Where those are not downloaded
/// today, it will say so again.
pub(super) fn held_marks(hello: &Hello, session: &Session) -> Arc<Vec<TableMark>> {
    let tables = &session.schema.tables;
    let today: HashSet<&str> = tables.iter().map(|table| table.fingerprint.as_str()).collect();
    let others = hello.watermarks.iter().filter(|it| !today.contains(it.fingerprint.as_str()));
    let mark = |table: &TableWatermark| TableMark {
        fingerprint: table.fingerprint.clone(),
        watermark: table.watermark.clone(),
    };
    let is_compared = |former: &&FormerWatermark| {
        let today = tables.iter().find(|table| table.name == former.table);
        today.is_none_or(|table| table.direction.downloads())
    };
    let former = |former: &FormerWatermark| TableMark {
        fingerprint: TableMark::FORMER.to_owned(),
        watermark: Some(former.watermark.clone()),
    };
    let uncompared = hello.former_watermarks.iter().filter(is_compared).map(former);
    Arc::new(others.map(mark).chain(uncompared).collect())
}
