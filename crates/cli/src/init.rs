//! `syncline init`: writes `syncline.toml` and `model.toml` for a consolidated database.

use crate::args::{InitOptions, quoted};
use crate::config::{self, FILE_NAME, MODEL_FILE_NAME};
use consolidated::{PASSWORD_FILE_NAME, Url};
use model::{Code, Failure};
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use terminal::output;
use terminal::secret;

/// Reads the database, writes both files, says what to do next.
pub(crate) fn run(options: &InitOptions) -> Result<(), Failure> {
    let url = Url::parse_in(&options.dir, &options.consolidated)?;
    let model =
        consolidated::administer(&url)?.initial_model(&options.tables, options.download_only)?;
    let config = config::sample::text(&url.to_string(), &[MODEL_FILE_NAME]);

    let dir = options.dir.as_path();
    fs::create_dir_all(dir).map_err(|error| cannot_write(dir, error))?;
    let files = [(dir.join(FILE_NAME), config), (dir.join(MODEL_FILE_NAME), model.toml)];
    // A password does not stay where readers of the configuration would see it.
    let password = url.password_in_text().map(|secret| (dir.join(PASSWORD_FILE_NAME), secret));
    if !options.force {
        // All are checked before any is written, so that a refusal leaves no file.
        let password_path = password.iter().map(|(path, _)| path);
        for path in files.iter().map(|(path, _)| path).chain(password_path) {
            if path.symlink_metadata().is_ok() {
                return Err(exists(path));
            }
        }
    }
    if let Some((path, secret)) = &password {
        secret::write_file(path, "password", secret.reveal())?;
    }
    for (path, text) in &files {
        write(path, text, options.force)?;
    }

    for warning in &model.warnings {
        output::warning(warning);
    }
    if options.json {
        let files: Vec<&PathBuf> = files.iter().map(|(path, _)| path).collect();
        return output::json(&json!({
            "files": files,
            "password_file": password.as_ref().map(|(path, _)| path),
            "tables": model.tables,
            "warnings": model.warnings,
            "notices": model.notices,
        }));
    }
    for notice in &model.notices {
        output::line(&format!("notice: {}", output::one_line(notice)))?;
    }
    if let Some((path, _)) = &password {
        output::line(&format!("moved the password to {}", path.display()))?;
    }
    for (path, _) in &files {
        output::line(&format!("wrote {}", path.display()))?;
    }
    if !options.download_only {
        for table in &model.tables {
            let open = format!("{table}: every user may read and change every row");
            output::line(&output::one_line(&open))?;
        }
    }
    output::line(&format!(
        "{} published; next: look at {}, then `syncline deploy --dir {}`",
        output::counted(model.tables.len() as u64, "table"),
        files[1].0.display(),
        quoted(&dir.display().to_string())
    ))
}

fn write(path: &Path, text: &str, overwrite: bool) -> Result<(), Failure> {
    let mut open = OpenOptions::new();
    open.write(true);
    if overwrite {
        open.create(true).truncate(true)
    } else {
        open.create_new(true)
    };
    let mut file = open.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => cannot_write(path, error),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| cannot_write(path, error))
}

fn exists(path: &Path) -> Failure {
    Failure::new(Code::FileExists, format!("{} exists", path.display()))
}

fn cannot_write(path: &Path, error: io::Error) -> Failure {
    Failure::new(Code::CannotWrite, format!("cannot write {}", path.display())).source(error)
}
