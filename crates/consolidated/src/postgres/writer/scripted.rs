//! Runs the scripts around the rows of a synchronization, each part in its transaction.

use super::Writer;
use crate::catalog::VersionScripts;
use crate::postgres::catalog;
use crate::postgres::errors::failed;
use crate::postgres::event_script::Running;
use crate::postgres::link::Call;
use crate::script::around::{Around, AroundRows, Calls};
use crate::script::authentication::{self, Answered, Question};
use crate::script::{Event, Phase, trace};
use crate::synchronization::Session;
use model::{Code, Failure};
use std::sync::Arc;

impl Writer {
    /// T1, until it met no other transaction.
    pub(super) fn ask(&mut self, question: &Question<'_>) -> Result<Answered, Failure> {
        let scripts = self.catalog.deployed.authenticating(question.session)?;
        let zone = self.catalog.zone_of(question.session);
        self.link.hide(question.secrets());
        self.until_alone(|writer| {
            writer.in_transaction(|writer| {
                let link = &mut writer.link;
                link.begin(&[Call::new("BEGIN", &[])]).map_err(failed("begin a transaction"))?;
                let calls = &mut Running { link, zone: zone.as_deref() };
                let answered = authentication::answer(calls, &scripts, question)?;
                writer.link.flight(&[Call::new("COMMIT", &[])]).map_err(|fault| {
                    match fault.db() {
                        Some(said) => Failure::new(Code::ScriptFailed, said.message()),
                        None => failed("commit")(fault),
                    }
                })?;
                Ok(answered)
            })
        })
    }

    /// Learns what is deployed where a session is of a later deployment than what is known.
    pub(super) fn meet_deployment(&mut self, session: &Session) -> Result<(), Failure> {
        if session.deployment > self.catalog.deployed.deployment {
            let asked = self.link.begin(&[Call::new(catalog::DEPLOYMENT, &[])]);
            asked.map_err(catalog::not_deployed)?;
            self.load()?;
        }
        Ok(())
    }

    /// The scripts of the version of a session. From now on what they are given in proof of its
    /// user is not repeated.
    pub(super) fn scripts_of(&mut self, session: &Session) -> Arc<VersionScripts> {
        let scripts = self.catalog.deployed.version_scripts(&session.script_version);
        self.link.hide(scripts.secrets(session));
        scripts
    }

    /// Runs a script of the connection, in a transaction of its own or in none.
    pub(super) fn run_for_connection(
        &mut self,
        session: &Session,
        event: Event,
    ) -> Result<(), Failure> {
        let scripts = self.scripts_of(session);
        let Some(mut around) = Around::of(&scripts, session) else { return Ok(()) };
        if event == Event::BeginConnectionAutocommit {
            let calls = &mut Running { link: &mut self.link, zone: None };
            return around.of_connection(calls, event);
        }
        self.around_rows(Phase::Connection, &mut around, &mut |around, calls| {
            around.of_connection(calls, event)
        })
    }
}

impl AroundRows for Writer {
    fn around_rows(
        &mut self,
        phase: Phase,
        around: &mut Around,
        work: &mut dyn FnMut(&mut Around, &mut dyn Calls) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !around.runs(phase) {
            return Ok(());
        }
        let zone = self.catalog.zone_of(&around.session);
        let outcome = self.until_alone(|writer| {
            writer.in_transaction(|writer| {
                let link = &mut writer.link;
                link.begin(&[Call::new("BEGIN", &[])]).map_err(failed("begin a transaction"))?;
                work(around, &mut Running { link, zone: zone.as_deref() })?;
                writer.link.flight(&[Call::new("COMMIT", &[])]).map_err(failed("commit")).map(drop)
            })
        });
        trace::ended(&around.session, phase, outcome.is_ok());
        outcome
    }

    fn has_lost_all(&self) -> bool {
        false
    }
}
