//! Users and their passwords at the center; on every database.

use crate::support::center::{Backend, Center};
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
