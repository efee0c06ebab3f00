//! Histories that have found something, as short as they were when it was understood.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use simulation::history::{History, Length, Selection, Simplification, read_steps};
use simulation::run::{Counts, find};
use simulation::simulated::Simulated;
use simulation::world::World;

/// These steps of a seed, in a schema without some parts, with nothing to find any more.
fn check(seed: u64, steps: &str, without: &str) {
    let without: Result<Vec<Simplification>, String> = without.split(',').map(str::parse).collect();
    let selection = Selection { steps: read_steps(steps).ok(), without: without.unwrap() };
    let history = History::draw(seed, Length::USUAL).part(&selection);
    let mut counts = Counts::default();
    let mut story = Vec::new();
    let mut tell = |words: String| story.push(words);
    let world = |history: &History| -> Box<dyn World> { Box::new(Simulated::new(history)) };
    if let Some(found) = find(&history, &world, &mut counts, &mut tell) {
        let tables = format!("{}{}", history.schema.create(), history.model.toml(&history.schema));
        let (step, story) = (found.step, story.join("\n"));
        panic!("{tables}\n{story}\nseed {seed}, step {step}: {}", found.violation);
    }
    assert!(counts.synchronized > 0, "seed {seed}: {counts:?}");
}

// S5, Trap 3, Trap 13: a file takes a new identity after a restore of the center. What it received
// before shows that it comes from another past.
#[test]
fn a_copied_file_is_compared_with_a_restored_center() {
    check(100544, "2,9,20,23,31,54,56,76,87-88", "t1,t0.rows,t0.rule");
    check(101040, "22-25,58,64,102,105,110-111,132", "t2,t1,t0.unique,t1.options,t2.options");
    let without = "t3,t1,t0.options,t0.rows,t0.rule,t1.options,t2.r0,t2.actions,t2.unique,\
                   t2.options,t2.nocase,t2.rule,t3.options";
    check(101046, "53,55,93-94,114,117,120,135", without);
}

// S5, Trap 3, Trap 13: the same of a file that was set back.
#[test]
fn a_file_that_was_set_back_is_compared_with_a_restored_center() {
    let without = "t0,t1.r0,t1.rule,t2.r0,t2.actions,t2.rule";
    check(100617, "5,11,41-42,50,59,63-64,91,94,106,111", without);
}

// S5, Trap 3: a table was only uploaded when the center was restored, and is downloaded later.
#[test]
fn what_was_only_uploaded_is_compared_when_it_is_downloaded() {
    check(100856, "44,47,63,66,69,129,147,170", "t0,t1.r0,t1.unique,t1.rule");
    // A kept file, and an upload that no download precedes: what is compared later is not lost.
    check(300576, "50-51,85,91,93,115,121,132", "t1,t0,t2.r0,t2.actions,t2.rule");
    check(300735, "6-8,92,102,129,148,166", "t1,t0.options,t1.options");
}

// S5, Trap 3: a row of a table of the user's own refers to a row that the center has lost. What the
// download overwrites around it is recorded.
#[test]
fn rows_that_stay_for_others_are_compared_with_a_restored_center() {
    let steps = "0,2-3,5,92-93,97,109,111,114,154,166,168,170";
    check(300211, steps, "t0.r0,t0.actions,t0.unique,t0.rule,t1.r1,t1.actions,t1.rule");
}

// S5, Trap 3: a synchronization of before a restore still brings what the center had then. These
// rows are in the past that the restore has undone, with their records.
#[test]
fn what_stood_still_over_a_restore_is_of_the_past_before() {
    check(300098, "22,24,27,89,96-97,102,132,135", "t2,t1,t0,t3.r0,t3.actions,t3.rows,t3.rule");
    check(300648, "21,37-38,47,62-63,77,88", "t1,t0.rows,t0.rule");
}

// S1: a row is deleted at one remote, and has got another key at a second one. The change is
// refused under the key that the first one knows.
#[test]
fn a_delete_of_a_row_that_has_moved_is_refused_under_its_former_key() {
    let without = "t3,t2,t1,t0.actions,t0.unique,t0.options,t0.rule,t1.options";
    check(101241, "0,2,12,43,45,48,50,52", without);
}

