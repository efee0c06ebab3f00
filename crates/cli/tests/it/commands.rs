//! Every command without a synchronization: what it prints, what it writes, how it fails.

mod confirm;

use harness::postgres::Cluster;
use harness::{Server, World, query, sql};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE \"order\" (id TEXT PRIMARY KEY NOT NULL, customer_id INTEGER REFERENCES customer);
    CREATE TABLE note (text TEXT)";

fn shop() -> World {
    World::without_deployment(PROGRAM, SHOP)
}

const INIT: &[&str] = &["init", "project", "--consolidated", "sqlite:consolidated.db"];

#[test]
fn init_writes_both_files_and_warns_of_what_it_left_out() {
    let world = shop();
    let outcome = world.syncline.run(INIT);
    assert_eq!(outcome.code, Some(0));
    assert!(outcome.stderr.contains("warning: ") && outcome.stderr.contains("note"), "{outcome:?}");
    assert!(outcome.stdout.contains("2 tables published"), "{outcome:?}");
    let config = fs::read_to_string(world.path("project/syncline.toml")).unwrap();
    let absolute = format!("sqlite:{}", world.consolidated().display());
    assert!(config.contains(&absolute), "the URL is stored absolute");
    assert!(world.path("project/model.toml").exists());
}

#[test]
fn init_overwrites_nothing_unless_forced() {
    let world = shop();
    fs::create_dir(world.path("project")).unwrap();
    fs::write(world.path("project/model.toml"), "mine").unwrap();
    world.syncline.fails("E6005", INIT);
    assert!(!world.path("project/syncline.toml").exists(), "a refusal leaves nothing behind");
    assert_eq!(fs::read_to_string(world.path("project/model.toml")).unwrap(), "mine");
    let mut forced = INIT.to_vec();
    forced.push("--force");
    world.syncline.ok(&forced);
    assert_ne!(fs::read_to_string(world.path("project/model.toml")).unwrap(), "mine");
}

#[test]
fn init_names_what_is_wrong_with_the_database() {
    let world = shop();
    fs::write(world.path("text.db"), "this is not a database, it is only text").unwrap();
    for (url, code) in [
        ("sqlite:missing.db", "E3001"),
        ("sqlite:text.db", "E3010"),
        ("oracle:x", "E6006"),
        ("consolidated.db", "E6006"),
    ] {
        world.syncline.fails(code, &["init", "project", "--consolidated", url]);
        assert!(!world.path("project").exists(), "{url}");
    }
    let mut wanted = INIT.to_vec();
    wanted.extend(["--table", "note"]);
    world.syncline.fails("E6004", &wanted);
}

// The reason was dropped: «the database has no table with a primary key», which was not true.
#[test]
fn init_says_why_no_table_can_be_synchronized() {
    let refused = |sql: &str| {
        let world = World::without_deployment(PROGRAM, sql);
        let told = world.syncline.fails("E6003", INIT);
        assert!(!world.path("project").exists());
        told
    };
    let told = refused("CREATE TABLE log (text TEXT); CREATE TABLE b (\"{a}\" PRIMARY KEY)");
    assert!(told.contains("table log has no primary key (E6004)"), "{told}");
    assert!(told.contains("table b has a brace in a column name (E6009)"), "{told}");
    let many: String = (0..12).map(|n| format!("CREATE TABLE t{n} (text TEXT);")).collect();
    assert!(refused(&many).contains("; and 2 more"));
    assert!(refused("").contains("the database has no table with a primary key"));
}

#[test]
fn init_says_on_postgres_why_no_table_can_be_synchronized() {
    for (create, why) in [
        (
            "CREATE TABLE item (id int PRIMARY KEY, name text, \"Name\" text)",
            "table item has columns whose names differ only in letter case, which are equal in \
             SQLite (E6009)",
        ),
        ("CREATE TABLE item (id interval PRIMARY KEY)", "(E6150)"),
        ("CREATE TABLE item (id numeric PRIMARY KEY)", "(E6150)"),
        ("CREATE TABLE item (id jsonb PRIMARY KEY)", "(E6150)"),
    ] {
        let database = Cluster::shared().database();
        database.sql(create);
        let world = World::on_database(PROGRAM, database);
        let url = world.database().url();
        let told = world.syncline.fails("E6003", &["init", ".", "--consolidated", &url]);
        assert!(told.contains("table item") && told.contains(why), "{told}");
    }
}

const NUMBERED: &str = "are numbered, and two remotes may take the same number";

fn told(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| line.starts_with("notice: ")).collect()
}

