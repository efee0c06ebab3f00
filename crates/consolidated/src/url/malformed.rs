//! The failure of a text that names no database.

use model::{Code, Failure};

pub(super) fn bad(message: String) -> Failure {
    Failure::new(Code::BadUrl, message)
        .hint("sqlite:PATH and postgres://USER@HOST/DATABASE name a database")
}