// S1, S5: a cascade of the center takes along a row of the same upload, while others change keys.
#[test]
fn a_row_that_its_own_upload_takes_along_is_recorded() {
    let without = "t0.unique,t0.rows,t0.rule,t1.unique,t1.options,t1.nocase,t1.rows,t1.rule";
    check(302771, "2,98-99,135,138,140,142,144,160-161,168", without);
}

// S3, S5, Trap 23: the key of an edited row is that of a row that comes when the table comes back.
#[test]
fn a_row_that_comes_for_the_key_of_an_edited_one_stays() {
    let without = "t0.rows,t0.rule,t1.unique,t1.nocase,t1.rows,t1.rule";
    check(302128, "6-7,27,66,96-97,100,128-129", without);
}

// S5, Trap 24: what lay in a column before it was published again.
#[test]
fn values_of_a_column_that_comes_back_are_recorded() {
    check(302498, "50,52,101,103,127,129", "t1,t0.options,t0.nocase,t0.rows,t0.rule,t1.options");
}

// S4: a table that is only uploaded gets a foreign key, which its rows have to keep; and a row that
// a table of the user's own holds cannot keep it.
#[test]
fn a_foreign_key_that_a_table_gets_holds() {
    let without = "t1,t0.r0,t0.actions,t0.rule,t1.options,t2.r1,t2.r2,t2.actions,t2.options,\
                   t2.rows,t2.rule";
    check(302656, "50,71,75,110,112,132", without);
    let without = "t3,t0.options,t0.rule,t1.r0,t1.r2,t1.actions,t1.unique,t1.options,t1.nocase,\
                   t2.r0,t2.r2,t2.actions,t2.unique,t2.options,t2.rows";
    check(302852, "1,4,8,12,115-116", without);
}

// S4, Trap 3: an attempt that ends after its beginning has tried again what was kept back, and has
// compared nothing yet.
#[test]
fn an_attempt_that_ends_early_has_done_something() {
    let without = "t0.r0,t0.actions,t0.unique,t0.options,t1.r1,t1.actions,t1.rows,t1.rule";
    check(302434, "0,6,38,52-53,66,68,88,114,117-118", without);
    let without = "t0.options,t1.r0,t1.actions,t1.unique,t1.rows,t1.rule";
    check(302606, "0,6,17,38,47,57,139,141,148-149", without);
}

// S5: a row is replaced and gets another key before it is uploaded.
#[test]
fn a_row_that_was_replaced_goes_on_with_what_is_not_published() {
    check(302253, "33,82,88-89,122,129", "t0,t0.options,t1.r0,t1.options,t1.rows,t1.rule");
}

// S5, Trap 21: a change follows its row to another key, where a third remote has overwritten it.
#[test]
fn a_change_follows_its_row_though_another_one_has_its_place() {
    let without = "t0,t1.r0,t1.r1,t1.actions,t1.unique,t1.options,t1.nocase,t1.rows";
    check(302253, "53,88,109,116,121,129", without);
}

// S3, S11, Trap 10: two parents have exchanged their keys, and a child of one was deleted then.
#[test]
fn a_child_that_was_deleted_after_it_moved_blocks_no_remote() {
    let without = "t0.options,t0.nocase,t0.rule,t1.r1,t1.rows,t1.rule";
    check(303181, "0,2,5,79,95,107,114,116-118", without);
}

// S4, Trap 26: rows of a table that is only uploaded refer to nothing, because an application does
// not check foreign keys. No download says anything of them.
#[test]
fn what_an_application_has_broken_is_set_aside() {
    let without = "t0.unique,t0.options,t0.nocase,t0.rows,t1.rows,t1.rule";
    check(700565, "69,73,90,122,147,151", without);
    let without = "t3,t0,t1.r0,t1.actions,t1.options,t2.r1,t2.r2,t2.actions,t2.options,t2.rows,\
                   t2.rule,t3.options";
    check(910241, "61,78,97,101,195,198", without);
}
