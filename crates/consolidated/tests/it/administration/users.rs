//! Users and their passwords at the center; on every database.

use crate::support::center::{Backend, Center, deploy};
use model::{Code, RemoteId, UserName};
use std::collections::BTreeMap;
use syncline_consolidated::{Credentials, Expiry, PasswordChange, administer};

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);";

fn ann() -> UserName {
    UserName::new("ann").unwrap()
}

fn center_of_ann(backend: Backend) -> Center {
    let center = Center::on(backend, TABLE, "[table.t]\n");
    administer(&center.url).unwrap().add_user(&ann(), "hash", &BTreeMap::new()).unwrap();
    center
}

fn credentials(center: &mut Center) -> Credentials {
    let remote = RemoteId::new("r").unwrap();
    let mut found = center.reader.admittees(&[(&ann(), &remote)]).unwrap();
    found.pop().unwrap().credentials.unwrap()
}

/// Changes the password of this version.
fn change(center: &mut Center, former_version: i64) -> Result<(), model::Failure> {
    let hash = "another hash".to_owned();
    let change = PasswordChange { user: ann(), former_version, version: 4711, hash };
    center.writer.begin().unwrap();
    let changed = center.writer.change_password(&change);
    center.writer.commit().unwrap();
    changed
}

#[test]
fn a_password_changes_unless_somebody_else_was_faster() {
    Backend::each(|backend| {
        let mut center = center_of_ann(backend);
        let mut admin = administer(&center.url).unwrap();
        admin.set_expiry(&ann(), Expiry::At(1)).unwrap();
        let before = credentials(&mut center);
        assert_eq!(before.password_expires, Expiry::At(1));
        admin.set_password(&ann(), "by an operator").unwrap();
        let failure = change(&mut center, before.password_version).unwrap_err();
        assert_eq!(failure.code(), Code::PasswordChangedMeanwhile, "{backend:?}");
        let now = credentials(&mut center);
        assert_eq!(
            (now.password_hash.as_str(), now.password_expires),
            ("by an operator", Expiry::ByAge)
        );
        change(&mut center, now.password_version).unwrap();
        let now = credentials(&mut center);
        assert_eq!((now.password_hash.as_str(), now.password_version), ("another hash", 4711));
        // A user who was locked or removed meanwhile has no password to change.
        admin.set_locked(&ann(), true).unwrap();
        assert!(change(&mut center, 4711).is_err());
        admin.remove_user(&ann()).unwrap();
        assert!(change(&mut center, 4711).is_err());
    });
}

// Trap 18: all passwords of an older deployment would have expired at once, or never.
#[test]
fn passwords_of_an_older_program_age_from_the_deployment_on() {
    Backend::each(|backend| {
        let mut center = center_of_ann(backend);
        let set_at = credentials(&mut center).password_set_at_unix_s;
        let prefix = backend.pick("", "syncline.");
        center.foreign(&format!(
            "ALTER TABLE {prefix}syncline_user DROP COLUMN password_set_at;
             ALTER TABLE {prefix}syncline_user DROP COLUMN password_expires_at;
             UPDATE {prefix}syncline_system SET value = '4' WHERE name = 'format'"
        ));
        let mut admin = administer(&center.url).unwrap();
        assert_eq!(admin.users().unwrap().len(), 1, "they can be read");
        assert_eq!(admin.set_expiry(&ann(), Expiry::Never).unwrap_err().code(), Code::NotDeployed);
        deploy(&center.url, "[table.t]\n").unwrap();
        center.reconnect();
        let now = credentials(&mut center);
        assert!((set_at..set_at + 600).contains(&now.password_set_at_unix_s), "{backend:?}");
        assert_eq!(now.password_expires, Expiry::ByAge);
        assert!(deploy(&center.url, "[table.t]\n").unwrap().statements.is_empty());
    });
}
