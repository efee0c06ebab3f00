//! Takes the scripts that users wrote into the plan of a table.
//!
//! What they say is taken behind the details of the table: those are made of the generated scripts,
//! and so is every shortcut that relies on the text of one.

use super::schema::{Schema, TablePlanner};
use crate::digest::digest;
use crate::script::{CURSORS, Detection, Event, FETCHING, Mistake, Phase, Script, own};
use crate::selection::Rows;
use crate::sync_model::{ConflictRule, ScriptFile, SyncModel};
use model::{Code, Failure, PublishedTable};
use std::borrow::Cow;

/// A script of a table in a plan.
#[derive(Debug, Clone)]
pub(crate) struct TableScript {
    pub(crate) event: Event,
    pub(crate) text: String,
    /// The file that a user wrote it in; none of a generated one.
    pub(crate) file: Option<String>,
}

impl TableScript {
    pub(crate) fn is_ignored(&self) -> bool {
        self.is_own() && own::is_ignored(&self.text)
    }

    /// A user wrote it.
    pub(crate) fn is_own(&self) -> bool {
        self.file.is_some()
    }

    /// The generated text from which the file was made is not `generated` any more.
    pub(crate) fn is_outdated(&self, generated: &str) -> bool {
        let (base, _) = base_of(&self.text);
        base.is_some_and(|base| base != digest(&[generated]))
    }

    /// The script of one that belongs to no table.
    pub(crate) fn parse_of_version(&self) -> Result<Script, Failure> {
        self.parse(&own::no_table())
    }

    pub(crate) fn parse(&self, table: &PublishedTable) -> Result<Script, Failure> {
        Script::of(&self.text, self.is_own(), self.event, table)
    }

    /// The text that is stored.
    pub(crate) fn stored(&self) -> Cow<'_, str> {
        if self.is_own() { own::stored(&self.text).into() } else { Cow::Borrowed(&self.text) }
    }

    /// What is wrong with it, for people.
    pub(crate) fn told(&self, mistake: &Mistake) -> String {
        told(self.file.as_deref().unwrap_or_default(), &self.text, mistake)
    }
}

/// Positions of the columns that a script of the event returns; none of one that is no query.
pub(crate) fn returned(event: Event, table: &PublishedTable) -> Vec<usize> {
    match event {
        Event::DownloadCursor | Event::UploadFetch | Event::UploadFetchColumnConflict => {
            (0..table.width()).collect()
        }
        Event::DownloadDeleteCursor => table.key.iter().map(|at| usize::from(*at)).collect(),
        _ => Vec::new(),
    }
}

/// What is wrong with the number of columns that a query returns, if that is.
pub(crate) fn wrong_width(event: Event, table: &PublishedTable, found: usize) -> Option<String> {
    if !event.is_query() {
        return None;
    }
    let wanted = returned(event, table);
    let (what, may_have_more) = match event {
        Event::DownloadDeleteCursor => ("key", true),
        _ => ("published", false),
    };
    let fits = found == wanted.len() || may_have_more && found > wanted.len();
    let names: Vec<&str> = wanted.iter().map(|at| table.columns[*at].as_str()).collect();
    let names = names.join(", ");
    (!fits).then(|| format!("it returns {found} columns; the {what} columns are {names}"))
}

/// How the first line of an exported script begins. The digest of the generated text follows.
const EXPORTED: &str = "-- syncline: generated ";

/// What a file has to say of a generated `text`, so that one can see later whether that changed.
pub(crate) fn exported(text: &str) -> String {
    format!("{EXPORTED}{}\n{}\n", digest(&[text]), text.trim_end())
}

/// The digest of the generated text that a file was made from, and its text without that line.
pub(crate) fn base_of(text: &str) -> (Option<&str>, &str) {
    let based = text.strip_prefix(EXPORTED).and_then(|rest| rest.split_once('\n'));
    based.map_or((None, text), |(digest, rest)| (Some(digest.trim_end()), rest))
}

/// A mistake in the `text` of a file.
fn told(file: &str, text: &str, mistake: &Mistake) -> String {
    format!("{file}:{}", mistake.told(text))
}

/// The refusal of a deployment with these mistakes.
pub(crate) fn refused(mistakes: &[String]) -> Result<(), Failure> {
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Code::ScriptInvalid, mistakes.join("\n"))),
    }
}

/// Whether a file says what the model makes.
fn says(file: &ScriptFile, generated: &str) -> bool {
    base_of(&file.text).1.trim_end() == generated.trim_end()
}

