//! Well-known public schemas, each in two-way sync as it is, with rows that fit whatever it says.
//!
//! One course for all of them: `init`, `deploy`, two remotes; then inserts, edits and deletes at
//! the center and at both remotes, which meet. Nothing here knows a table: `catalog.rs` reads the
//! tables, `plan.rs` makes the writes and `trial.rs` tries each at the center first.
//!
//! The schemas in `schemas/alike` are written for this test. They have the names and the traits of
//! the public ones, and no text of them. `SYNCLINE_TEST_SCHEMAS=FOLDER` names a folder with others
//! to take in their place: `northwind.sqlite.sql`, `vaultwarden.postgres.sql`, and so on. Such a
//! file must load without an error into an empty database, by a role that owns it.

#![allow(clippy::print_stdout, reason = "tells which tables are left out")]

mod catalog;
mod plan;
mod source;
mod statement;
mod trial;
mod values;

use catalog::{Catalog, Table};
use harness::postgres::Cluster;
use harness::{Chance, Dialect, ForeignTool, Server, Share, World, full};
use plan::{Place, Plan};
use serde_json::Value;
use source::Source;
use trial::Trial;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const REMOTES: [&str; 2] = ["ann", "ben"];
/// Rounds of synchronizations after which nothing may be left to send.
const ROUNDS_MAX: usize = 6;

/// What is known of one of our schemas.
struct Expected {
    /// Tables that `init` leaves out, each with what it says of it.
    left_out: &'static [(&'static str, &'static str)],
    /// Tables for which no row is found.
    empty: &'static [&'static str],
}

const WHOLE: Expected = Expected { left_out: &[], empty: &[] };

const NORTHWIND: Expected = Expected { left_out: &[("order_subtotals", "is a view")], empty: &[] };

const SYNAPSE_SQLITE: Expected = Expected {
    left_out: &[
        ("devices", "has no primary key"),
        ("event_json", "has no primary key"),
        ("event_search", "is a virtual table"),
        ("profiles", "has no primary key"),
        ("schema_version", "has no primary key"),
        ("server_signature_keys", "has no primary key"),
        ("ui_auth_sessions_credentials", "has no primary key"),
        ("users", "has no primary key"),
    ],
    empty: &[],
};
const SYNAPSE_POSTGRES: Expected = Expected {
    left_out: &[
        ("devices", "has no primary key"),
        ("e2e_cross_signing_keys", "has no primary key"),
        ("event_json", "has no primary key"),
        ("event_search", "has no primary key"),
        ("events", "has no primary key"),
        ("partial_state_rooms_servers", "has no primary key"),
        ("profiles", "has no primary key"),
        ("registration_tokens", "has no primary key"),
        ("schema_version", "has no primary key"),
        ("server_signature_keys", "has no primary key"),
        ("ui_auth_sessions_credentials", "has no primary key"),
        ("user_external_ids", "has no primary key"),
        ("users", "has no primary key"),
    ],
    empty: &[],
};
const PAGILA: Expected = Expected {
    left_out: &[
        ("actor_info", "is a view"),
        ("payment", "is partitioned"),
        ("payment_p2001_01", "is a partition, or inherits or is inherited from"),
        ("payment_p2010_02", "is a partition, or inherits or is inherited from"),
        ("rental_by_category", "is a materialized view"),
    ],
    empty: &[],
};
const ADVENTUREWORKS: Expected =
    Expected { left_out: &[("sales.vpersondemographics", "is a view")], empty: &[] };

/// Its key is a UNIQUE constraint.
const VAULTWARDEN: Expected =
    Expected { left_out: &[("groups_users", "has no primary key")], empty: &[] };

// S3, S11: names with blanks, composite keys, pictures, a table that refers to itself, views.
#[test]
fn northwind_converges_on_sqlite() {
    converges("northwind", Dialect::Sqlite, &WHOLE);
}

