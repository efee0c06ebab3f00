//! What the server says about itself, the last upload and the tables.

use super::{Scene, Side};
use crate::connection::explain;
use crate::fail_point::fail_point;
use crate::moment::iso_utc;
use crate::progress;
use crate::progress::facts;
use crate::progress::state::State;
use crate::schema;
use crate::schema::change::waiting::{Names, Waiting};
use crate::synchronize::Step;
use model::{Code, Failure, Progress};
use protocol::{
    Capabilities, FRAME_BYTES_MAX, LastUpload, Mode, SchemaChange, UploadState, Welcome,
};

impl Side {
    /// Records what Welcome says, as far as it is news.
    pub(super) fn agree(&mut self, scene: &mut Scene<'_>, welcome: Welcome) -> Result<(), Failure> {
        require_changed(scene, &welcome)?;
        if welcome.token.is_some() {
            scene.total.token = welcome.token;
        }
        scene.total.authentication =
            match (scene.total.authentication.take(), welcome.authentication) {
                // A later attempt has the token, and says nothing of the change.
                (Some(former), None) => Some(former),
                (_, latest) => latest,
            };
        scene.total.script_version = welcome.script_version;
        scene.total.waiting = welcome.waiting_tables;
        self.kept = welcome.kept_tables;
        match &self.state.database_id {
            Some(known) if *known != welcome.database_id => {
                let message = format!(
                    "the remote belongs to database {known}, the server has {}",
                    welcome.database_id
                );
                return Err(Failure::new(Code::WrongDatabase, message));
            }
            Some(_) => {}
            None if scene.request.mode == Mode::Ping => {}
            None => {
                facts::set(&scene.remote.connection, "database_id", &welcome.database_id.0)
                    .map_err(explain)?;
                self.state.database_id = Some(welcome.database_id);
            }
        }
        scene.remote.proposed.accepted(&scene.remote.connection)?;
        if scene.request.mode == Mode::Ping {
            return Ok(());
        }
        self.get_to_know(scene, welcome.capabilities, welcome.frame_bytes_max)?;
        if self.state.synchronized_user.as_ref() != Some(scene.user) {
            facts::set(&scene.remote.connection, "synchronized_user", scene.user.as_str())
                .map_err(explain)?;
        }
        let news = match (self.outcome, welcome.progress) {
            (LastUpload::Unknown, None) => {
                let message = "Welcome does not contain the outcome of the last upload";
                return Err(Failure::new(Code::UnexpectedMessage, message));
            }
            (LastUpload::Unknown, committed) => committed,
            // What is being applied gets its outcome from UploadCommitted.
            (LastUpload::Known, _) if welcome.upload == UploadState::Taken => None,
            (LastUpload::Known, committed) => committed.filter(|it| *it != self.state.progress),
        };
        if let Some(committed) = news {
            self.learn_outcome(scene, committed)?;
        }
        if welcome.upload == UploadState::Send && !welcome.unknown_tables.is_empty() {
            self.give_up(scene, &welcome.unknown_tables)?;
            self.unknown = welcome.unknown_tables;
        }
        Ok(())
    }

    /// Records what the server can do and takes, so that the next Hello suits it.
    fn get_to_know(
        &mut self,
        scene: &Scene<'_>,
        can: Capabilities,
        frame_bytes_max: Option<u64>,
    ) -> Result<(), Failure> {
        let connection = &scene.remote.connection;
        if can != self.state.server_capabilities {
            self.state.server_capabilities = can;
            facts::set(connection, "server_capabilities", can.0.cast_signed()).map_err(explain)?;
        }
        let largest = frame_bytes_max.unwrap_or(FRAME_BYTES_MAX as u64);
        if largest != self.state.frame_bytes_max {
            self.state.frame_bytes_max = largest;
            facts::set(connection, "frame_bytes_max", largest.cast_signed()).map_err(explain)?;
        }
        Ok(())
    }

    /// The server does not know these tables, so it cannot accept their pending changes. It skipped
    /// the upload that came with Hello.
    fn give_up(&mut self, scene: &mut Scene<'_>, tables: &[u16]) -> Result<(), Failure> {
        let at = iso_utc(scene.remote.clock.unix_ms());
        // What it records is counted with all other rejects (`synchronize.rs`).
        schema::change::give_up(&scene.remote.connection, tables, Code::ShapeUnknown, &at)?;
        self.collected = None;
        self.state = read_state(scene)?;
        Ok(())
    }

    /// The server's last upload is not the one we knew of (trap 6).
    fn learn_outcome(&mut self, scene: &mut Scene<'_>, committed: Progress) -> Result<(), Failure> {
        let ours = self.state.frozen.is_some_and(|frozen| frozen.progress == committed);
        if !ours && committed != self.state.progress {
            // A copy of the file has continued with this identity. Numbers have random gaps, so an
            // own number means the own content.
            let message = format!("the server has upload {}, which is not ours", committed.0);
            return Err(Failure::new(Code::CopiedRemote, message));
        }
        progress::learn_outcome(&scene.remote.connection, &self.tables, &self.state, committed)?;
        self.outcome = LastUpload::Known;
        self.state = read_state(scene)?;
        fail_point!("client-outcome-learned");
        Ok(())
    }

    /// The server wants the new tables before anything else.
    pub(super) fn change_schema(
        &mut self,
        scene: &mut Scene<'_>,
        change: &SchemaChange,
    ) -> Result<(), Failure> {
        self.follow(
            scene,
            change,
            match scene.request.mode {
                Mode::DownloadOnly => Waiting::Kept,
                _ => Waiting::CarriedOver(Names::Guessed),
            },
        )
    }

    /// What waited has gone up under the tables that it was captured in.
    pub(super) fn change_schema_behind_upload(
        &mut self,
        scene: &mut Scene<'_>,
        change: &SchemaChange,
    ) -> Result<(), Failure> {
        // Changes that had to wait for a download, or still wait, would block this change forever.
        let waiting = match self.postponed || self.leaves_any(scene.total) {
            true => {
                self.drop_committed(scene.remote)?;
                Waiting::CarriedOver(Names::Told)
            }
            false => Waiting::Uploaded(self.committed),
        };
        self.follow(scene, change, waiting)?;
        self.committed = None;
        fail_point!("client-schema-changed");
        Ok(())
    }

    fn follow(
        &mut self,
        scene: &mut Scene<'_>,
        change: &SchemaChange,
        waiting: Waiting,
    ) -> Result<(), Failure> {
        let at = iso_utc(scene.remote.clock.unix_ms());
        schema::change::apply(&scene.remote.connection, change, waiting, &at)?;
        self.collected = None;
        scene.remote.tables = None;
        self.tables = scene.remote.tables()?;
        self.state = read_state(scene)?;
        Ok(())
    }
}

/// A new password was sent: the server says that it counts.
fn require_changed(scene: &mut Scene<'_>, welcome: &Welcome) -> Result<(), Failure> {
    if scene.remote.new_password.is_none() || scene.total.token.is_some() {
        return Ok(());
    }
    match welcome.authentication.as_ref().is_some_and(|it| it.password_changed) {
        true => {
            scene.host.show(Step::PasswordChanged);
            Ok(())
        }
        false => {
            let message = "the server does not say that the new password counts";
            Err(Failure::new(Code::PasswordNotChanged, message))
        }
    }
}

fn read_state(scene: &Scene<'_>) -> Result<State, Failure> {
    State::read(&scene.remote.connection)
}
