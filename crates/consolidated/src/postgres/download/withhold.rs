//! Notes rows that cannot be sent.

use crate::administration::readable;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::owed;
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Call, Link};
use crate::synchronization::withheld::Withholding;
use model::Failure;
use std::sync::{Arc, LazyLock};

/// If the row is owed for another reason, this is still reported, so its code and message stay.
static OWE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO syncline.syncline_owed AS o
    (remote_id, table_name, row_key, whole_key, counter, code, message, withheld)
VALUES ($1, $2, {indexed}, {whole}, $4, $5, $6, $7)
ON CONFLICT (remote_id, table_name, row_key) DO UPDATE SET
    counter = CASE WHEN o.withheld IS NULL THEN excluded.counter ELSE o.counter END,
    code = coalesce(o.code, excluded.code), message = coalesce(o.message, excluded.message),
    withheld = excluded.withheld
RETURNING (counter = $4)::int4",
        indexed = owed::indexed("$3::bytea"),
        whole = owed::whole("$3::bytea"),
    )
});

const TELL: &str = "INSERT INTO syncline.syncline_reject
    (remote_id, user_name, counter, table_name, operation, row_key, code, message)
VALUES ($1, $2, $3, $4, 'download', $5, $6, $7)";

/// With the watermark of this download the remote has what it was withheld before.
static RELEASE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE syncline.syncline_owed
SET withheld = NULL, code = NULL, message = NULL, counter = $4
WHERE remote_id = $1 AND table_name = $2 AND row_key IN ($3::bytea, {}) AND withheld IS NOT NULL",
        owed::indexed("$3::bytea")
    )
});

/// Inside the transaction that has locked the remote.
pub(in crate::postgres) fn withhold(
    link: &mut Link,
    tables: &[Arc<Table>],
    withholding: &Withholding<'_>,
) -> Result<(), Failure> {
    let Withholding { session, counter, withheld, released, .. } = withholding;
    let noting = failed("note what cannot be sent");
    let (remote_id, counter) = (session.remote_id.as_str(), counter.0);
    for row in *withheld {
        let code = i32::from(row.code.number());
        let published = &tables[row.table].deployed.published;
        let bytes = i64::try_from(row.bytes).unwrap_or(i64::MAX);
        let name = published.name.as_str();
        let encoding = link.encoding();
        let message = encoding.spelled(&row.message);
        let owed = link
            .query(&OWE, &[&remote_id, &name, &row.key, &counter, &code, &message, &bytes])
            .map_err(&noting)?;
        let news: Option<i32> =
            owed.first().map(|row| row.try_get(0)).transpose().map_err(unreadable)?;
        if news == Some(1) {
            let (key, user) = (readable::key(published, &row.key), session.user.as_str());
            let key = encoding.spelled(&key);
            link.query(TELL, &[&remote_id, &user, &counter, &name, &key, &code, &message])
                .map_err(&noting)?;
        }
    }
    for (table, key) in *released {
        let name = tables[*table].deployed.published.name.as_str();
        link.query(&RELEASE, &[&remote_id, &name, key, &counter]).map_err(&noting)?;
    }
    link.flight(&[Call::new("COMMIT", &[])]).map_err(&noting)?;
    Ok(())
}
