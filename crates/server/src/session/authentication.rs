//! Lets the scripts of a version decide whether a user may synchronize, before anything else.

use super::summary::Summary;
use super::surroundings::Shared;
use crate::authenticate::{Evidence, WRONG, require_accepted};
use crate::phases::Phase;
use crate::turns::Origin;
use crate::worker::{Authenticate, Costed};
use consolidated::{Answered, Session};
use model::{Code, Failure};
use std::sync::Arc;

/// Lets them decide. Whom they refuse has to wait like somebody whose password was wrong.
pub(super) async fn ask_scripts(
    shared: &Shared,
    session: &Arc<Session>,
    origin: &Origin,
    mut evidence: Evidence,
    summary: &mut Summary,
) -> Result<Answered, Failure> {
    let turn = shared.authenticator.turn_at_scripts(&mut evidence, origin).await?;
    let guesses = evidence.guesses();
    let new = evidence.new.as_ref().map(|new| new.as_str().to_owned());
    let question =
        |password, new_password| Authenticate { session: session.clone(), password, new_password };
    let mut outcome = ask(shared, question(evidence.password, new.clone()), summary).await;
    let is_wrong = |failure: &Failure| failure.code() == Code::AuthenticationFailed;
    if new.is_some() && outcome.as_ref().is_err_and(is_wrong) {
        // Where the answer to an earlier attempt was lost, the new password is the one of now.
        outcome = ask(shared, question(new, None), summary).await;
    }
    shared.authenticator.note(origin, guesses, outcome.as_ref().err());
    // Not before it is noted: the next one may be of the same pair.
    drop(turn);
    outcome
}

/// Asks once. Why a script fails is for the log alone.
async fn ask(
    shared: &Shared,
    question: Authenticate,
    summary: &mut Summary,
) -> Result<Answered, Failure> {
    let session = question.session.clone();
    match shared.worker.authenticate(question).await {
        Ok(Costed { value, cost }) => {
            summary.cost += cost;
            summary.phases.end_work(Phase::Admission, cost.worked_us);
            require_accepted(value)
        }
        Err(failure) if failure.code() == Code::ScriptFailed => {
            let (remote, user) = (session.remote_id.as_str(), session.user.as_str());
            tracing::error!(remote, user, error = %failure.full_message(),
                "a script that checks users fails, so the user is refused");
            Err(Failure::new(Code::AuthenticationFailed, WRONG))
        }
        Err(failure) => Err(failure),
    }
}