// Two remotes gave two orders the same number, and nobody had said that they would.
#[test]
fn tables_that_number_their_rows_are_told_when_they_are_published() {
    let sqlite = World::without_deployment(
        PROGRAM,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE TABLE b (id INT PRIMARY KEY, v);
         CREATE TABLE c (id INTEGER, n INTEGER, PRIMARY KEY (id, n));
         CREATE TABLE d (id INTEGER PRIMARY KEY AUTOINCREMENT, v);
         CREATE TABLE e (id INTEGER PRIMARY KEY REFERENCES a, v);
         CREATE TABLE f (id INTEGER PRIMARY KEY, v) WITHOUT ROWID",
    );
    let database = Cluster::shared().database();
    database.sql(
        "CREATE TABLE a (id serial PRIMARY KEY); CREATE TABLE b (id uuid PRIMARY KEY);
         CREATE TABLE c (id int, n serial, PRIMARY KEY (id, n));
         CREATE TABLE d (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
         CREATE TABLE e (id int PRIMARY KEY REFERENCES a);
         CREATE TABLE f (id text PRIMARY KEY, n int NOT NULL GENERATED BY DEFAULT AS IDENTITY,
             m bigserial, given int NOT NULL DEFAULT 1, free int DEFAULT nextval('a_id_seq'))",
    );
    for world in [sqlite, World::on_database(PROGRAM, database)] {
        let (url, postgres) = match world.consolidated().exists() {
            true => ("sqlite:consolidated.db".to_owned(), false),
            false => (world.database().url(), true),
        };
        let printed = world.syncline.ok(&["init", ".", "--consolidated", &url]);
        let [numbered] = &told(&printed)[..] else { panic!("{printed}") };
        assert!(numbered.contains(&format!("new rows of a, d {NUMBERED}")), "{printed}");
        let deployed = world.syncline.ok(&["deploy"]);
        assert!(told(&deployed).contains(numbered), "{deployed}");
        let defaults = ["n of c", "n of f", "m of f"].map(|column| {
            let left_out = format!("the default of column {column} is left out at remotes");
            deployed.contains(&left_out)
        });
        assert_eq!(defaults, [postgres; 3], "{deployed}");
        assert!(!deployed.contains("column given") && !deployed.contains("column free"));
        let again = world.syncline.ok(&["deploy"]);
        assert!(!again.contains(NUMBERED), "{again}");
        let quiet = ["init", "quiet", "--download-only", "--consolidated", &url];
        assert!(!world.syncline.ok(&quiet).contains(NUMBERED));
    }
}

#[test]
fn deploy_is_idempotent_and_undeploy_leaves_the_database_as_it_was() {
    let world = shop();
    let schema = || query(&world.consolidated(), "SELECT type, name, sql FROM sqlite_schema");
    let before = schema();
    world.syncline.ok(INIT);
    let script = world.syncline.ok(&["deploy", "--dir", "project", "--dry-run"]);
    assert!(script.contains("CREATE TRIGGER") && schema() == before, "a dry run changes nothing");
    world.syncline.fails("E3003", &["user", "list", "--dir", "project"]);
    world.syncline.ok(&["deploy", "--dir", "project"]);
    assert!(world.syncline.ok(&["deploy", "--dir", "project"]).contains("nothing to do"));
    let again = world.syncline.ok(&["deploy", "--dir", "project", "--dry-run"]);
    assert!(again.starts_with("-- nothing to do"), "{again}");
    assert!(world.syncline.ok(&["check", "--dir", "project"]).contains("agree"));
    let scripts = world.syncline.ok(&["scripts", "show", "--dir", "project"]);
    assert!(scripts.contains("table order, event upload_insert"), "{scripts}");
    world.syncline.ok(&["undeploy", "--dir", "project", "--yes"]);
    assert_eq!(schema(), before);
}

/// Programs had to read the message of a failure from text for people.
#[test]
fn a_command_with_json_fails_in_json_too() {
    let world = shop();
    world.syncline.ok(INIT);
    for arguments in [
        &["deploy", "--dir", "nowhere", "--json"][..],
        &["user", "list", "--dir", "project", "--json"],
        &["fleet", "show", "i", "--dir", "project", "--json"],
        &["remote", "status", "nothing.db", "--json"],
        &["sync", "nothing.db", "--json"],
    ] {
        let failed = world.syncline.run(arguments);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        let told: serde_json::Value = serde_json::from_str(&failed.stdout).unwrap();
        let error = &told["error"];
        let code = error["code"].as_str().unwrap();
        assert_eq!(failed.message(code), error["message"].as_str().unwrap());
        assert!(failed.stderr.contains(error["hint"].as_str().unwrap()), "{failed:?}");
        assert_eq!(error["retry"], false);
    }
}

#[test]
fn what_was_made_is_told_in_json() {
    let world = shop();
    let made = world.syncline.json(&[INIT, &["--json"]].concat());
    assert_eq!(made["tables"], serde_json::json!(["customer", "order"]));
    assert_eq!(made["files"][1], "project/model.toml");
    world.syncline.ok(&["deploy", "--dir", "project"]);
    world.write_secret("secret", "hunter two\n");
    let add = ["user", "add", "ann", "--password-file", "secret", "--claim", "a=b", "--json"];
    let added = world.syncline.json(&[&add[..], &["--dir", "project"]].concat());
    assert_eq!(added, serde_json::json!({ "user": "ann", "claims": { "a": "b" } }));
    let shown = world.syncline.json(&["scripts", "show", "--dir", "project", "--json"]);
    assert_eq!(shown["publications"][0]["tables"][0], "customer", "{shown}");
    let scripts = shown["scripts"].as_array().unwrap();
    assert!(scripts.iter().any(|script| script["event"] == "upload_insert"), "{shown}");
}

/// The options of the log stood between those of the command.
#[test]
fn short_help_is_about_the_command() {
    let world = shop();
    for command in [&["sync"][..], &["user", "add"], &["deploy"]] {
        let help = |option: &str| world.syncline.ok(&[command, &[option]].concat());
        let (short, long) = (help("-h"), help("--help"));
        assert!(!short.contains("--log") && short.contains("see more with '--help'"), "{short}");
        let (_, log) = long.split_once("\nLog:\n").unwrap();
        let log = log.split("\nExamples:").next().unwrap();
        assert!(["--log <", "--log-format", "--log-file"].iter().all(|it| log.contains(it)));
        assert!(!log.contains("--json") && !log.contains("--dir"), "{long}");
    }
}

#[test]
fn check_finds_a_dropped_trigger() {
    let world = shop();
    world.syncline.ok(INIT);
    world.syncline.ok(&["deploy", "--dir", "project"]);
    sql(&world.consolidated(), "DROP TRIGGER syncline_insert_customer");
    world.syncline.fails("E3005", &["check", "--dir", "project"]);
    world.syncline.ok(&["deploy", "--dir", "project"]);
    world.syncline.ok(&["check", "--dir", "project"]);
}

/// Each of these messages said something that was not the fault.
#[test]
fn a_message_names_the_fault_and_not_its_consequence() {
    let world = shop();
    world.syncline.ok(INIT);
    let message = |code: &str, arguments: &[&str]| world.syncline.fails(code, arguments);
    let said = message("E5007", &["remote", "pending", "nothing.db"]);
    assert!(said.contains("there is no file `nothing.db`"), "{said}");
    world.write_secret("secret", "hunter two\n");
    let user = ["--server", "tcp://127.0.0.1:1", "--user", "ann", "--password-file", "secret"];
    let said = message("E5001", &[&["sync", "no/ann.db"], &user[..]].concat());
    assert!(said.contains("the folder of `no/ann.db` does not exist"), "{said}");
    world.syncline.ok(&["deploy", "--dir", "project"]);
    let said = message("E5013", &["remote", "status", "consolidated.db"]);
    assert!(said.contains("consolidated.db` is a consolidated database"), "{said}");
    let add = ["user", "add", "ann", "--dir", "project", "--password-file", "."];
    let said = message("E2112", &add);
    assert!(said.contains("cannot read the password file ."), "{said}");
}

#[test]
fn a_rule_that_names_no_column_says_so() {
    for world in both() {
        let path = world.path("model.toml");
        let model = fs::read_to_string(&path).unwrap();
        let rule = "[table.customer]\nconflict = { latest = \"changed\" }";
        fs::write(&path, model.replace("[table.customer]", rule)).unwrap();
        let said = world.syncline.fails("E6003", &["deploy"]);
        assert!(said.contains("latest names changed, but there is no such column"), "{said}");
    }
}

fn both() -> [World; 2] {
    [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)]
}

