//! Every command and option, as the user typed it.
//!
//! This file does not look at files or databases. The commands decide what the options mean.

mod cert;
mod compression;
mod consent;
mod credential;
mod dir;
mod expiry;
mod fleet;
mod integration;
mod name;
mod notes;
mod remote_conflicts;
mod remote_file;
mod remote_rejects;
mod remote_verify;
mod user;

pub(crate) use cert::{CertAction, CertOptions, TrustOptions};
pub(crate) use consent::Consent;
pub(crate) use credential::CredentialOptions;
pub(crate) use dir::{Dir, given_dir, quoted, with_dir};
pub(crate) use expiry::{Expires, date, moment};
pub(crate) use fleet::{
    DeclareRestoredOptions, FleetAction, FleetOptions, ListRemotes, RotateKeysOptions,
};
pub(crate) use integration::{CompletionsOptions, ManOptions, Shell};
pub(crate) use notes::{
    ConflictsAction, ConflictsOptions, ListNotes, PurgeNotes, RejectsAction, RejectsOptions,
    ResolveConflict, ShowNote,
};
pub(crate) use remote_conflicts::{RemoteConflicts, RemoteConflictsAction};
pub(crate) use remote_file::RemoteFile;
pub(crate) use remote_rejects::{Again, RemoteRejects, RemoteRejectsAction, Selected, Selection};
pub(crate) use remote_verify::VerifyOptions;
pub(crate) use user::{UserAction, UserOptions};

use crate::config::log_level::LogLevel;
use bench::BenchOptions;
use clap::{Args, Parser, Subcommand, ValueEnum};
use compression::CompressionChoice;
use model::{PublicationName, RemoteId, ScriptVersion};
use name::{parse_publication, parse_remote_id, parse_script_version};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  syncline demo                                        a complete example, without any set-up
  syncline init sales --consolidated sqlite:sales.db   write sales/syncline.toml and model.toml
  syncline deploy --dir sales                          prepare the consolidated database
  syncline user add ann --dir sales                    asks for a password
  syncline serve --dir sales                           run the server
  syncline sync ann.db --server tcp://127.0.0.1:2439 --user ann

Exit codes: 0 done, 1 failed (`error E2104: …` on standard error), 2 wrong usage,
130 `sync` or `demo` was interrupted by Ctrl-C.";

/// Keeps many SQLite files in two-way sync with one consolidated database.
#[derive(Debug, Parser)]
#[command(name = "syncline", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How much to log on standard error [default: info for `serve`, warn otherwise]
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    #[arg(hide_short_help = true, help_heading = "Log")]
    pub(crate) log: Option<LogLevel>,

    /// How to write the log
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_short_help = true, help_heading = "Log")]
    pub(crate) log_format: LogFormat,

    /// Write the log to this file instead of standard error; at 64 MiB it becomes FILE.1, and
    /// five former files are kept
    #[arg(long, global = true, value_name = "FILE")]
    #[arg(hide_short_help = true, help_heading = "Log")]
    pub(crate) log_file: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How to write the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoOptions),
    Init(InitOptions),
    Deploy(DeployOptions),
    Undeploy(UndeployOptions),
    Check(CheckOptions),
    Model(ModelOptions),
    Scripts(ScriptsOptions),
    User(UserOptions),
    Cert(CertOptions),
    Serve(ServeOptions),
    Sync(Box<SyncOptions>),
    Remote(RemoteOptions),
    Fleet(FleetOptions),
    DeclareRestored(DeclareRestoredOptions),
    RotateKeys(RotateKeysOptions),
    Rejects(RejectsOptions),
    Conflicts(ConflictsOptions),
    Bench(Box<BenchOptions>),
    Completions(CompletionsOptions),
    Man(ManOptions),
}

/// Shows a complete example with SQLite databases, without any set-up.
///
/// It has a consolidated database for field sales, a server, three remotes that work offline, a
/// conflict, a delete and a server that is killed in the middle of an upload. At the end it
/// compares every remote with the consolidated database, row by row.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline demo                    leaves its databases in ./syncline-demo
  syncline demo --dir /tmp/demo    leaves them in /tmp/demo

An earlier demo in the folder is replaced. Any other folder must be empty.")]
pub(crate) struct DemoOptions {
    /// The folder for consolidated.db and remotes/*.db
    #[arg(long, value_name = "DIR", default_value = "syncline-demo")]
    pub(crate) dir: PathBuf,
}

