//! Copies of all files of a machine.

use super::contents::Contents;
use super::directory::Number;
use super::machine::Machine;
use super::operation::Digest;
use std::collections::BTreeMap;

/// The files of a machine as they were at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image(BTreeMap<String, (Number, Vec<u8>)>);

impl Image {
    /// The names of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What is in the file; none if there is no such file.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(|(_, bytes)| bytes.as_slice())
    }

    /// A number that follows from all names and contents.
    pub fn fingerprint(&self) -> u64 {
        let mut digest = Digest::new();
        for (name, (_, bytes)) in &self.0 {
            digest.add(name.as_bytes());
            digest.add(bytes);
        }
        digest.value()
    }
}

/// Which files are the same after a copy was put in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// Others: the copies were copied back.
    New,
    /// The same: the whole machine was set back.
    Same,
}

impl Machine {
    pub(super) fn image(&self) -> Image {
        let copy = |(name, number): (&String, &Number)| {
            let bytes = self.files.get(number).map(|file| file.bytes().to_vec());
            (name.clone(), (*number, bytes.unwrap_or_default()))
        };
        Image(self.directory.names().iter().map(copy).collect())
    }

    /// Ends all programs and puts the files of `image` in the place of those there are.
    pub(super) fn put(&mut self, image: &Image, identity: Identity) {
        self.changes += 1;
        let names: Vec<String> = self.directory.names().keys().cloned().collect();
        for name in names {
            self.directory.set(&name, None);
        }
        self.directory.sync();
        self.end_programs();
        for (name, (number, bytes)) in &image.0 {
            let contents = Contents::synced(bytes.clone());
            let number = match identity {
                Identity::New => self.new_file(contents),
                Identity::Same => {
                    self.files.insert(*number, contents);
                    *number
                }
            };
            self.directory.set(name, Some(number));
        }
        self.directory.sync();
    }

    /// Takes what was not synced, as a power cut does.
    pub(super) fn cut(&mut self) {
        self.changes += 1;
        let Machine { files, directory, cuts, .. } = self;
        for file in files.values_mut() {
            file.cut(cuts);
        }
        directory.cut(cuts);
    }
}
