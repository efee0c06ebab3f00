//! Claims as values of the columns with which they are compared.
//!
//! A claim is text. If it is not a value of its column, every script would fail and rows would be
//! rejected for it. So claims are checked first.

use crate::postgres::catalog::table::Table;
use crate::postgres::download::typed_claim::TypedClaim;
use crate::postgres::errors::failed;
use crate::postgres::link::Link;
use crate::synchronization::Session;
use model::{Code, Failure};
use std::collections::HashSet;
use std::sync::Arc;

/// Most values that a connection remembers to be right.
const KNOWN_MAX: usize = 10_000;

/// Which values were found to be right.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Claims {
    known: HashSet<(String, bool, String)>,
}

impl Claims {
    /// Refuses a session with a claim that cannot be compared.
    pub(in crate::postgres) fn check(
        &mut self,
        link: &mut Link,
        tables: &[Arc<Table>],
        session: &Session,
    ) -> Result<(), Failure> {
        for typed in tables.iter().flat_map(|table| &table.deployed.details.claims) {
            let Some(value) = typed.claim.value(session) else { continue };
            let known = (typed.cast.clone(), typed.list, value.to_owned());
            if self.known.contains(&known) {
                continue;
            }
            if !is_value(link, typed, value)? {
                let message = format!(
                    "the claim {} of user {} is not of type {}: {value}",
                    typed.claim, session.user, typed.cast
                );
                return Err(Failure::new(Code::ClaimInvalid, message));
            }
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            self.known.insert(known);
        }
        Ok(())
    }
}

/// Whether PostgreSQL reads the claim as its type.
pub(in crate::postgres) fn is_value(
    link: &mut Link,
    typed: &TypedClaim,
    value: &str,
) -> Result<bool, Failure> {
    let cast = &typed.cast;
    let sql = match typed.list {
        false => format!("SELECT $1::text::{cast} IS NULL"),
        true => format!(
            "SELECT count(trim(v)::{cast}) FROM unnest(string_to_array($1::text, ',')) AS v
             WHERE trim(v) <> ''"
        ),
    };
    match link.query(&sql, &[&value]) {
        Ok(_) => Ok(true),
        // Data exceptions.
        Err(fault) if fault.sqlstate().is_some_and(|state| state.starts_with("22")) => Ok(false),
        Err(fault) => Err(failed("look at the claims")(fault)),
    }
}
