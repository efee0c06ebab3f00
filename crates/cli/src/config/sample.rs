//! The `syncline.toml` that `syncline init` writes: every option with unit, default and reason.

use super::options::{SERVER_OPTIONS, spelled_options};
use super::spelled::SpelledOption;

/// Widest comment line of the sample, in characters.
const COMMENT_WIDTH_MAX: usize = 92;

/// The text of a new `syncline.toml` for this consolidated database.
pub(crate) fn text(consolidated: &str, models: &[&str]) -> String {
    let mut text = String::new();
    comment(
        &mut text,
        "Syncline: the consolidated database, the sync models, and the options of the server. \
         Options after a # show their defaults; remove the # to change them. Unknown keys are \
         errors.",
    );
    text.push('\n');
    comment(
        &mut text,
        "The consolidated database, as a URL: sqlite:PATH, or postgres://USER@HOST/DATABASE. \
         Put its password into the file consolidated.password beside this one. Required.",
    );
    text.push_str(&format!("consolidated = {}\n\n", quoted(consolidated)));
    comment(
        &mut text,
        "Sync models, one file per script version, relative to this file. `syncline deploy` \
         deploys them. Default: [\"model.toml\"].",
    );
    let models: Vec<String> = models.iter().map(|model| quoted(model)).collect();
    text.push_str(&format!("models = [{}]\n\n[server]\n", models.join(", ")));
    for SpelledOption { name, value, why } in spelled_options() {
        text.push('\n');
        comment(&mut text, &format!("{name} {why}"));
        text.push_str(&format!("#{name} = {value}\n"));
    }
    for option in SERVER_OPTIONS {
        text.push('\n');
        comment(&mut text, &format!("{} ({}): {}", option.name, option.unit, option.why));
        text.push_str(&format!("#{} = {}\n", option.name, option.default));
    }
    text
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COMMENT_WIDTH_MAX {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