/// Writes syncline.toml and model.toml for a consolidated database.
///
/// The model publishes every table with a primary key: all columns, both directions, and the
/// consolidated database wins conflicts. Tables that cannot be published are written as comments
/// with the reason. The database itself is not changed; `syncline deploy` does that.
#[derive(Debug, Args)]
#[command(after_help = "\
Consolidated databases:
  sqlite:PATH                           an SQLite file, stored as an absolute path
  postgres://USER@HOST:PORT/DATABASE    PostgreSQL; postgresql:// is the same
  postgres://USER@HOST,HOST/DATABASE    several hosts: the first that is a primary
  postgres:///DATABASE?host=/FOLDER     by the Unix socket in a folder
A password in the URL is moved to the file consolidated.password.

Examples:
  syncline init sales --consolidated sqlite:sales.db
  syncline init sales --consolidated postgres://syncline@db.example/sales
  syncline init sales --consolidated sqlite:/srv/sales.db --table customer --table purchase
  syncline init sales --consolidated sqlite:sales.db --download-only")]
pub(crate) struct InitOptions {
    /// The folder to write to; created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// The consolidated database: sqlite:PATH or postgres://USER@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL")]
    pub(crate) consolidated: String,

    /// Publish this table only (repeatable) [default: all that can be]
    #[arg(long = "table", value_name = "T")]
    pub(crate) tables: Vec<String>,

    /// Publish the tables so that remotes receive rows but cannot change them
    #[arg(long)]
    pub(crate) download_only: bool,

    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,

    /// Print JSON: files, tables, notices, and what was left out
    #[arg(long)]
    pub(crate) json: bool,
}

/// Creates system tables, change tracking and scripts in the consolidated database.
///
/// It makes only the changes that are missing: a second run changes nothing. Your tables keep
/// their columns.
///
/// Rows keep their keys at the remotes: from the first synchronization of a row on, its key cannot
/// change there. A remote deletes the row and inserts it again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline deploy --dir sales
  syncline deploy --dir sales --dry-run > deploy.sql    print the SQL, change nothing")]
pub(crate) struct DeployOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Print the statements instead of running them
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print JSON: statements, notices, and whether they were run
    #[arg(long)]
    pub(crate) json: bool,
}

/// Removes everything Syncline created from the consolidated database.
///
/// Your tables and rows stay as they are. The users and the state of all remotes are removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline undeploy --dir sales
  syncline undeploy --dir sales --dry-run    print the SQL, change nothing
  syncline undeploy --dir sales --yes        without a question, for scripts")]
pub(crate) struct UndeployOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    #[command(flatten)]
    pub(crate) consent: Consent,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compares model, database and deployment.
///
/// The exit code is 1 if there is an error, and 0 if there are only notices.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline check --dir sales
  syncline check --dir sales --json | jq '.findings[].message'")]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Extends models, and compares them with database and deployment.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline model diff --dir sales
  syncline model add --dir sales")]
pub(crate) struct ModelOptions {
    #[command(subcommand)]
    pub(crate) action: ModelAction,
}

