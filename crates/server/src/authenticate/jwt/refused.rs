//! Why a JWT is refused, in one form.

use model::{Code, Failure};

const HINT: &str = "get a new JWT from the identity provider";

/// The refusal of a JWT that `why`.
pub(super) fn refused(why: &str) -> Failure {
    Failure::new(Code::TokenRefused, format!("the JWT {why}")).hint(HINT)
}
