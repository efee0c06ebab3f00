//! Where a connection ends or a server errs, by the name of the place.

use super::verdict::{Side, Verdict};
use model::{Code, Failure};
use protocol::{Failed, Message};

/// What goes wrong, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before the upload is complete, so it is not committed.
    BeforeCommit,
    /// The upload is committed, and its acknowledgement is lost.
    AfterCommit,
    /// The connection ends behind the acknowledgement.
    AfterAcknowledgement,
    /// The connection ends behind the schema change.
    AfterSchemaChange,
    /// The connection ends before the download is complete.
    WithinDownload,
    /// The server answers this instead of Welcome.
    Refuse(Code),
    /// The server announces more rows than it sends.
    Miscount,
}

impl Fault {
    /// The rule that lets it happen once.
    pub(super) fn rule(self) -> impl FnMut(Side, &Message) -> Verdict + Send + use<> {
        let mut happened = false;
        move |from, message| {
            if happened {
                return Verdict::Pass;
            }
            let verdict = self.verdict(from, message);
            happened = !matches!(verdict, Verdict::Pass);
            verdict
        }
    }

    fn verdict(self, from: Side, message: &Message) -> Verdict {
        match (self, from, message) {
            (Fault::BeforeCommit, Side::Client, Message::UploadEnd(_))
            | (Fault::AfterCommit, Side::Server, Message::UploadCommitted(_))
            | (Fault::WithinDownload, Side::Server, Message::DownloadEnd(_)) => Verdict::CutBefore,
            (Fault::AfterAcknowledgement, Side::Server, Message::UploadCommitted(_))
            | (Fault::AfterSchemaChange, Side::Server, Message::SchemaChange(_)) => {
                Verdict::CutBehind
            }
            (Fault::Refuse(code), Side::Client, Message::Hello(_)) => {
                let failure = Failure::new(code, "refused");
                Verdict::Answer(vec![Message::Failed(Failed::from(&failure))])
            }
            (Fault::Miscount, Side::Server, Message::DownloadEnd(end)) => {
                let mut end = end.clone();
                end.rows += 1;
                Verdict::Replace(vec![Message::DownloadEnd(end)])
            }
            _ => Verdict::Pass,
        }
    }
}