/// It said that the column syncline_version, or a trigger, was missing.
#[test]
fn a_dropped_table_is_said_to_be_gone() {
    for world in both() {
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        world.center_sql("DROP TABLE \"order\"");
        let checked = world.syncline.fails("E6003", &["check"]);
        assert!(checked.contains("there is no table order"), "{checked}");
        for word in ["`dropped_tables = [\"order\"]`", "`renamed_from = \"order\"`"] {
            let hinted = world.syncline.run(&["check"]).stderr;
            assert!(hinted.contains(word), "{hinted}");
        }
        let waiting = world.sync("ann", &server)["waiting"].clone();
        let message = waiting[0]["message"].as_str().unwrap();
        assert!(message.contains("order") && message.contains("is gone"), "{message}");
    }
}

/// It gave the words of the database, and the operator did not know what to do.
#[test]
fn a_rename_that_was_not_deployed_says_what_to_do() {
    for world in both() {
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        world.center_sql("ALTER TABLE customer RENAME COLUMN name TO title");
        world.center_sql("INSERT INTO customer VALUES (7, 'new')");
        let outcome = world.try_sync("ann", &server, None);
        let lost = "column name of table customer is gone";
        for words in [lost, "`syncline check`", "`syncline deploy`"] {
            assert!(outcome.stderr.contains(words), "{outcome:?}");
        }
    }
}

