//! Why a JWT is refused, in one form.

use model::{Code, Failure};

/// The refusal of a JWT that `why`: another one may be good.
pub(super) fn refused(why: &str) -> Failure {
    of_its_claims(why).hint("get a new JWT from the identity provider")
}

/// The refusal of a JWT whose claims are not those that this server expects. Another one of the
/// same provider has them too.
pub(super) fn of_its_claims(why: &str) -> Failure {
    Failure::new(Code::TokenRefused, format!("the JWT {why}")).hint(
        "the identity provider sets the claims; what the server expects of them is in its \
         syncline.toml: jwt_issuer, jwt_audience, jwt_user_claim, jwt_claims",
    )
}
