//! How many rows wait at the center for a remote.
//!
//! They are read as its next download would read them, and not sent. What its scripts might write
//! or leave out is not asked, so remotes of such a script version are not counted.

use crate::administration::fleet::KnownRemote;
use crate::connection::Reader;
use crate::synchronization::resuming::Resuming;
use crate::synchronization::{DownloadBatch, FetchRequest, TableMark};
use crate::upload::echo::Echo;
use model::{Code, Counter, Failure, RemoteId, ScriptVersion, UserName, Watermark, unhex};
use std::collections::BTreeMap;

/// Rows that are read at once, in bytes.
const BATCH_BYTES: usize = 64 << 10;

/// Counts the rows and the keys of rows that wait for a remote, and ends behind `rows_max`. The
/// `claims` are those of its user, if the center decides about them. None where it cannot be known.
pub fn rows_waiting(
    reader: &mut dyn Reader,
    remote: &KnownRemote,
    claims: Option<BTreeMap<String, String>>,
    rows_max: u64,
) -> Result<Option<u64>, Failure> {
    let Some(last) = &remote.last_download else { return Ok(None) };
    let Some(held) = &last.ended.last_download else { return Ok(None) };
    let claims = claims.unwrap_or_else(|| held.claims.clone());
    let remote_id = RemoteId::new(&remote.remote_id)?;
    // It names the deployment that counts from now on.
    let user = UserName::new(&last.ended.user)?;
    reader.admittees(&[(&user, &remote_id)])?;
    let version = ScriptVersion::new(&last.ended.script_version)?;
    let session = reader.session(&user, claims, &remote_id, Some(&version), &held.publications)?;
    if session.fetched_by_writer {
        return Ok(None);
    }
    let watermark = |digits: &str| Watermark::new(unhex(digits)?).ok();
    let held: BTreeMap<&str, Option<Watermark>> =
        held.tables.iter().map(|(digest, mark)| (digest.as_str(), watermark(mark))).collect();
    let mark = |fingerprint: &String| TableMark {
        fingerprint: fingerprint.clone(),
        watermark: held.get(fingerprint.as_str()).cloned().flatten(),
    };
    let marks: Vec<_> = session.schema.tables.iter().map(|it| mark(&it.fingerprint)).collect();
    let request = FetchRequest {
        session: &session,
        counter: Counter(remote.counter),
        marks: &marks,
        held_marks: &[],
        is_counted: true,
        echo: &Echo::default(),
        time_us: None,
        wanted: &[],
        batch_bytes: BATCH_BYTES,
        batch_rows: u32::try_from(rows_max + 1).unwrap_or(u32::MAX),
        row_bytes_max: u64::MAX,
        resuming: Resuming::default(),
    };
    let mut rows = 0;
    let counted = reader.fetch(&request, &mut |batch| {
        match batch {
            DownloadBatch::Begin { .. } => rows = 0,
            DownloadBatch::Upserts { count, .. } | DownloadBatch::Deletes { count, .. } => {
                rows += u64::from(count);
            }
            _ => (),
        }
        let enough = || Failure::new(Code::Bug, "enough rows were counted");
        if rows > rows_max { Err(enough()) } else { Ok(()) }
    });
    match counted {
        Err(failure) if rows <= rows_max => Err(failure),
        _ => Ok(Some(rows)),
    }
}
