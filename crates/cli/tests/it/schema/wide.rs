//! Tables with as many columns as are possible, and with one more.

use harness::{World, sql};
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// The columns that a published table can have.
const COLUMNS_MAX: usize = 650;

/// The parents of the deepest table.
const PARENTS: usize = 6;

/// Each rule, for all rows and for those of a partition.
const TABLES: [(&str, &str); 9] = [
    ("wins", ""),
    ("remote", "conflict = \"remote_wins\""),
    ("late", "conflict = { latest = \"at\" }"),
    ("merged", "conflict = \"merge\""),
    ("wins_of", "partition = \"rep = {u.rep}\"\nmay_leave = true"),
    ("remote_of", "partition = \"rep = {u.rep}\"\nconflict = \"remote_wins\""),
    ("late_of", "partition = \"rep = {u.rep}\"\nconflict = { latest = \"at\" }\nmay_leave = true"),
    ("merged_of", "partition = \"rep = {u.rep}\"\nconflict = \"merge\""),
    ("deep", "parent = \"above0\"\nconflict = \"merge\"\nmay_leave = true"),
];

/// The tables with so many columns, and the parents of the last.
fn create(columns: usize) -> String {
    let mut sql = String::new();
    for level in (0..PARENTS).rev() {
        let refers = match level + 1 < PARENTS {
            true => format!(" REFERENCES above{}", level + 1),
            false => String::new(),
        };
        sql.push_str(&format!(
            "CREATE TABLE above{level} (id INTEGER PRIMARY KEY, up INTEGER{refers}, rep INTEGER);
             INSERT INTO above{level} VALUES (1, 1, 1);\n"
        ));
    }
    let more = (5..columns).map(|at| format!(", c{at} TEXT")).collect::<String>();
    for (name, _) in TABLES {
        let refers = if name == "deep" { " REFERENCES above0" } else { "" };
        sql.push_str(&format!(
            "CREATE TABLE {name} (id INTEGER, of INTEGER, rep INTEGER{refers}, at TEXT, \
             note TEXT{more}, PRIMARY KEY (id, of));\n"
        ));
        sql.push_str(&rows(name, columns, 1..=4));
    }
    sql
}

fn rows(name: &str, columns: usize, ids: impl Iterator<Item = i64>) -> String {
    let more = ", 'x'".repeat(columns - 4);
    let row = |id| format!("INSERT INTO {name} VALUES ({id}, 1, 1, '2026-01-01'{more});\n");
    ids.map(row).collect()
}

fn model() -> String {
    let mut model = "script_version = \"v1\"\n".to_owned();
    for level in 0..PARENTS {
        let part = match level + 1 < PARENTS {
            true => format!("parent = \"above{}\"", level + 1),
            false => "partition = \"rep = {u.rep}\"".to_owned(),
        };
        model.push_str(&format!("[table.above{level}]\n{part}\n"));
    }
    TABLES.iter().for_each(|(name, rule)| model.push_str(&format!("[table.{name}]\n{rule}\n")));
    model
}

fn full_synchronization(world: &World, columns: usize) {
    fs::write(world.path("model.toml"), model()).unwrap();
    world.syncline.ok(&["deploy"]);
    for user in ["ann", "bob"] {
        world.add_user_with(user, &["rep=1"]);
    }
    let server = world.serve();
    for user in ["ann", "bob"] {
        world.sync(user, &server);
    }
    let changes = |user: &str, month: u32, deleted: i64| {
        let mut text = String::new();
        for (name, _) in TABLES {
            text.push_str(&rows(name, columns, std::iter::once(10)));
            text.push_str(&format!(
                "UPDATE {name} SET note = '{user}', at = '2026-0{month}-01' WHERE id IN (1, 10);
                 DELETE FROM {name} WHERE id = {deleted};"
            ));
        }
        sql(&world.remote(user), &text);
    };
    changes("ann", 2, 3);
    changes("bob", 3, 4);
    // Somebody changes rows of the upload while it is under way.
    std::thread::scope(|scope| {
        let under_way =
            scope.spawn(|| world.try_sync("ann", &server, Some("client-frozen=sleep(3000)")));
        std::thread::sleep(std::time::Duration::from_secs(1));
        let again = TABLES.map(|(name, _)| format!("UPDATE {name} SET rep = 1 WHERE id = 1;"));
        sql(&world.remote("ann"), &again.concat());
        let outcome = under_way.join().unwrap();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    });
    let told = world.sync("bob", &server);
    assert_eq!(told["conflicts"], 2 * TABLES.len(), "{told}");
    world.sync("ann", &server);
    world.sync("bob", &server);
    world.assert_converged(&["ann", "bob"]);
    assert_eq!(world.center_count("SELECT count(*) FROM late WHERE note = 'bob'"), 2);
    assert_eq!(world.center_count("SELECT count(*) FROM deep"), 3);
}

/// The most columns work in every way, and one more is refused by whatever sees the table.
fn at_most(make: impl Fn(&str) -> World) {
    let columns = COLUMNS_MAX;
    let world = make(&create(columns));
    full_synchronization(&world, columns);
    world.center_sql("ALTER TABLE late ADD COLUMN more TEXT");
    let refused =
        format!("table late has {} columns to publish; {columns} are possible", columns + 1);
    for command in ["deploy", "check"] {
        let said = format!("{:?}", world.syncline.run(&[command]));
        assert!(said.contains(&refused) && said.contains("E6009"), "{command}: {said}");
    }
    let url = fs::read_to_string(world.path("syncline.toml")).unwrap();
    let url = url.lines().find_map(|line| line.strip_prefix("consolidated = ")).unwrap();
    let begun = world.syncline.run(&["init", "other", "--consolidated", url.trim_matches('"')]);
    assert!(format!("{begun:?}").contains(&refused), "{begun:?}");
    // It can be published without one of its columns.
    let named: Vec<String> = (5..columns).map(|at| format!("\"c{at}\"")).collect();
    let section =
        format!("[table.late]\ncolumns = [\"rep\", \"at\", \"note\", {}]", named.join(", "));
    let model = model().replace("[table.late]", &section);
    fs::write(world.path("model.toml"), model).unwrap();
    world.syncline.ok(&["deploy"]);
}

// S4, S11: deploy accepted a table with more, and no synchronization went through any more.
#[test]
fn a_table_of_sqlite_has_as_many_columns_as_all_statements_take() {
    at_most(|schema| World::new(PROGRAM, schema));
}

// S4, S11: likewise.
#[test]
fn a_table_of_postgres_has_as_many_columns_as_all_statements_take() {
    at_most(|schema| World::on_postgres(PROGRAM, schema));
}