#[test]
fn check_and_deploy_speak_json() {
    for world in both() {
        let nothing = world.syncline.json(&["deploy", "--json"]);
        assert_eq!(nothing["statements"], serde_json::json!([]), "{nothing}");
        assert_eq!(world.syncline.json(&["check", "--json"])["errors"], 0);
        world.center_sql("CREATE TABLE extra (id INTEGER PRIMARY KEY)");
        world.syncline.ok(&["model", "add"]);
        let checked = world.syncline.run(&["check", "--json"]);
        assert_eq!(checked.code, Some(1), "{checked:?}");
        let found: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
        assert_eq!(
            (&found["errors"], &found["findings"][0]["severity"]),
            (&1.into(), &"error".into())
        );
        let planned = world.syncline.json(&["deploy", "--json", "--dry-run"]);
        assert_eq!(planned["deployed"], false);
        // A failure too: it printed nothing, and a script could not tell why.
        world.center_sql("ALTER TABLE extra RENAME TO other");
        for command in ["check", "deploy"] {
            let failed = world.syncline.run(&[command, "--json"]);
            assert_eq!(failed.code, Some(1), "{failed:?}");
            let told: serde_json::Value = serde_json::from_str(&failed.stdout).unwrap();
            assert_eq!(
                (&told["error"]["code"], &told["error"]["table"]),
                (&"E6003".into(), &"extra".into())
            );
            assert!(told["error"]["hint"].as_str().unwrap().contains("`dropped_tables"), "{told}");
        }
        world.center_sql("ALTER TABLE other RENAME TO extra");
        let deployed = world.syncline.json(&["deploy", "--json"]);
        assert_eq!(deployed["deployed"], true);
        assert!(deployed["statements"].as_array().unwrap().len() > 1, "{deployed}");
        world.syncline.ok(&["check"]);
    }
}

/// A claim with a spelling mistake, or a forgotten one, left its user without rows. No message said
/// why.
#[test]
fn a_claim_that_no_model_uses_and_one_that_is_missing_are_warnings() {
    for world in both() {
        let path = world.path("model.toml");
        let model = fs::read_to_string(&path).unwrap();
        let part = "[table.customer]\npartition = \"name = {u.region}\"";
        fs::write(&path, model.replace("[table.customer]", part)).unwrap();
        world.syncline.ok(&["deploy"]);
        world.write_secret("secret", "hunter two\n");
        let add = |name: &'static str, claim: &'static str| {
            let add = ["user", "add", name, "--password-file", "secret", "--claim", claim];
            let outcome = world.syncline.run(&add);
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            outcome.stderr
        };
        assert_eq!(add("ann", "region=north"), "");
        let warned = add("ben", "reigon=north");
        assert!(warned.contains("the claim reigon, which no deployed model uses"), "{warned}");
        let checked = world.syncline.ok(&["check"]);
        assert!(checked.contains("notice: user ben has the claim reigon"), "{checked}");
        assert!(checked.contains("notice: user ben has no claim region"), "{checked}");
        assert!(!checked.contains("user ann"), "{checked}");
        let warned = world.syncline.run(&["user", "set", "ann", "--claim", "region="]).stderr;
        assert!(warned.contains("user ann has no claim region: tables"), "{warned}");
        let checked = world.syncline.ok(&["check"]);
        assert!(checked.contains("notice: users ann, ben have no claim region"), "{checked}");
    }
}

/// Nothing said that a claim fits no row, or that PostgreSQL would refuse its user (E2114).
#[test]
fn a_claim_that_is_no_value_of_its_column_is_a_warning() {
    for world in both() {
        let path = world.path("model.toml");
        let model = fs::read_to_string(&path).unwrap();
        let part = "[table.customer]\npartition = \"id IN {u.numbers}\"";
        fs::write(&path, model.replace("[table.customer]", part)).unwrap();
        world.syncline.ok(&["deploy"]);
        world.write_secret("secret", "correct horse\n");
        let claim = "numbers=7,abc";
        let add = ["user", "add", "ann", "--password-file", "secret", "--claim", claim];
        let outcome = world.syncline.run(&add);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let warned = outcome.stderr.to_lowercase();
        let told = "warning: user ann has the claim numbers=7,abc, which is no value of \
                    customer.id of type integer in its partition";
        assert!(warned.contains(told), "{warned}");
        let set = world.syncline.run(&["user", "set", "ann", "--claim", "numbers=7,8"]);
        assert_eq!((set.code, set.stderr.as_str()), (Some(0), ""));
    }
}

