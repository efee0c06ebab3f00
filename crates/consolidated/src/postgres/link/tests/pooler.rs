//! Sessions that a real pgbouncer shares between clients.

use super::*;
use harness::postgres::Pooler;

fn refused(outcome: Result<Vec<Answer>, Fault>) {
    let failure = outcome.unwrap_err().failure("begin");
    assert_eq!(failure.code(), Code::PoolerShares, "{}", failure.full_message());
}

#[test]
fn a_session_that_is_lent_to_two_is_refused_to_both() {
    let database = Cluster::shared().database();
    let pooler = Pooler::start(&database, "transaction");
    let mut link = open(&pooler.url()).unwrap();
    let before = link.round_trips();
    let alone = [Call::Simple("BEGIN"), Call::Simple("COMMIT")];
    link.begin(&alone).unwrap();
    assert_eq!(link.round_trips() - before, 1, "the mark travels along");
    assert_eq!(code(open(&pooler.url())), Code::PoolerShares);
    let before = link.round_trips();
    match link.begin(&alone) {
        // The pooler has given up the session, and lends a new one that nobody else has.
        Ok(_) => assert!(link.round_trips() - before > 1, "it is another session"),
        refusal => refused(refusal),
    }
}

// Answers of another session are recognized, and nothing of this one stays there.
#[test]
fn a_transaction_that_begins_in_another_session_does_nothing() {
    let database = Cluster::shared().database();
    database.sql("CREATE TABLE t (id int)");
    let pooler = Pooler::start(&database, "transaction");
    let insert = Call::new("INSERT INTO t VALUES (1)", &[]);
    let mut others = Vec::new();
    for calls in [&[Call::Simple("BEGIN"), insert][..], &[insert], &[Call::Simple("BEGIN")]] {
        let mut link = open(&pooler.url()).unwrap();
        // It gets the session that was used last, and keeps it.
        let mut other = pooler.session();
        other.sql("BEGIN");
        others.push(other);
        refused(link.begin(calls));
    }
    assert_eq!(database.count("SELECT count(*) FROM t"), 0);
}

#[test]
fn a_session_that_was_reset_is_refused_once() {
    let mut link = link(&Cluster::shared().database());
    link.begin(&[Call::Simple("BEGIN")]).unwrap();
    link.batch("RESET ALL").unwrap();
    link.batch("COMMIT").unwrap();
    refused(link.begin(&[Call::Simple("BEGIN")]));
    link.begin(&[Call::Simple("BEGIN")]).unwrap();
}
