//! How long a password in the database is good.

use crate::config::Config;
use consolidated::{Credentials, Expiry};

const DAY_S: u64 = 24 * 60 * 60;

/// What the configuration says of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifetime {
    /// 0: for ever.
    days_max: u64,
    warning_days: u64,
}

/// What the time says of a password.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    /// It is good, and the user is warned.
    ExpiresSoon {
        in_s: u64,
    },
    Expired,
}

impl Lifetime {
    pub(super) fn of(config: &Config) -> Lifetime {
        Lifetime { days_max: config.password_days_max, warning_days: config.password_warning_days }
    }

    /// How the password of this user stands at this time.
    pub(super) fn standing(self, known: &Credentials, now_unix_s: i64) -> Standing {
        let ends_unix_s = match known.password_expires {
            Expiry::At(unix_s) => unix_s,
            Expiry::ByAge if self.days_max > 0 => {
                let longest_s = i64::try_from(self.days_max * DAY_S).unwrap_or(i64::MAX);
                known.password_set_at_unix_s.saturating_add(longest_s)
            }
            Expiry::ByAge | Expiry::Never => return Standing::Good,
        };
        match u64::try_from(ends_unix_s.saturating_sub(now_unix_s)) {
            Err(_) | Ok(0) => Standing::Expired,
            Ok(in_s) if in_s <= self.warning_days * DAY_S => Standing::ExpiresSoon { in_s },
            Ok(_) => Standing::Good,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn standing(days_max: u64, expires: Expiry, now_unix_s: i64) -> Standing {
        let known = Credentials {
            password_hash: String::new(),
            password_version: 1,
            password_set_at_unix_s: 1_000,
            password_expires: expires,
            claims: BTreeMap::new(),
        };
        Lifetime { days_max, warning_days: 2 }.standing(&known, now_unix_s)
    }

    #[test]
    fn a_password_expires_by_its_age_unless_an_operator_has_said_when() {
        const DAY: i64 = 86_400;
        assert_eq!(standing(0, Expiry::ByAge, i64::MAX), Standing::Good);
        let aged = |now| standing(10, Expiry::ByAge, 1_000 + now);
        assert_eq!(aged(8 * DAY - 1), Standing::Good);
        assert_eq!(aged(8 * DAY), Standing::ExpiresSoon { in_s: 2 * 86_400 });
        assert_eq!(aged(10 * DAY - 1), Standing::ExpiresSoon { in_s: 1 });
        assert_eq!(aged(10 * DAY), Standing::Expired);
        assert_eq!(aged(-DAY), Standing::Good, "set by a clock that is ahead");
        assert_eq!(standing(10, Expiry::Never, i64::MAX), Standing::Good);
        assert_eq!(standing(10, Expiry::At(5_000_000), 4_000_000), Standing::Good);
        assert_eq!(standing(0, Expiry::At(500), 500), Standing::Expired);
        assert_eq!(standing(0, Expiry::At(i64::MIN), i64::MAX), Standing::Expired);
    }
}
