//! The last synchronizations of each remote at the center; on every database.

use crate::support::center::{Backend, Center, Remote, deploy};
use model::{Code, RemoteId, Value};
use syncline_consolidated::{EndedSynchronization, PastSynchronization, administer};

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);";

fn ended(remote_id: &str, uploaded: u64, proven: bool) -> EndedSynchronization {
    EndedSynchronization {
        age_s: 90,
        remote_id: remote_id.to_owned(),
        user: "ann".to_owned(),
        proven,
        script_version: "v1".to_owned(),
        client: "an application\0".to_owned(),
        code: (!proven).then_some(2101),
        message: (!proven).then(|| "wrong \0\"password\"".to_owned()),
        uploaded,
        bytes_out: u64::from(u32::MAX) + 1,
        phases: r#"{"waiting":0.5}"#.to_owned(),
        ..EndedSynchronization::default()
    }
}

fn known(center: &Center, remote_id: &str) -> Vec<PastSynchronization> {
    let remote_id = RemoteId::new(remote_id).unwrap();
    administer(&center.url).unwrap().synchronizations(&remote_id).unwrap()
}

// S9: what is kept of a remote is bounded, and who only claims to be its user cannot push out what
// its users did.
#[test]
fn the_last_synchronizations_of_each_known_remote_are_kept() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, "[table.t]\n");
        center.synchronize(&mut Remote::new("r"), &[]);
        center.synchronize(&mut Remote::new("s"), &[]);
        let mut all: Vec<_> = (0..25).map(|at| ended("r", at, true)).collect();
        all.extend((100..103).map(|at| ended("r", at, false)));
        all.extend([ended("s", 7, true), ended("nobody", 8, false)]);
        center.writer.begin().unwrap();
        center.writer.note_ended(&all).unwrap();
        center.writer.commit().unwrap();
        let of_r = known(&center, "r");
        let uploaded: Vec<_> = of_r.iter().map(|it| it.ended.uploaded).collect();
        assert_eq!(uploaded, [102, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15], "{backend:?}");
        assert_eq!(known(&center, "s").len(), 1, "{backend:?}");
        assert_eq!(known(&center, "nobody").len(), 0, "{backend:?}: it is no remote");

        let failed = &of_r[0].ended;
        assert_eq!(failed.message.as_deref(), Some("wrong \"password\""), "{backend:?}");
        assert_eq!((failed.code, failed.proven), (Some(2101), false), "{backend:?}");
        let last = &of_r[1];
        assert!((90..100).contains(&last.ended.age_s), "{backend:?}: {last:?}");
        assert!(last.ended_at.ends_with('Z'), "{backend:?}: {last:?}");
        let expected = EndedSynchronization {
            client: "an application".to_owned(),
            age_s: last.ended.age_s,
            ..ended("r", 24, true)
        };
        assert_eq!(last.ended, expected, "{backend:?}");

        let mut admin = administer(&center.url).unwrap();
        admin.forget_remote(&RemoteId::new("r").unwrap()).unwrap();
        center.writer.begin().unwrap();
        center.writer.note_ended(&[ended("r", 1, true)]).unwrap();
        center.writer.commit().unwrap();
        assert_eq!(known(&center, "r").len(), 0, "{backend:?}: a forgotten one is not known");
    });
}

// Trap 18: the layout before had no such table. Until a deployment brings it, nothing is read or
// written; then all goes on where it was, and no remote downloads anything again.
#[test]
fn a_deployment_brings_the_layout_before_to_the_one_of_today() {
    Backend::each(|backend| {
        let model = "[table.t]\n";
        let mut center = Center::on(backend, SCHEMA, model);
        let mut remote = Remote::new("r");
        center.foreign("INSERT INTO t VALUES (1, 'x')");
        center.synchronize(&mut remote, &[]);
        let prefix = backend.pick("", "syncline.");
        center.foreign(&format!("DROP TABLE {prefix}syncline_synchronization"));
        center.foreign(&format!("ALTER TABLE {prefix}syncline_reject DROP COLUMN settled"));
        let system = format!("{prefix}syncline_system");
        center.foreign(&format!("UPDATE {system} SET value = '13' WHERE name = 'format'"));
        let refused = administer(&center.url).unwrap().remotes(None).unwrap_err();
        assert_eq!(refused.code(), Code::DeployedByAnother, "{backend:?}");
        assert!(refused.hint_text().contains("syncline deploy"), "{backend:?}: {refused:?}");
        assert_eq!(
            syncline_consolidated::open_writer(&center.url).map(drop).unwrap_err().code(),
            Code::DeployedByAnother,
            "{backend:?}"
        );
        let statements = deploy(&center.url, model).unwrap().statements;
        assert!(statements.iter().any(|sql| sql.contains("'14'")), "{backend:?}: {statements:?}");
        assert!(deploy(&center.url, model).unwrap().statements.is_empty(), "{backend:?}");
        center.foreign("INSERT INTO t VALUES (2, 'y')");
        center.reconnect();
        let (_, downloaded) = center.synchronize(&mut remote, &[]);
        assert_eq!(downloaded.upserts.len(), 1, "{backend:?}: only the new row");
        assert!(known(&center, "r").is_empty(), "{backend:?}");
        assert_eq!(center.value("SELECT count(*) FROM t"), Value::Integer(2), "{backend:?}");
    });
}