/// What to do with the models.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelAction {
    /// Adds tables and columns of the database that no model publishes, and changes nothing else
    Add(Dir),
    /// Lists the tables and columns that differ between model, database and deployment
    Diff {
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Shows the SQL that runs at the consolidated database, and whose it is.
///
/// A model generates a script for each table and event. A file with your own SQL goes before:
/// scripts/VERSION/TABLE/EVENT.sql in the folder of syncline.toml.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline scripts show                          the deployed scripts
  syncline scripts export visit upload_insert    a file to change; then `syncline deploy`
  syncline scripts check                         which scripts are yours, and how each runs")]
pub(crate) struct ScriptsOptions {
    #[command(subcommand)]
    pub(crate) action: ScriptsAction,
}

/// What to do with scripts.
#[derive(Debug, Subcommand)]
pub(crate) enum ScriptsAction {
    /// Prints script versions, publications and every deployed script
    Show {
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Writes generated scripts to files, for you to change
    Export(ExportOptions),
    /// Lists the scripts of all events that you can write: whose each is, and how it runs
    Check(CheckScriptsOptions),
}

/// Writes generated scripts to files.
///
/// A file that is not changed counts as generated. Without TABLE all tables are exported, without
/// EVENT all events that you can write.
#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Only scripts of this table
    pub(crate) table: Option<String>,

    /// Only scripts of this event, such as upload_insert
    pub(crate) event: Option<String>,

    /// Overwrite files that are there already
    #[arg(long)]
    pub(crate) force: bool,
}

/// Lists the scripts of all events that you can write.
#[derive(Debug, Args)]
pub(crate) struct CheckScriptsOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the server.
///
/// The first lines on standard output are `listening on URL`, one per listener, written when the
/// server is ready. After SIGTERM or Ctrl-C running synchronizations may continue for at most
/// `drain_timeout_s`; a second signal ends the server at once. In both cases the exit code is 0.
///
/// The exit code is 1 if the server had a defect and could not open a new connection to the
/// consolidated database for a minute: let a supervisor start it again.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  syncline serve --dir sales
  syncline serve --dir sales --listen tcp://0.0.0.0:2439 --log-format json
  syncline serve --dir sales --listen tcp://127.0.0.1:0    any free port")]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Listen on this URL instead of those in syncline.toml (repeatable)
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Vec<String>,

    /// Show in the log each script that runs: transaction, event, table, rows, microseconds
    #[arg(long)]
    pub(crate) trace_events: bool,
}

/// Synchronizes a remote database; makes an SQLite file a remote first if necessary.
///
/// After the server has accepted them, the file stores server, user, remote ID, script version,
/// publications, which servers it believes (--ca-file, --pin, --require-tls) and the paths of its
/// certificate, and you can omit these options. Passwords and keys are never stored. FILE is
/// created if it does not exist.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline sync ann.db --server tcp://127.0.0.1:2439 --user ann     asks for the password
  syncline sync ann.db --password-file ann.secret                   the second time and later
  syncline sync ann.db --password-file ann.secret --token-file ann.token
                                  uses the token while it is valid, then gets a new one
  syncline sync ann.db --password-file ann.secret --watch           continues until Ctrl-C
  syncline sync ann.db --password-file ann.secret --json | jq .uploaded

Conflicts and rejected rows are not failures: the exit code is 0. `syncline remote rejects FILE`
shows the rejected rows.")]
pub(crate) struct SyncOptions {
    /// The remote database
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The server: tls://HOST:PORT, https://HOST:PORT/PREFIX or wss://HOST:PORT/PREFIX, or tcp://,
    /// http:// and ws:// without encryption. Port 2439 if not given, 443 and 80 over HTTP
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,

    #[command(flatten)]
    pub(crate) trust: TrustOptions,

    #[command(flatten)]
    pub(crate) credential: CredentialOptions,

    /// Change the password to the first line of this file, which only its owner may read. Repeat
    /// the command if it fails: the server knows by the two passwords whether it was done
    #[arg(long, value_name = "F")]
    pub(crate) new_password_file: Option<PathBuf>,

    /// Send this to the service that knows the users, beside the password (repeatable). Other users
    /// of this machine may see it, so it is no place for secrets
    #[arg(long = "auth-parameter", value_name = "VALUE")]
    pub(crate) auth_parameters: Vec<String>,

    /// Synchronize this publication only (repeatable) [default: all]
    #[arg(long = "publication", value_name = "P", value_parser = parse_publication)]
    pub(crate) publications: Vec<PublicationName>,

    /// The script version [default: the server's]
    #[arg(long, value_name = "V", value_parser = parse_script_version)]
    pub(crate) script_version: Option<ScriptVersion>,

    /// The remote ID, before the first synchronization [default: a random UUID]
    #[arg(long, value_name = "ID", value_parser = parse_remote_id)]
    pub(crate) remote_id: Option<RemoteId>,

    /// Upload local changes, download nothing
    #[arg(long, group = "part")]
    pub(crate) upload_only: bool,

    /// Download, leave local changes pending
    #[arg(long, group = "part")]
    pub(crate) download_only: bool,

    /// Only check that the server answers and accepts the user
    #[arg(long, group = "part")]
    pub(crate) ping: bool,

    /// How rows are compressed on their way, as far as the server allows it
    #[arg(long, value_enum, value_name = "C", default_value_t = CompressionChoice::Auto)]
    pub(crate) compression: CompressionChoice,