// S3, S11: M2M tables, deferred foreign keys, identity keys, a key of text.
#[test]
fn django_converges_on_postgres() {
    converges("django", Dialect::Postgres, &WHOLE);
}

// S3, S11: short keys that the application gives, foreign keys added afterwards.
#[test]
fn northwind_converges_on_postgres() {
    if !full() {
        return;
    }
    converges("northwind", Dialect::Postgres, &NORTHWIND);
}

// S3, S11: deferred foreign keys, UNIQUE pairs, bool and datetime.
#[test]
fn django_converges_on_sqlite() {
    if !full() {
        return;
    }
    converges("django", Dialect::Sqlite, &WHOLE);
}

// S3, S11: keys of text, composite keys, tables of nothing but their key.
#[test]
fn vaultwarden_converges_on_sqlite() {
    if !full() {
        return;
    }
    converges("vaultwarden", Dialect::Sqlite, &VAULTWARDEN);
}

// S3, S11: the same with keys in char(36) that varchar(40) refers to.
#[test]
fn vaultwarden_converges_on_postgres() {
    if !full() {
        return;
    }
    converges("vaultwarden", Dialect::Postgres, &VAULTWARDEN);
}

// S3, S11: UNIQUE in place of a key, a virtual table, partial indexes.
#[test]
fn synapse_converges_on_sqlite() {
    if !full() {
        return;
    }
    converges("synapse", Dialect::Sqlite, &SYNAPSE_SQLITE);
}

// S3, S11: UNIQUE in place of a key, sequences, identity, bytea, tsvector.
#[test]
fn synapse_converges_on_postgres() {
    if !full() {
        return;
    }
    converges("synapse", Dialect::Postgres, &SYNAPSE_POSTGRES);
}

// S3, S11: triggers that write to their own row and to another table, a circle of tables.
#[test]
fn sakila_converges_on_sqlite() {
    if !full() {
        return;
    }
    converges("sakila", Dialect::Sqlite, &WHOLE);
}

// S3, S11: an enum, domains, arrays, partitions, generated columns, triggers.
#[test]
fn pagila_converges_on_postgres() {
    if !full() {
        return;
    }
    converges("pagila", Dialect::Postgres, &PAGILA);
}

// S3, S11: many schemas, domains, xml, money, CHECKs of all kinds.
#[test]
fn adventureworks_converges_on_postgres() {
    if !full() {
        return;
    }
    converges("adventureworks", Dialect::Postgres, &ADVENTUREWORKS);
}

fn converges(name: &str, dialect: Dialect, expected: &Expected) {
    let source = Source::find(name, dialect);
    println!("{name} on {dialect:?}: {source}");
    let world = world(dialect, &source.text);
    let left_out = init(&world, dialect);
    left_out.iter().for_each(|told| println!("{name}: left out: {told}"));
    world.syncline.ok(&["deploy"]);
    world.syncline.ok(&["check"]);
    REMOTES.iter().for_each(|user| world.add_user(user));
    let catalog = Catalog::read(&world, dialect);
    let is_out = |table: &Table| left_out.iter().any(|told| names(told, &table.name));
    let mut plan = Plan::new(&catalog, dialect, Chance::usual(1), is_out);
    let server = world.serve();
    fill(&world, dialect, &server, &mut plan);
    if source.is_alike {
        let wanted: Vec<String> =
            expected.left_out.iter().map(|(table, why)| format!("table {table} {why}")).collect();
        assert_eq!(left_out, wanted, "{name}");
        assert_eq!(plan.empty(), expected.empty, "{name}: no row fits these tables");
    }
    write_everywhere(&world, dialect, &mut plan);
    let conflicts = synchronize_until_quiet(&world, &server);
    assert!(conflicts > 0, "{name}: no two changes of a row met");
    let shares: Vec<Share> = plan.published().map(|table| Share::whole(&table.name)).collect();
    assert!(!shares.is_empty(), "{name}");
    for remote in REMOTES {
        let lines = world.differences_in(remote, &shares);
        assert!(lines.is_empty(), "{name}: {remote} differs:\n{}", lines.join("\n"));
        let broken = "SELECT count(*) FROM pragma_foreign_key_check";
        assert_eq!(harness::count(&world.remote(remote), broken), 0, "{name}: {remote}");
    }
    println!("{name}: {} tables, {plan}", shares.len());
}