/// The provider may send it for ever, and no row is selected by it.
#[test]
fn a_claim_of_jwts_that_no_model_uses_is_a_notice() {
    let world = World::new(PROGRAM, SHOP);
    world.configure("jwt_claims = [\"team\"]");
    let checked = world.syncline.ok(&["check"]);
    let told = "notice: jwt_claims names the claim team, which no deployed model uses";
    assert!(checked.contains(told), "{checked}");
}

/// Only the first was told, and the next one after it was put right.
#[test]
fn several_problems_are_told_at_once() {
    for world in both() {
        world.center_sql("ALTER TABLE customer ADD COLUMN town TEXT");
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        server.stop();
        world.center_sql("CREATE TABLE visit (id INTEGER PRIMARY KEY)");
        world.center_sql("ALTER TABLE customer RENAME COLUMN name TO title");
        world.center_sql("ALTER TABLE customer DROP COLUMN town");
        let gone =
            |column: &str| format!("column {column} of table customer is gone, and 1 remote");

        let checked = world.syncline.run(&["check"]);
        let told =
            ["error: ", &gone("name"), &gone("town"), "table visit is in the database and not"];
        assert!(told.iter().all(|it| checked.stdout.contains(*it)), "{checked:?}");
        checked.message("E3005");
        let deployed = world.syncline.run(&["deploy"]);
        assert_eq!(deployed.code, Some(1), "{deployed:?}");
        let told: Vec<&str> =
            deployed.stderr.lines().filter(|line| line.starts_with("error E6155: ")).collect();
        assert!(told.len() == 2 && told[0].contains(&gone("name")), "{deployed:?}");
        assert!(told[1].contains(&gone("town")), "{deployed:?}");

        // A table that is missing hides none of the columns.
        world.center_sql("DROP TABLE \"order\"");
        let checked = world.syncline.run(&["check"]);
        checked.message("E6003");
        for told in ["column town of table customer is deployed and not in the database", "visit"] {
            assert!(checked.stdout.contains(told), "{checked:?}");
        }
    }
}

/// Nothing told of it before remotes were refused.
#[test]
fn check_names_what_is_wrong_around_the_server() {
    let world = World::new(PROGRAM, SHOP);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    server.stop();
    world.syncline.ok(&["cert", "dev"]);
    world.syncline.ok(&["cert", "dev", "--dir", "other"]);
    world.configure("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
    let checked = world.syncline.ok(&["check"]);
    assert!(checked.contains("agree"), "{checked}");
    world.center_sql("UPDATE syncline_remote SET last_download_at = '2999-01-02 03:04:05'");
    let checked = world.syncline.ok(&["check"]);
    assert!(checked.contains("notice: the clock of this machine says 2"), "{checked}");
    fs::copy(world.path("other/server.key"), world.path("server.key")).unwrap();
    let checked = world.syncline.run(&["check"]);
    assert!(checked.stdout.contains("error: E"), "{checked:?}");
    assert!(checked.stdout.contains("name the key that belongs to the certificate"), "{checked:?}");
    checked.message("E3005");
    fs::remove_file(world.path("server.pem")).unwrap();
    let checked = world.syncline.run(&["check"]);
    assert!(checked.stdout.contains("cannot read the certificates in "), "{checked:?}");
}

/// An authority whose certificate has ended on 2 January 2024.
fn ended_authority() -> String {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2023, 1, 2);
    params.not_after = rcgen::date_time_ymd(2024, 1, 2);
    let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    certificates::pem("CERTIFICATE", certificate.der())
}

/// The server found out with the first row that did not fit, or did not start.
#[test]
fn check_looks_at_the_folder_for_spilled_rows_and_at_the_authorities_of_remotes() {
    let world = World::new(PROGRAM, SHOP);
    world.configure("spill_dir = \"spilled\"\ntls_client_ca = \"ca.pem\"");
    let checked = world.syncline.run(&["check"]);
    checked.message("E3005");
    assert!(checked.stdout.contains("error: there is no folder spilled, which"), "{checked:?}");
    assert!(!checked.stdout.contains("ca.pem"), "nobody is asked for a certificate: {checked:?}");
    fs::create_dir(world.path("spilled")).unwrap();
    world.configure("tls_client = \"optional\"");
    let checked = world.syncline.run(&["check"]);
    checked.message("E3005");
    assert!(checked.stdout.contains("cannot read the certificates in ./ca.pem"), "{checked:?}");
    world.syncline.ok(&["cert", "dev"]);
    assert!(world.syncline.ok(&["check"]).contains("agree"));
    fs::write(world.path("ca.pem"), ended_authority()).unwrap();
    let checked = world.syncline.ok(&["check"]);
    let told = "notice: E5021: an authority in ./ca.pem has ended on 2024-01-02; ";
    assert!(checked.contains(told), "{checked}");
}

