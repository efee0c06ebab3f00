//! Which scripts around rows the owner of the center writes, and what they leave there.

use super::schema::Schema;
use consolidated::Event::{self, *};
use harness::Chance;

/// Both of a pair run in one transaction, for the same tables: what one leaves, so does the other.
pub const PAIRS: [(Event, Event); 6] = [
    (BeginUpload, EndUpload),
    (BeginUploadRows, EndUploadRows),
    (BeginUploadDeletes, EndUploadDeletes),
    (BeginDownload, EndDownload),
    (BeginDownloadDeletes, EndDownloadDeletes),
    (BeginDownloadRows, EndDownloadRows),
];

/// Others.
const SINGLE: [Event; 6] = [
    BeginSynchronization,
    BeginPublication,
    PrepareForDownload,
    DownloadStatistics,
    EndPublication,
    EndSynchronization,
];

/// Scripts around rows of one model. Each writes a line into a table of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Around {
    /// For the version, or for the table with this number.
    pub events: Vec<(Option<usize>, Event)>,
    /// A synchronization has one connection.
    pub session: bool,
    /// A script says of refused rows what holds without it: they are rejected.
    pub handles: bool,
    /// A script hears of them.
    pub reports: bool,
}

impl Around {
    pub(super) fn draw(schema: &Schema, chance: &mut Chance) -> Around {
        let mut events = Vec::new();
        for place in std::iter::once(None).chain((0..schema.tables.len()).map(Some)) {
            let fits = |event: &Event| match place {
                None => event.is_of_version(),
                Some(_) => event.is_of_table(),
            };
            let pairs = PAIRS.map(|(begin, end)| vec![begin, end]);
            for drawn in pairs.into_iter().chain(SINGLE.map(|event| vec![event])) {
                if drawn.iter().all(fits) && chance.below(4) == 0 {
                    events.extend(drawn.into_iter().map(|event| (place, event)));
                }
            }
        }
        let mut is_drawn = || chance.below(2) == 0;
        Around { events, session: is_drawn(), handles: is_drawn(), reports: is_drawn() }
    }
}
