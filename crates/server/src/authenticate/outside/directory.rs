//! A directory of the company that knows its users, asked by LDAP.
//!
//! A password is right where the directory lets its user in with it (simple bind). The entry of the
//! user has a name that follows from a template, or it is searched first. What it says in some of
//! its attributes becomes the claims of the user.

mod ber;
mod connection;
mod distinguished_name;
mod filter;
mod message;
mod server;

use super::answer::{Accepted, Question, no_answer};
use crate::authenticate::granted::Granted;
use crate::authenticate::secret_file;
use crate::config::DirectoryOptions;
use connection::{Connection, SUCCESS, refused};
use distinguished_name::Template;
use filter::{Filter, is_attribute};
use message::{Conclusion, Entry, Scope, Search};
use model::{Clock, Code, Failure};
use serde_json::{Map, Value};
use server::DirectoryServer;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of all claims of a user, which travel in session tokens.
const CLAIMS_BYTES_MAX: usize = 16 << 10;

/// Asks one directory.
pub(super) struct Directory {
    server: DirectoryServer,
    way: Way,
    /// The attributes that say how the user is spelled.
    names: Vec<String>,
    /// The claims, each with its attribute.
    claims: Vec<(String, String)>,
    claim_names: Vec<String>,
    answer_s: u64,
    timeout_s: u64,
    clock: Arc<dyn Clock>,
}

/// How the entry of a user is found.
enum Way {
    /// Its name follows from the user's.
    Named(Template),
    /// It is searched.
    Searched { base: String, filter: Filter, account: Option<Account> },
}

/// Who searches.
struct Account {
    name: String,
    password: String,
}