/// What was printed did not work as it was: the folder became two words, and `chmod` named no file.
#[test]
fn commands_that_are_told_work_as_they_are() {
    let world = shop();
    let told = world.syncline.ok(&["init", "my shop", "--consolidated", "sqlite:consolidated.db"]);
    assert!(told.contains("then `syncline deploy --dir 'my shop'`"), "{told}");
    let told = world.syncline.ok(&["deploy", "--dir", "my shop"]);
    let next = "next: `syncline user add NAME --dir 'my shop'`, `syncline serve --dir 'my shop'`";
    assert!(told.contains(next), "{told}");

    let world = World::new(PROGRAM, SHOP);
    let file = world.path("consolidated.db");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let log = world.serve().log();
    let (_, named) = log.split_once("chmod o-rwx ").expect("a warning");
    let named = named.lines().next().unwrap();
    assert!(named.ends_with("consolidated.db"), "{log}");
}

#[test]
fn a_mistake_in_the_configuration_is_told_with_its_line() {
    let world = shop();
    world.syncline.fails("E6001", &["deploy", "--dir", "project"]);
    world.syncline.ok(INIT);
    let path = world.path("project/syncline.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}idle_timeouts = 3\n")).unwrap();
    let message = world.syncline.fails("E6002", &["deploy", "--dir", "project"]);
    let line = text.lines().count() + 1;
    assert!(message.contains(&format!("syncline.toml:{line}: unknown key")), "{message}");
    assert!(message.contains("did you mean `idle_timeout_s`?"), "{message}");
}

#[test]
fn users_are_added_changed_listed_and_removed() {
    let world = World::new(PROGRAM, SHOP);
    let syncline = &world.syncline;
    world.write_secret("secret", "hunter two\n");
    let add = ["user", "add", "ann", "--password-file", "secret", "--claim", "region=north"];
    syncline.ok(&add);
    syncline.fails("E6007", &add);
    syncline.ok(&["user", "set", "ann", "--claim", "region=south", "--claim", "team=a=b"]);
    let list = syncline.json(&["user", "list", "--json"]);
    let claims = serde_json::json!({ "region": "south", "team": "a=b" });
    let ann = serde_json::json!({ "name": "ann", "claims": claims, "locked": false,
        "password_expires": null, "password_expiry": "by-age" });
    assert_eq!(list, serde_json::json!([ann]));
    syncline.ok(&["user", "password", "ann", "--password-file", "secret"]);
    syncline.ok(&["user", "remove", "ann", "--yes"]);
    for action in ["remove", "set", "password"] {
        let mut arguments = vec!["user", action, "ann"];
        match action {
            "remove" => arguments.push("--yes"),
            "set" => arguments.extend(["--claim", "a=b"]),
            "password" => arguments.extend(["--password-file", "secret"]),
            _ => {}
        }
        syncline.fails("E6008", &arguments);
    }
}

#[test]
fn a_password_comes_from_a_file_that_nobody_else_can_read() {
    let world = World::new(PROGRAM, SHOP);
    let add = ["user", "add", "ann", "--password-file", "secret"];
    world.syncline.fails("E2112", &add);
    world.write_secret("secret", "hunter two");
    fs::set_permissions(world.path("secret"), fs::Permissions::from_mode(0o640)).unwrap();
    world.syncline.fails("E2111", &add);
    world.syncline.fails("E2112", &["user", "add", "ann"]);
    assert_eq!(world.syncline.ok(&["user", "list"]).lines().count(), 1);
}

#[test]
fn wrong_usage_exits_with_two() {
    let world = shop();
    let wrong: &[&[&str]] =
        &[&["synch"], &["init"], &["sync"], &["user", "add", "ann", "--claim", "x"], &[]];
    for arguments in wrong {
        assert_eq!(world.syncline.run(arguments).code, Some(2), "{arguments:?}");
    }
    assert_eq!(world.syncline.run(&["--help"]).code, Some(0));
}

#[test]
fn everybody_may_change_what_init_publishes_and_it_says_so() {
    let world = shop();
    let told = world.syncline.ok(INIT);
    for table in ["customer", "order"] {
        let line = format!("\n{table}: every user may read and change every row\n");
        assert!(told.contains(&line), "{told}");
    }
    assert!(!told.contains("note: every user"), "{told}");
    let model = fs::read_to_string(world.path("project/model.toml")).unwrap();
    let (how_to_restrict, _) = model.split_once("script_version").unwrap();
    for option in ["partition", "parent", "direction", "columns"] {
        assert!(how_to_restrict.contains(&format!("\n#   {option}")), "{how_to_restrict}");
    }
    let told = world.syncline.ok(&[INIT, &["--force", "--download-only"]].concat());
    assert!(told.contains("2 tables published") && !told.contains("every user"), "{told}");
    let model = fs::read_to_string(world.path("project/model.toml")).unwrap();
    assert_eq!(model.matches("]\ndirection = \"download_only\"\n").count(), 2, "{model}");
    world.syncline.ok(&["deploy", "--dir", "project"]);
}

