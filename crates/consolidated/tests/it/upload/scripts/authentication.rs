//! Scripts that decide who may synchronize, with the same results on both databases.

use crate::support::center::{Backend, Center, Remote, int, text};
use model::{Code, Failure};
use syncline_consolidated::Event::{
    self, AuthenticateParameters, AuthenticateUser, ModifyUser, UploadInsert,
};
use syncline_consolidated::{Answered, Authenticates, Passed, Question};

const TABLES: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER);
    CREATE TABLE tried (what TEXT);
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);";

const MODEL: &str = "[table.item]\n";

const REMEMBER: &str = "INSERT INTO tried VALUES ({s.username} || ' ' || {s.remote_id});\n";

fn center(backend: Backend, scripts: &[(Event, &str)]) -> Center {
    let mut center = Center::on(backend, TABLES, MODEL);
    let scripts: Vec<_> = scripts.iter().map(|(event, text)| ("", *event, *text)).collect();
    center.deploy_own(MODEL, &scripts).unwrap();
    center
}

/// T1 as a server runs it.
fn ask(center: &mut Center, password: &str, passed: &[&str]) -> Result<Answered, Failure> {
    ask_to_change(center, password, None, passed)
}

fn ask_to_change(
    center: &mut Center,
    password: &str,
    new_password: Option<&str>,
    passed: &[&str],
) -> Result<Answered, Failure> {
    let mut session = center.session(&Remote::new("r"));
    let passed: Vec<String> = passed.iter().map(|it| (*it).to_owned()).collect();
    session.passed = Passed::new(&passed);
    let password = Some(password);
    center.writer.begin().unwrap();
    let answered =
        center.writer.authenticate(&Question { session: &session, password, new_password });
    center.writer.commit().unwrap();
    answered
}

fn status(center: &mut Center, password: &str, passed: &[&str]) -> u16 {
    ask(center, password, passed).unwrap().status
}

/// What the scripts have left.
fn tried(center: &Center) -> i64 {
    let count = center.value("SELECT count(*) AS v FROM tried");
    (0..9).find(|n| int(*n) == count).unwrap()
}

const CHECK: &str =
    "SELECT CASE {s.password} WHEN 'sesame' THEN 1000 WHEN 'old' THEN 3000 WHEN 'soon' THEN 2001
         WHEN 'twice' THEN 5000 WHEN 'zero' THEN 0 WHEN 'beyond' THEN 6000 WHEN 'none' THEN NULL
         ELSE {s.authentication_status} END AS authentication_status";

#[test]
fn the_largest_status_counts_and_what_is_none_refuses() {
    Backend::each(|backend| {
        let remember = format!("{REMEMBER}{CHECK}");
        let parameters = "SELECT CASE {a.1} WHEN 'van' THEN 1000 WHEN 'late' THEN 3500
            ELSE {s.authentication_status} END AS authentication_status";
        let mut center =
            center(backend, &[(AuthenticateUser, &remember), (AuthenticateParameters, parameters)]);
        let statuses = [
            ("sesame", "van", 1000),
            ("soon", "van", 2001),
            ("old", "van", 3000),
            ("guess", "van", 4000),
            ("twice", "van", 5000),
            // None of them lets anybody in beside a script that does.
            ("zero", "van", 4000),
            ("beyond", "van", 4000),
            ("none", "van", 4000),
            ("sesame", "late", 3500),
            ("sesame", "bus", 4000),
            ("twice", "late", 5000),
        ];
        for (at, (password, passed, expected)) in statuses.into_iter().enumerate() {
            assert_eq!(status(&mut center, password, &[passed]), expected, "{password} {passed}");
            // It is committed, whatever the status is.
            assert_eq!(center.value("SELECT count(*) AS v FROM tried"), int(at as i64 + 1));
        }
        assert_eq!(status(&mut center, "sesame", &[]), 4000);
        assert_eq!(center.value("SELECT max(what) AS v FROM tried"), text("ann r"));
    });
}

#[test]
fn a_session_says_which_scripts_decide() {
    Backend::each(|backend| {
        let who = [
            (vec![], Authenticates::Nothing),
            (
                vec![(AuthenticateParameters, CHECK.replace("{s.password}", "{a.1}"))],
                Authenticates::Behind,
            ),
            (vec![(ModifyUser, "SELECT 'x' AS username".to_owned())], Authenticates::Behind),
            (vec![(AuthenticateUser, "--{ignore}".to_owned())], Authenticates::Nothing),
            (vec![(AuthenticateUser, CHECK.to_owned())], Authenticates::Instead),
        ];
        for (scripts, expected) in who {
            let scripts: Vec<_> = scripts.iter().map(|(event, text)| (*event, &**text)).collect();
            let mut center = center(backend, &scripts);
            assert_eq!(center.session(&Remote::new("r")).authenticates, expected, "{scripts:?}");
        }
    });
}

#[test]
fn what_scripts_set_is_answered_and_known_to_the_next() {
    Backend::each(|backend| {
        let user = "SELECT 1000 AS authentication_status, 'north' AS \"u.region\"";
        let parameters = "SELECT 1500 AS authentication_status, NULL AS u_team,
            'welcome to ' || {u.region} AS authentication_message";
        let modify = "SELECT {s.username} || '@' || {u.region} AS username";
        let scripts =
            [(AuthenticateUser, user), (AuthenticateParameters, parameters), (ModifyUser, modify)];
        let mut center = center(backend, &scripts);
        let answered = ask(&mut center, "sesame", &[]).unwrap();
        let set = [("region", Some("north")), ("team", None)];
        let set = set.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
        assert_eq!(answered.status, 1500);
        assert_eq!(answered.user_values, set.into_iter().collect());
        assert_eq!(answered.user.as_str(), "ann@north");
        assert_eq!(answered.message.unwrap(), "welcome to north");
    });
}