/// The script of a file, or what is wrong with it. One that says what the model makes is generated.
fn taken(
    file: &ScriptFile,
    event: Event,
    published: &PublishedTable,
    generated: Option<&str>,
) -> Result<TableScript, Vec<String>> {
    if let Some(generated) = generated.filter(|it| says(file, it)) {
        return Ok(TableScript { event, text: generated.to_owned(), file: None });
    }
    Script::own(&file.text, event, published).map_err(|wrong| {
        wrong.iter().map(|one| told(&file.name, &file.text, one)).collect::<Vec<_>>()
    })?;
    Ok(TableScript { event, text: file.text.clone(), file: Some(file.name.clone()) })
}

/// The scripts that the user wrote for a whole script version.
pub(super) fn of_version(model: &SyncModel, mistakes: &mut Vec<String>) -> Vec<TableScript> {
    let mut scripts = Vec::new();
    for event in Event::of_versions() {
        let Some(file) = model.own_scripts.get(&(String::new(), event)) else { continue };
        match taken(file, event, &own::no_table(), None) {
            Ok(script) => scripts.push(script),
            Err(wrong) => mistakes.extend(wrong),
        }
    }
    scripts
}

/// Why a script of an event cannot set what it is to set, if it cannot. `columns` are those that
/// its statements return; none of a statement of which that is not known.
pub(crate) fn sets_nothing(event: Event, columns: &[Option<Vec<String>>]) -> Option<String> {
    let out: Vec<&str> = event.fact().out.iter().map(|told| told.name()).collect();
    let sets = |columns: &Option<Vec<String>>| {
        let Some(columns) = columns else { return true };
        columns.iter().any(|column| out.iter().any(|told| told.eq_ignore_ascii_case(column)))
    };
    let nothing = !out.is_empty() && !columns.iter().any(sets);
    nothing.then(|| format!("it returns no column {}", out.join(", ")))
}