impl Directory {
    /// None where no URL is configured.
    pub(super) fn start(
        options: &DirectoryOptions,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Directory>, Failure> {
        let Some(url) = &options.url else { return Ok(None) };
        let server = DirectoryServer::read(url, options)?;
        let way = Way::read(options)?;
        let names = match &way {
            Way::Named(template) => vec![template.attribute().to_owned()],
            Way::Searched { filter, .. } => filter.names().into_iter().map(str::to_owned).collect(),
        };
        if names.is_empty() {
            let why = "has no comparison like (uid={s.username}), which finds one user alone";
            return Err(invalid("ldap_search_filter", why));
        }
        let claims = options.claims.iter().map(|claim| claim_of(claim));
        let claims = claims.collect::<Result<Vec<_>, Failure>>()?;
        let claim_names = claims.iter().map(|(claim, _)| claim.clone()).collect();
        Ok(Some(Directory {
            server,
            way,
            names,
            claims,
            claim_names,
            answer_s: options.answer_s,
            timeout_s: options.timeout_s,
            clock: clock.clone(),
        }))
    }

    /// The claims that it decides.
    pub(super) fn claim_names(&self) -> &[String] {
        &self.claim_names
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&self, question: &Question) -> Result<Accepted, Failure> {
        let (user, password) = (question.user.as_str(), question.password.as_str());
        let timeout = Duration::from_secs(self.timeout_s);
        let mut connection = Connection::open(&self.server, &self.clock, timeout)?;
        let entry = match &self.way {
            Way::Named(template) => {
                let name = template.of(user);
                require_right(&connection.bind(&name, password)?)?;
                self.own_entry(&mut connection, &name)?
            }
            Way::Searched { base, filter, account } => {
                if let Some(Account { name, password }) = account {
                    let conclusion = connection.bind(name, password)?;
                    if conclusion.code != SUCCESS {
                        return Err(refused("the bind of ldap_bind_dn", &conclusion));
                    }
                }
                let entry = self.search(&mut connection, base, filter, user)?;
                require_right(&connection.bind(&entry.name, password)?)?;
                entry
            }
        };
        self.require_spelled(&entry, user)?;
        let granted = Granted::read(&self.claims_in(&entry)?, &self.claim_names)
            .map_err(|why| no_answer(&format!("it {why}")))?;
        let granted = Arc::new(granted);
        Ok(Accepted { granted, expires_in_s: Some(self.answer_s), authentication: None })
    }

    /// Finds the one entry of the user.
    fn search(
        &self,
        connection: &mut Connection,
        base: &str,
        filter: &Filter,
        user: &str,
    ) -> Result<Entry, Failure> {
        const SIZE_LIMIT: i64 = 4;
        let search = Search {
            base,
            scope: Scope::Subtree,
            filter,
            user,
            attributes: &self.attributes(),
            entries_max: 2,
            timeout_s: i32::try_from(self.timeout_s).unwrap_or(i32::MAX),
        };
        let (mut entries, conclusion) = connection.search(&search)?;
        match (entries.pop(), entries.is_empty(), conclusion.code) {
            (Some(_), false, SUCCESS | SIZE_LIMIT) | (_, _, SIZE_LIMIT) => {
                Err(no_answer("ldap_search_filter finds more than one entry for the user"))
            }
            (_, _, code) if code != SUCCESS => Err(refused("the search", &conclusion)),
            (None, _, _) => Err(wrong()),
            // A bind without a name lets everybody in.
            (Some(entry), _, _) if entry.name.is_empty() => {
                Err(no_answer("the entry of the user has no name"))
            }
            (Some(entry), _, _) => Ok(entry),
        }
    }

    /// What the user may read of itself.
    fn own_entry(&self, connection: &mut Connection, name: &str) -> Result<Entry, Failure> {
        let search = Search {
            base: name,
            scope: Scope::Base,
            filter: &Filter::any(),
            user: "",
            attributes: &self.attributes(),
            entries_max: 1,
            timeout_s: i32::try_from(self.timeout_s).unwrap_or(i32::MAX),
        };
        let (mut entries, conclusion) = connection.search(&search)?;
        match entries.pop() {
            Some(entry) if conclusion.code == SUCCESS => Ok(entry),
            _ => Err(refused("the user cannot read its own entry", &conclusion)),
        }
    }

    /// What is read of an entry.
    fn attributes(&self) -> Vec<String> {
        let claimed = self.claims.iter().map(|(_, attribute)| attribute);
        self.names.iter().chain(claimed).cloned().collect()
    }

    /// A directory takes `Ann` and ` ann` for `ann`. Here they would be three users, of whom an
    /// operator has locked one.
    fn require_spelled(&self, entry: &Entry, user: &str) -> Result<(), Failure> {
        let mut spellings =
            self.names.iter().filter_map(|name| entry.values(name)).flatten().peekable();
        if spellings.peek().is_none() {
            let names = self.names.join(", ");
            return Err(no_answer(&format!("it does not show {names} of the entry of the user")));
        }
        match spellings.any(|spelling| spelling == user.as_bytes()) {
            true => Ok(()),
            false => {
                let message = "the directory spells the name of the user in another way";
                Err(Failure::new(Code::AuthenticationFailed, message)
                    .hint("give --user exactly as in the directory"))
            }
        }
    }

    /// The claims, each as a list, so that none of its entries is split at a comma.
    fn claims_in(&self, entry: &Entry) -> Result<Map<String, Value>, Failure> {
        let mut claims = Map::new();
        let mut bytes = 0;
        for (claim, attribute) in &self.claims {
            let Some(values) = entry.values(attribute).filter(|values| !values.is_empty()) else {
                continue;
            };
            let mut texts = Vec::with_capacity(values.len());
            for value in values {
                bytes += value.len();
                let Ok(text) = String::from_utf8(value.clone()) else {
                    return Err(no_answer(&format!("its attribute {attribute} is no text")));
                };
                texts.push(Value::from(text));
            }
            claims.insert(claim.clone(), Value::Array(texts));
        }
        match bytes > CLAIMS_BYTES_MAX {
            true => Err(no_answer(&format!("the claims have more than {CLAIMS_BYTES_MAX} bytes"))),
            false => Ok(claims),
        }
    }
}

impl Way {
    fn read(options: &DirectoryOptions) -> Result<Way, Failure> {
        let account = match (&options.bind_dn, &options.bind_password_file) {
            (None, None) => None,
            (Some(name), Some(path)) if !name.trim().is_empty() => {
                Some(Account { name: name.clone(), password: secret_file::read_line(path)? })
            }
            _ => {
                let why = "and ldap_bind_password_file need each other";
                return Err(invalid("ldap_bind_dn", why));
            }
        };
        match (&options.user_dn, &options.search_base) {
            (Some(template), None) => match account {
                None => Template::parse(template)
                    .map(Way::Named)
                    .map_err(|why| invalid("ldap_user_dn", &why)),
                Some(_) => Err(invalid("ldap_bind_dn", "is for ldap_search_base")),
            },
            (None, Some(base)) => {
                let filter = Filter::parse(&options.search_filter)
                    .map_err(|why| invalid("ldap_search_filter", &why))?;
                Ok(Way::Searched { base: base.clone(), filter, account })
            }
            _ => {
                let why = "needs either ldap_user_dn or ldap_search_base, to find a user";
                Err(invalid("ldap_url", why))
            }
        }
    }
}

impl Entry {
    /// The values of an attribute.
    fn values(&self, attribute: &str) -> Option<&Vec<Vec<u8>>> {
        let mut found = self.attributes.iter();
        found.find(|(name, _)| name.eq_ignore_ascii_case(attribute)).map(|(_, values)| values)
    }
}

/// What the end of a user's bind says of the password.
fn require_right(conclusion: &Conclusion) -> Result<(), Failure> {
    const CONSTRAINT_VIOLATION: i64 = 19;
    const NO_SUCH_OBJECT: i64 = 32;
    const INVALID_NAME: i64 = 34;
    const INAPPROPRIATE: i64 = 48;
    const INVALID_CREDENTIALS: i64 = 49;
    const UNWILLING: i64 = 53;
    match conclusion.code {
        SUCCESS => Ok(()),
        // Among them are the words of some directories for a user who is locked there.
        CONSTRAINT_VIOLATION | NO_SUCH_OBJECT | INVALID_NAME | INAPPROPRIATE
        | INVALID_CREDENTIALS | UNWILLING => Err(wrong()),
        _ => Err(refused("the bind of the user", conclusion)),
    }
}

fn wrong() -> Failure {
    Failure::new(Code::AuthenticationFailed, "unknown user or wrong password")
}

/// `CLAIM`, or `CLAIM=ATTRIBUTE`.
fn claim_of(text: &str) -> Result<(String, String), Failure> {
    let (claim, attribute) = text.split_once('=').unwrap_or((text, text));
    match !claim.is_empty() && is_attribute(attribute) {
        true => Ok((claim.to_owned(), attribute.to_owned())),
        false => Err(invalid("ldap_claims", "has an entry that is not CLAIM or CLAIM=ATTRIBUTE")),
    }
}

fn invalid(option: &str, why: &str) -> Failure {
    Failure::new(Code::ConfigInvalid, format!("{option} {why}"))
}