#[test]
fn a_locked_user_is_shut_out_until_unlocked() {
    for world in [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)] {
        let syncline = &world.syncline;
        world.add_user("ann");
        let server = world.serve();
        let mut with_token = world.sync_arguments("ann", &server);
        with_token.extend(["--token-file".to_owned(), "ann.token".to_owned()]);
        syncline.ok(&with_token);
        let locked = || syncline.json(&["user", "list", "--json"])[0]["locked"].clone();
        for _ in 0..2 {
            syncline.ok(&["user", "lock", "ann"]);
            assert_eq!(locked(), true);
        }
        // Neither the token nor the password, nor a new password, opens the door.
        syncline.fails("E2101", &with_token);
        world.write_secret("ann.password", "another one\n");
        syncline.ok(&["user", "password", "ann", "--password-file", "ann.password"]);
        assert_eq!(locked(), true);
        syncline.fails("E2101", &with_token);
        syncline.ok(&["user", "unlock", "ann"]);
        assert_eq!(locked(), false);
        syncline.ok(&with_token);
        for action in ["lock", "unlock"] {
            syncline.fails("E6008", &["user", action, "nobody"]);
        }
    }
}

#[test]
fn shells_and_man_know_every_command() {
    let world = shop();
    let help = world.syncline.ok(&["help"]);
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<&str> = names.filter(|name| !["", "help"].contains(name)).collect();
    assert!(commands.contains(&"sync") && commands.contains(&"completions"), "{help}");
    assert_eq!(world.syncline.ok(&["help", "sync"]), world.syncline.ok(&["sync", "--help"]));
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = world.syncline.ok(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
        assert!(script.contains("--log-format") || script.contains("log-format"), "{shell}");
        if shell == "bash" {
            let path = world.path("completions");
            fs::write(&path, script).unwrap();
            let checked = std::process::Command::new("bash").arg("-n").arg(&path).status();
            assert!(checked.unwrap().success());
        }
    }
    world.syncline.ok(&["man", "--dir", "man/man1"]);
    for command in &commands {
        let page = fs::read_to_string(world.path(&format!("man/man1/syncline-{command}.1")));
        assert!(page.unwrap().contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(world.path("man/man1/syncline-user-lock.1").exists());
}

#[test]
fn help_teaches_by_example() {
    let world = shop();
    for command in [
        "demo", "init", "deploy", "undeploy", "check", "scripts", "user", "serve", "sync", "remote",
    ] {
        let help = world.syncline.ok(&[command, "--help"]);
        assert!(help.contains(&format!("  syncline {command}")), "{help}");
        if command == "init" {
            for url in ["sqlite:PATH", "postgres://USER@HOST", "postgres:///DATABASE"] {
                assert!(help.contains(url), "{help}");
            }
        }
    }
}

#[test]
fn serve_says_where_it_listens_and_drains_on_a_signal() {
    let world = World::new(PROGRAM, SHOP);
    let server = world.serve();
    assert!(server.url.starts_with("tcp://127.0.0.1:") && !server.url.ends_with(":0"));
    world.syncline.fails("E3009", &["serve", "--listen", "tcp://127.0.0.1:0"]);
    server.stop();
}

// Trap 17: whichever way leads to the file, it is one file.
#[test]
fn a_file_has_one_server_by_whichever_name() {
    let world = World::new(PROGRAM, SHOP);
    let server = world.serve();
    let file = world.consolidated();
    let other = world.path("other");
    std::fs::create_dir(&other).unwrap();
    let serves = |name: &str| {
        let config = format!("consolidated = \"sqlite:{}\"\n", other.join(name).display());
        std::fs::write(other.join("syncline.toml"), config).unwrap();
        let folder = other.to_str().unwrap();
        world.syncline.run(&["serve", "--dir", folder, "--listen", "tcp://127.0.0.1:0"])
    };
    std::os::unix::fs::symlink(&file, other.join("symbolic.db")).unwrap();
    let refused = serves("symbolic.db");
    assert!(refused.stderr.contains("E3009: another server serves"), "{refused:?}");
    std::fs::hard_link(&file, other.join("hard.db")).unwrap();
    let refused = serves("hard.db");
    assert!(refused.stderr.contains("E3009"), "{refused:?}");
    assert!(refused.stderr.contains("hard.db has another name"), "{refused:?}");
    // The one that runs is not disturbed.
    world.add_user("ann");
    world.sync("ann", &server);
    server.stop();
    world.syncline.fails("E3009", &["serve", "--listen", "tcp://127.0.0.1:0"]);
    std::fs::remove_file(other.join("hard.db")).unwrap();
    world.serve().stop();
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let world = World::new(PROGRAM, SHOP);
    let mut server: Server = world.serve();
    let address = server.url.strip_prefix("tcp://").unwrap();
    // A silent peer keeps the server from ending.
    let _silent = std::net::TcpStream::connect(address).unwrap();
    server.terminate();
    harness::until("the server to drain", || server.log().contains("stopping"));
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

// S8, S11: neither a statement that does not end nor another program's lock keeps the server.
#[test]
fn a_server_ends_whatever_its_database_file_is_busy_with() {
    const ENDLESS: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE busy (id INTEGER PRIMARY KEY);
        CREATE TRIGGER endless AFTER UPDATE ON note WHEN EXISTS (SELECT 1 FROM busy) BEGIN
            SELECT count(*) FROM (WITH RECURSIVE number(n) AS (
                SELECT 1 UNION ALL SELECT n + 1 FROM number) SELECT n FROM number);
        END;";
    let world = World::new(PROGRAM, ENDLESS);
    world.configure("drain_timeout_s = 0");
    world.add_user("ann");
    world.center_sql("INSERT INTO note VALUES (1, 'x')");
    let server = world.serve();
    world.sync("ann", &server);
    server.stop();
    sql(&world.remote("ann"), "UPDATE note SET text = 'y'");
    let other = rusqlite::Connection::open(world.consolidated()).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    let locks = || other.execute_batch("BEGIN IMMEDIATE");

    world.center_sql("INSERT INTO busy VALUES (1)");
    let mut server = world.serve();
    let mut sync = world.sync_through("ann", &server.url);
    harness::until("the statement to run", || {
        let runs = locks().is_err();
        runs || other.execute_batch("ROLLBACK").is_err()
    });
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(!server.log().contains("are abandoned"), "{}", server.log());
    sync.wait().unwrap();
    world.center_sql("DELETE FROM busy");
    assert_eq!(world.center_count("SELECT count(*) FROM note WHERE text = 'x'"), 1);

    let mut server = world.serve();
    locks().unwrap();
    let mut sync = world.sync_through("ann", &server.url);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    sync.wait().unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    let server = world.serve();
    world.sync("ann", &server);
    assert_eq!(world.center_count("SELECT count(*) FROM note WHERE text = 'y'"), 1);
}

// S8: a server that is sent SIGHUP reads its configuration again, and goes on where it cannot.
#[test]
fn a_server_reloads_what_can_be_changed() {
    let world = World::new(PROGRAM, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)");
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);

    world.configure("upload_bytes_max = 65536\nworkers = 3");
    server.reload();
    assert!(server.log().contains("need_a_restart=\"workers\""), "{}", server.log());
    let long = "INSERT INTO note VALUES (1, printf('%0100000d', 0))";
    sql(&world.remote("ann"), long);
    world.sync_fails("ann", &server, "E4004");
    sql(&world.remote("ann"), "UPDATE note SET text = 'short'");
    world.sync("ann", &server);

    // A token that is signed with the former key is refused later.
    world.syncline.ok(&["rotate-keys", "--yes"]);
    server.reload();
    let mut with_token = world.sync_arguments("ann", &server);
    with_token.extend(["--token-file", "ann.token"].map(str::to_owned));
    world.syncline.ok(&with_token);
    let path = world.path("syncline.toml");
    let good = fs::read_to_string(&path).unwrap();
    world.configure("nonsense = 1");
    server.reload();
    assert!(server.log().contains("not reloaded"), "{}", server.log());
    assert!(server.log().contains("nonsense"), "{}", server.log());
    world.sync("ann", &server);
    fs::write(&path, good).unwrap();
    world.configure("log = \"debug\"");
    server.reload();
    server.stop();
    let server = world.serve();
    let by_token = ["sync", "ann.db", "--server", &server.url, "--token-file", "ann.token"];
    world.syncline.ok(&by_token);
    server.stop();
}

#[test]
fn serve_refuses_what_it_cannot_serve() {
    let world = shop();
    world.syncline.ok(&["init", ".", "--consolidated", "sqlite:consolidated.db"]);
    world.syncline.fails("E3003", &["serve", "--listen", "tcp://127.0.0.1:0"]);
    world.syncline.ok(&["deploy"]);
    world.syncline.fails("E6006", &["serve", "--listen", "quic://127.0.0.1:0"]);
    world.syncline.fails("E4005", &["serve", "--listen", "tcp://192.0.2.1:1"]);
}