    /// Fail when a download is cut, in place of going on with it as long as that brings something
    #[arg(long)]
    pub(crate) no_retry: bool,

    /// Continue to synchronize: when there are changes, and every 30 seconds
    #[arg(long, conflicts_with = "ping")]
    pub(crate) watch: bool,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl SyncOptions {
    /// The synchronization that repairs a remote, with the same server and user.
    pub(crate) fn repairing(options: &VerifyOptions) -> SyncOptions {
        SyncOptions {
            file: options.file.clone(),
            server: options.server.clone().flatten(),
            trust: options.trust.clone(),
            credential: options.credential.clone(),
            new_password_file: None,
            auth_parameters: Vec::new(),
            publications: Vec::new(),
            script_version: None,
            remote_id: None,
            upload_only: false,
            download_only: false,
            ping: false,
            compression: CompressionChoice::Auto,
            no_retry: false,
            watch: false,
            json: options.json,
        }
    }
}

/// Shows and manages a remote database, without a server unless it is to be compared with one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline remote status ann.db      identity, server, tables, number of pending changes
  syncline remote pending ann.db     the changes that are not uploaded yet
  syncline remote rejects ann.db     the rows that the consolidated database refused
  syncline remote conflicts ann.db   the changes of this remote that lost conflicts
  syncline remote verify ann.db      check the file; with --server compare all rows
  syncline remote reset ann.db       start over: the next synchronization downloads everything
  syncline remote detach ann.db      make it an ordinary SQLite file again")]
pub(crate) struct RemoteOptions {
    #[command(subcommand)]
    pub(crate) action: RemoteAction,
}

/// What to do with a remote database.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteAction {
    /// Shows identity, server, user, tables and the number of pending changes
    Status(RemoteFile),
    /// Lists the pending changes, which are not uploaded yet
    Pending(RemoteFile),
    /// Lists, shows, retries or dismisses the rows that the consolidated database refused
    Rejects(RemoteRejects),
    /// Lists, shows, retries or dismisses the changes that lost conflicts
    Conflicts(RemoteConflicts),
    /// Checks the file, and with --server compares its rows with the consolidated database
    Verify(Box<VerifyOptions>),
    /// Removes identity and progress; tables and rows stay, the next synchronization starts over
    Reset {
        #[command(flatten)]
        remote: RemoteFile,
        /// Reset in spite of pending changes; they will not be uploaded
        #[arg(long)]
        discard_pending: bool,
    },
    /// Removes every Syncline object from the file and keeps the rows
    Detach(RemoteFile),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn check(line: &str) -> Result<Command, clap::error::ErrorKind> {
        Arguments::try_parse_from(line.split(' '))
            .map(|arguments| arguments.command)
            .map_err(|error| error.kind())
    }

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_of_the_design_is_understood() {
        for line in [
            "syncline demo",
            "syncline demo --dir d",
            "syncline init d --consolidated sqlite:x.db --table a --table b --force",
            "syncline init d --consolidated sqlite:x.db --download-only",
            "syncline model add --dir d",
            "syncline model diff --dir d --json",
            "syncline deploy --dir d --dry-run --json",
            "syncline undeploy --dir d",
            "syncline undeploy --dir d --yes --json",
            "syncline check --dir d --json",
            "syncline scripts show --dir d",
            "syncline user add ann --dir d --password-file f --claim a=b --claim c=d=e",
            "syncline user set ann --dir d --claim a=",
            "syncline user password ann --password-file f",
            "syncline user remove ann --dry-run --json",
            "syncline user lock ann --dir d",
            "syncline user unlock ann",
            "syncline completions bash",
            "syncline completions powershell",
            "syncline man --dir d",
            "syncline user list --json",
            "syncline fleet list --dir d --json",
            "syncline fleet show i",
            "syncline fleet bind i --user ann --user ben",
            "syncline fleet bind i --any --dir d",
            "syncline fleet forget i --json --dry-run",
            "syncline declare-restored --dir d --json --yes",
            "syncline rotate-keys --dir d --yes --json",
            "syncline cert dev",
            "syncline cert dev --dir d --host a --host 10.0.0.1 --user ann --force",
            "syncline sync r.db --server tls://a:1 --ca-file ca.pem",
            "syncline serve --dir d --listen tcp://a:1 --listen tcp://b:2 --log debug",
            "syncline sync r.db --server tcp://a:1 --user ann --password-file f --token-file t",
            "syncline sync r.db --publication p --publication q --script-version v --remote-id i",
            "syncline sync r.db --upload-only --watch --json",
            "syncline sync r.db --ping --log-format json",
            "syncline remote status r.db --json",
            "syncline remote pending r.db",
            "syncline remote rejects r.db",
            "syncline remote rejects r.db --json",
            "syncline remote rejects retry r.db --id 1 --id 2 --force",
            "syncline remote rejects dismiss r.db --table t --key id=1",
            "syncline remote rejects dismiss r.db --all",
            "syncline remote verify r.db --json",
            "syncline remote verify r.db --server --repair --password-file f",
            "syncline remote verify r.db --server tcp://a:1 --user ann --token-file t --rows 3",
            "syncline remote reset r.db --discard-pending",
            "syncline remote detach r.db",
            "syncline rejects list --dir d --limit 5 --json",
            "syncline rejects show 17 --dir d --json",
            "syncline rejects purge --older-than 30d --dir d",
            "syncline conflicts list",
            "syncline conflicts show 17",
            "syncline conflicts purge --json",
            "syncline bench run --operation download --consolidated sqlite:x.db",
            "syncline bench run --operation upload-insert --clients 1000 --rows 1000 --sets 10 \
             --consolidated sqlite:x.db --transport tcp --compression none --clients-on wire \
             --connection-limit 1024 --workers 4 --retry-delay 0.5 --json f.json",
            "syncline bench run --operation upload-update --consolidated sqlite:x.db --workers 2-2",
            "syncline bench run --operation upload-delete --consolidated x --server-url tcp://a:1",
            "syncline bench run --operation download --consolidated sqlite:x.db --transport wss \
             --certificate rsa --handshake full --compression lz4 --notes text --link-mbit 10",
            "syncline bench report d --output f.html",
            "syncline bench clients",
        ] {
            assert!(check(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn contradictions_and_malformed_names_are_wrong_usage() {
        use clap::error::ErrorKind;
        for (line, kind) in [
            ("syncline sync r.db --upload-only --download-only", ErrorKind::ArgumentConflict),
            ("syncline sync r.db --ping --upload-only", ErrorKind::ArgumentConflict),
            ("syncline user add ann --claim =b", ErrorKind::ValueValidation),
            ("syncline user add a\nnn", ErrorKind::ValueValidation),
            ("syncline rejects purge --older-than 30", ErrorKind::ValueValidation),
            ("syncline rejects show", ErrorKind::MissingRequiredArgument),
            ("syncline remote rejects retry r.db", ErrorKind::MissingRequiredArgument),
            ("syncline remote verify r.db --repair", ErrorKind::MissingRequiredArgument),
            ("syncline remote rejects dismiss r.db --key id=1", ErrorKind::MissingRequiredArgument),
            ("syncline remote rejects dismiss r.db --all --id 1", ErrorKind::ArgumentConflict),
            ("syncline init d", ErrorKind::MissingRequiredArgument),
            ("syncline user remove ann --yes --dry-run", ErrorKind::ArgumentConflict),
            ("syncline fleet bind i", ErrorKind::MissingRequiredArgument),
            ("syncline fleet bind i --any --user ann", ErrorKind::ArgumentConflict),
            ("syncline user add ann --password secret", ErrorKind::UnknownArgument),
            ("syncline bench run --operation download", ErrorKind::MissingRequiredArgument),
            ("syncline bench run --consolidated x", ErrorKind::MissingRequiredArgument),
            ("syncline bench run --operation x --consolidated x", ErrorKind::InvalidValue),
            (
                "syncline bench run --operation download --consolidated x --rows 1000001",
                ErrorKind::ValueValidation,
            ),
            (
                "syncline bench run --operation download --consolidated x --workers 1-8",
                ErrorKind::ValueValidation,
            ),
            (
                "syncline bench run --operation download --consolidated x --compression zlib",
                ErrorKind::InvalidValue,
            ),
            (
                "syncline bench run --operation download --consolidated x --ca-file ca.pem",
                ErrorKind::MissingRequiredArgument,
            ),
        ] {
            assert_eq!(check(line).unwrap_err(), kind, "{line}");
        }
    }
}