/// A database with the tables, and nothing of Syncline.
fn world(dialect: Dialect, create: &str) -> World {
    match dialect {
        Dialect::Sqlite => {
            let world = World::without_deployment(PROGRAM, "");
            ForeignTool::Shell.sql(&world.consolidated(), create);
            world
        }
        Dialect::Postgres => {
            let database = Cluster::shared().database();
            database.sql(create);
            // What `init` offers are the schemas of the search path.
            database.sql(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public%s',
                 current_database(), (SELECT string_agg(', ' || quote_ident(nspname), '')
                 FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'
                 AND nspname NOT IN ('public', 'information_schema'))); END $$",
            );
            World::on_database(PROGRAM, database)
        }
    }
}

/// Writes the model; gives what is said of tables that it leaves out.
fn init(world: &World, dialect: Dialect) -> Vec<String> {
    let url = match dialect {
        Dialect::Sqlite => "sqlite:consolidated.db".to_owned(),
        Dialect::Postgres => world.database().url(),
    };
    let told = world.syncline.run(&["init", ".", "--consolidated", &url]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let warned = |line: &str| {
        let line = line.strip_prefix("warning: ").unwrap_or_else(|| panic!("{told:?}"));
        line.strip_suffix("; it is left out").unwrap_or(line).to_owned()
    };
    told.stderr.lines().map(warned).collect()
}

/// Whether what `init` has said is about this table.
fn names(told: &str, table: &str) -> bool {
    told.strip_prefix("table ")
        .and_then(|rest| rest.strip_prefix(table))
        .is_some_and(|rest| rest.starts_with(' '))
}

/// The first rows, at the center, and both remotes receive them.
fn fill(world: &World, dialect: Dialect, server: &Server, plan: &mut Plan<'_>) {
    let mut trial = Trial::begin(world, dialect);
    plan.fill(world, &mut trial);
    trial.end();
    world.center_sql(&plan.take(Place::Center));
    REMOTES.iter().for_each(|remote| drop(world.sync(remote, server)));
}

/// Each side deletes, edits and inserts, and all of it is possible together.
fn write_everywhere(world: &World, dialect: Dialect, plan: &mut Plan<'_>) {
    let mut trial = Trial::begin(world, dialect);
    for place in Place::ALL {
        plan.edit(place, &mut trial);
        plan.insert(place, &mut trial);
    }
    // Last, so that nobody needs the key of a row that another one deletes.
    for place in Place::ALL {
        plan.delete(place, &mut trial);
    }
    trial.end();
    world.center_sql(&plan.take(Place::Center));
    for (number, remote) in REMOTES.iter().enumerate() {
        harness::sql(&world.remote(remote), &plan.take(Place::Remote(number)));
    }
}

/// Synchronizes until neither remote has anything to send or to receive; gives the conflicts.
fn synchronize_until_quiet(world: &World, server: &Server) -> u64 {
    let mut conflicts = 0;
    for _ in 0..ROUNDS_MAX {
        let mut moved = 0;
        for remote in REMOTES {
            let report = world.sync(remote, server);
            assert_eq!(report["rejected"], 0, "{remote}: {report}: {}", rejects(world, remote));
            conflicts += report["conflicts"].as_u64().unwrap();
            moved += sum(&report["uploaded"]) + sum(&report["downloaded"]);
        }
        if moved == 0 {
            return conflicts;
        }
    }
    panic!("after {ROUNDS_MAX} rounds there is still something to send");
}

fn rejects(world: &World, remote: &str) -> String {
    world.syncline.run(&["remote", "rejects", &format!("{remote}.db")]).stdout
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}