// S7: databases quote what they were given.
#[test]
fn a_script_that_fails_leaves_nothing_and_tells_no_secret() {
    Backend::each(|backend| {
        // SQLite converts whatever it is given, so a constraint fails there.
        let fails = backend.pick(
            "INSERT INTO tried SELECT value ->> {s.password} FROM json_each({s.password})",
            "SELECT CAST({s.password} AS integer)",
        );
        let script = format!("{REMEMBER}{fails};\n{CHECK}");
        let mut center = center(backend, &[(AuthenticateUser, &script)]);
        let failure = ask(&mut center, "open sesame", &["pen"]).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptFailed);
        let message = failure.full_message();
        assert!(message.starts_with("scripts/v1/authenticate_user.sql:2:1: "), "{message}");
        assert!(!message.contains("sesame") && !message.contains("pen"), "{message}");
        assert_eq!(tried(&center), 0);
    });
}

#[test]
fn a_reference_that_is_broken_at_the_end_undoes_it() {
    Backend::each(|backend| {
        let script = format!("{REMEMBER}INSERT INTO child VALUES (7);\n{CHECK}");
        let mut center = center(backend, &[(AuthenticateUser, &script)]);
        let failure = ask(&mut center, "sesame", &[]).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptFailed, "{}", failure.full_message());
        assert_eq!(tried(&center), 0);
    });
}

#[test]
fn a_refused_user_keeps_the_name_and_a_refusal_repeats_no_secret() {
    Backend::each(|backend| {
        let parameters = "SELECT 4000 AS authentication_status,
            'no such car: ' || {a.1} AS authentication_message";
        let modify = "SELECT 'other' AS username";
        let mut center =
            center(backend, &[(AuthenticateParameters, parameters), (ModifyUser, modify)]);
        let answered = ask(&mut center, "", &["van 7"]).unwrap();
        assert_eq!((answered.status, answered.user.as_str()), (4000, "ann"));
        assert_eq!(answered.message.unwrap(), "no such car: …");
    });
}

#[test]
fn a_new_password_needs_a_script_that_takes_it() {
    Backend::each(|backend| {
        let mut center = center(backend, &[(AuthenticateUser, CHECK)]);
        let failure = ask_to_change(&mut center, "sesame", Some("next"), &[]).unwrap_err();
        assert_eq!(failure.code(), Code::PasswordNotChanged);
        let takes = "INSERT INTO tried VALUES ({s.new_password});
            SELECT 1000 AS authentication_status";
        center.deploy_own(MODEL, &[("", AuthenticateUser, takes)]).unwrap();
        ask_to_change(&mut center, "sesame", Some("next"), &[]).unwrap();
        assert_eq!(center.value("SELECT what AS v FROM tried"), text("next"));
    });
}

// The session and the scripts that decide about it are of one deployment.
#[test]
fn scripts_of_another_deployment_decide_nothing() {
    Backend::each(|backend| {
        let mut center = center(backend, &[(AuthenticateUser, CHECK)]);
        let session = center.session(&Remote::new("r"));
        center.deploy_own(MODEL, &[]).unwrap();
        let (password, new_password) = (Some("sesame"), None);
        let question = Question { session: &session, password, new_password };
        center.writer.begin().unwrap();
        let failure = center.writer.authenticate(&question).unwrap_err();
        center.writer.commit().unwrap();
        assert_eq!(failure.code(), Code::Superseded);
    });
}

#[test]
fn a_deployment_refuses_scripts_that_cannot_decide() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, TABLES, MODEL);
        let wrong = [
            (AuthenticateUser, "SELECT 1 AS status", "it returns no column authentication_status"),
            (ModifyUser, "SELECT {s.password} AS username", "has no such value"),
            (
                AuthenticateParameters,
                "SELECT {s.password} AS authentication_status",
                "no such value",
            ),
        ];
        for (event, text, why) in wrong {
            let failure = center.deploy_own(MODEL, &[("", event, text)]).unwrap_err();
            assert_eq!(failure.code(), Code::ScriptInvalid);
            assert!(failure.message().contains(why), "{}", failure.message());
        }
        let elsewhere = [("item", UploadInsert, "INSERT INTO item VALUES ({r.id}, {s.password})")];
        center.deploy_own(MODEL, &elsewhere).unwrap_err();
    });
}

// A procedure has INOUT parameters, as it does elsewhere.
#[test]
fn a_procedure_of_postgres_decides() {
    let backend = Backend::Postgres;
    let mut center = Center::on(backend, TABLES, MODEL);
    center.foreign(
        "CREATE PROCEDURE check_user(INOUT status integer, name text, password text)
             LANGUAGE plpgsql
             AS $$ BEGIN
             IF password = 'sesame' THEN status := 1000; END IF; END $$;
         CREATE PROCEDURE rename_user(INOUT name text) LANGUAGE plpgsql
             AS $$ BEGIN name := upper(name); END $$;",
    );
    let check = "CALL public.check_user({s.authentication_status}, {s.username}, {s.password})";
    let rename = "{call public.rename_user({s.username})}";
    let scripts = [("", AuthenticateUser, check), ("", ModifyUser, rename)];
    center.deploy_own(MODEL, &scripts).unwrap();
    assert_eq!(ask(&mut center, "sesame", &[]).unwrap().user.as_str(), "ANN");
    assert_eq!(status(&mut center, "guess", &[]), 4000);
}