impl<S: Schema> TablePlanner<'_, S> {
    /// The file with the script of an event, if the user wrote one. It is for the columns of today.
    pub(super) fn own_file(&self, event: Event) -> Option<&ScriptFile> {
        self.own_file_of(self.name, event)
    }

    /// The same for another table of the version.
    fn own_file_of(&self, of: &str, event: Event) -> Option<&ScriptFile> {
        let is_it = |table: &str| {
            S::find(self.version.user_tables, table).is_some_and(|(name, _)| name == of)
        };
        let files = self.version.model.own_scripts.iter().filter(|_| !self.part);
        let files = files.filter(|((table, of), _)| *of == event && is_it(table));
        files.map(|(_, file)| file).min_by_key(|file| file.for_all)
    }

    /// The `generated` scripts, with those that the user wrote in place of some.
    pub(super) fn scripts(
        &self,
        published: &PublishedTable,
        generated: &[(Event, String)],
        mistakes: &mut Vec<String>,
    ) -> Vec<TableScript> {
        let (name, only_own) = (self.name, self.version.model.only_own);
        let is_forced = self.detection() == Some(Detection::Forced);
        let mut scripts: Vec<TableScript> = Vec::new();
        for event in Event::all().filter(|event| event.is_of_table()) {
            let base = generated.iter().find(|(of, _)| *of == event).map(|(_, text)| text);
            let file = self.own_file(event).filter(|_| self.may_have(event));
            match (file, base) {
                (Some(file), base) => {
                    let base = base.filter(|_| !only_own).map(String::as_str);
                    match taken(file, event, published, base) {
                        Ok(script) => scripts.push(script),
                        Err(wrong) => mistakes.extend(wrong),
                    }
                }
                (None, _) if is_forced && self.applies(event) => {}
                (None, base) if only_own && self.is_missing(event, base.is_some()) => {
                    let write = "write it, or a file with --{ignore}";
                    mistakes.push(format!("{name}: {event} is missing; {write}"));
                }
                (None, Some(_)) if only_own && event.is_rule() => {}
                (None, Some(text)) => {
                    scripts.push(TableScript { event, text: text.clone(), file: None });
                }
                (None, None) => {}
            }
        }
        if only_own && self.table_model.conflict != ConflictRule::ConsolidatedWins {
            mistakes.push(format!(
                "{name}: with scripts = \"own\" nothing carries out the rule {}",
                self.table_model.conflict
            ));
        }
        let cursor = scripts.iter().find(|script| script.event == Event::DownloadCursor);
        if self.table_model.kept_by_refresh && !cursor.is_some_and(TableScript::is_own) {
            mistakes
                .push(format!("{name}: refresh = \"keep\" needs a download_cursor of your own"));
        }
        mistakes.extend(self.unknown_parent());
        mistakes.extend(self.fetches_twice());
        scripts
    }

    /// How conflicts are found that scripts of the user's resolve.
    pub(crate) fn detection(&self) -> Option<Detection> {
        let is_generated = |event| self.applies(event) && !self.version.model.only_own;
        let uploads = self.table_model.direction.uploads();
        Detection::of(|event| self.own_file(event).is_some() || is_generated(event))
            .filter(|_| uploads)
    }

    /// Whether the scripts of an event apply rows.
    fn applies(&self, event: Event) -> bool {
        matches!(event, Event::UploadInsert | Event::UploadUpdate | Event::UploadDelete)
    }

    /// Two scripts that read a row to compare it: which one would decide is not to be guessed.
    fn fetches_twice(&self) -> Option<String> {
        let [first, second] = FETCHING.map(|event| self.own_file(event));
        let (first, second) = first.zip(second)?;
        Some(format!("{}: {} is there too; keep one of the two", second.name, first.name))
    }

    /// A script that reads a row to compare it while no other one resolves a conflict.
    pub(super) fn idle_fetch(&self) -> Option<String> {
        let unused = matches!(self.detection(), None | Some(Detection::Forced));
        let file = FETCHING.iter().find_map(|event| self.own_file(*event)).filter(|_| unused)?;
        Some(match self.detection() {
            None => format!(
                "{}: it is not used: there is neither upload_old_row_insert, upload_new_row_insert \
                 nor resolve_conflict",
                file.name
            ),
            _ => format!("{}: it is not used: every row is a conflict", file.name),
        })
    }

    /// Whether a table that has only scripts of the user's needs one for this event.
    fn is_missing(&self, event: Event, is_generated: bool) -> bool {
        let is_cursor = event == Event::DownloadDeleteCursor && self.may_have(event);
        event.may_be_own() && (is_generated || is_cursor)
    }

    /// Whether a user wrote the script of an event, for this table or another one of the version.
    pub(super) fn has_own(&self, table: &str, event: Event) -> bool {
        let Some(file) = self.own_file_of(table, event) else { return false };
        let planner = TablePlanner::new(self.version, table, self.tracked);
        // Of a table that cannot be planned nothing is deployed.
        let generated = planner.generated().unwrap_or_default();
        let base = generated.iter().find(|(of, _)| *of == event);
        self.version.model.only_own || !base.is_some_and(|(_, text)| says(file, text))
    }

    fn has_own_cursor(&self, table: &str) -> bool {
        CURSORS.into_iter().any(|event| self.has_own(table, event))
    }

    /// Why the rows of the table cannot follow those of a parent, if they cannot: which rows of the
    /// parent a remote has is known to its own cursor alone.
    fn unknown_parent(&self) -> Option<String> {
        if !self.table_model.direction.downloads() || self.part || self.has_own_cursor(self.name) {
            return None;
        }
        let mut selection = self.selection;
        while let Rows::Parent { parent, .. } = &selection.rows {
            let (name, of) = (self.name, &parent.table.name);
            if self.has_own_cursor(of) {
                return Some(format!(
                    "{name}: its rows follow those of {of}, and a cursor of your own decides which \
                     rows of {of} a remote has; write download_cursor and download_delete_cursor \
                     of {name} too, or give {name} a partition that does not go through {of}"
                ));
            }
            selection = parent;
        }
        None
    }

    /// Whether rows of the table travel in the direction of the event.
    fn may_have(&self, event: Event) -> bool {
        let direction = self.table_model.direction;
        match event.fact().phase {
            Phase::Upload => direction.uploads(),
            Phase::Download => direction.downloads(),
            _ => true,
        }
    }

    /// Files for events that the table does not have.
    pub(super) fn idle_files(&self, mistakes: &mut Vec<String>) {
        for event in Event::own_of_tables().filter(|event| !self.may_have(*event)) {
            let Some(file) = self.own_file(event).filter(|file| !file.for_all) else { continue };
            let uploads = event.fact().phase == Phase::Upload;
            let way = if uploads { "uploaded" } else { "downloaded" };
            mistakes.push(format!("{}: table {} is not {way}", file.name, self.name));
        }
    }
}
