//! Which watermarks of its predecessor are valid on a promoted standby (trap 2).
//!
//! A standby assigns the numbers of transactions that had not reached it again. But every
//! synchronization stores a snapshot before its own commit. The transactions that this snapshot
//! shows were committed before. So if the snapshot has reached the standby, they have too. The
//! largest such snapshot is the *floor* of the new timeline. A watermark that shows nothing beyond
//! the floor is valid. With any other watermark the whole table is sent again.

use crate::postgres::download::snapshot::Snapshot;
use crate::postgres::download::watermark::{Mark, NumberSpace};
use crate::postgres::errors::failed;
use crate::postgres::link::Link;
use model::Failure;

/// Records the floor, once for each timeline; also where nothing had arrived yet.
///
/// The transaction that stored the largest snapshot has arrived too. Its number counts if it is not
/// far beyond the snapshot. So the download of the remote that synchronized last is also proven, if
/// no other session wrote in the meantime. All numbers between count as open transactions.
const RECORD: &str = "WITH stored AS (
    SELECT snapshot, pg_snapshot_xmax(snapshot)::text::int8 AS xmax, xmin::text::int8 AS writer
    FROM syncline.syncline_remote WHERE timeline < $1::int8 AND snapshot IS NOT NULL
    ORDER BY pg_snapshot_xmax(snapshot) DESC LIMIT 1
), placed AS (
    SELECT snapshot, xmax,
        xmax + ((writer - xmax) % 4294967296 + 4294967296) % 4294967296 AS writer FROM stored
), floored AS (
    SELECT CASE WHEN writer - xmax < 1000 THEN (pg_snapshot_xmin(snapshot)::text || ':'
        || writer + 1 || ':' || (SELECT coalesce(string_agg(id::text, ',' ORDER BY id), '') FROM (
            SELECT xip::text::int8 AS id FROM pg_snapshot_xip(snapshot) AS xip
            UNION ALL SELECT generate_series(xmax, writer - 1)
        ) AS ids))::pg_snapshot ELSE snapshot END AS floor
    FROM placed
)
INSERT INTO syncline.syncline_timeline (timeline, floor)
SELECT $1::int8, coalesce((SELECT floor FROM floored), '1:1:')
ON CONFLICT DO NOTHING";

const READ: &str = "SELECT timeline::int8, floor::text FROM syncline.syncline_timeline";

/// The floors as one connection knows them: a connection sees only one timeline.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Timelines {
    space: NumberSpace,
    floors: Vec<(u32, Snapshot)>,
}

impl Timelines {
    /// Whether this is for the timeline that the connection is on.
    pub(in crate::postgres) fn is_for(&self, space: NumberSpace) -> bool {
        self.space == space
    }

    /// Records the floor of the connection's timeline, and reads all. Outside a transaction.
    pub(in crate::postgres) fn meet(link: &mut Link) -> Result<Timelines, Failure> {
        let space = link.number_space();
        let timeline = i64::from(space.timeline);
        link.query(RECORD, &[&timeline]).map_err(failed("record a timeline"))?;
        let rows = link.query(READ, &[]).map_err(failed("read the timelines"))?;
        let floors = rows.iter().filter_map(|row| {
            let timeline: i64 = row.try_get(0).ok()?;
            Some((u32::try_from(timeline).ok()?, Snapshot::parse(row.try_get(1).ok()?)?))
        });
        Ok(Timelines { space, floors: floors.collect() })
    }

    /// Whether everything that the mark shows is in this database.
    pub(in crate::postgres) fn prove(&self, mark: &Mark) -> bool {
        let point = &mark.point;
        let Some(shown) = &point.snapshot else { return true };
        let later = self.floors.iter().filter(|(timeline, _)| *timeline > point.space.timeline);
        let here = point.space.timeline == self.space.timeline;
        let before = point.space.timeline < self.space.timeline;
        point.space.system == self.space.system
            && (here || before)
            && later.into_iter().all(|(_, floor)| shown.is_within(floor))
            // Without the floor of the present timeline nothing is known.
            && (here || self.floors.iter().any(|(timeline, _)| *timeline == self.space.timeline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::download::watermark::Point;
    use model::Counter;

    fn mark(system: u64, timeline: u32, snapshot: &str) -> Mark {
        let (generation, counter) = (1, Counter(1));
        let space = NumberSpace { system, timeline };
        let snapshot = Snapshot::parse(snapshot);
        let point = Point { space, incarnations: 0, perishable: 0, snapshot };
        Mark { generation, counter, claims: 0, time: None, point }
    }

    // Trap 2
    #[test]
    fn a_mark_of_an_older_timeline_must_be_below_every_floor_since() {
        let floor = |timeline, text| (timeline, Snapshot::parse(text).unwrap());
        let timelines = Timelines {
            space: NumberSpace { system: 7, timeline: 3 },
            floors: vec![floor(1, "1:1:"), floor(2, "100:120:110"), floor(3, "200:200:")],
        };
        for (mark, proven) in [
            (mark(7, 3, "900:900:"), true),
            (mark(7, 2, "150:150:"), true),
            (mark(7, 2, "150:201:"), false),
            (mark(7, 1, "110:120:110"), true),
            (mark(7, 1, "110:120:"), false),
            (mark(7, 4, "1:1:"), false),
            (mark(8, 3, "1:1:"), false),
        ] {
            assert_eq!(timelines.prove(&mark), proven, "{mark:?}");
        }
    }
}
