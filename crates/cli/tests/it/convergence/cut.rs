//! A connection that ends after so many bytes, and one during which something happens.

use super::file::{File, Written};
use super::site::tell;
use client::Transport;
use model::{Code, Failure};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How many bytes pass, up and down; none: all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cut {
    pub(crate) up: Option<usize>,
    pub(crate) down: Option<usize>,
}

/// A transaction of the application, which happens once, when so many bytes have passed.
#[derive(Clone)]
pub(crate) struct Meanwhile(Rc<RefCell<Waiting>>);

struct Waiting {
    bytes: usize,
    file: File,
    /// The tables for which the statements are.
    held: BTreeMap<String, String>,
    statements: Vec<String>,
    checked: bool,
    written: Option<Written>,
}

impl Meanwhile {
    pub(crate) fn new(
        bytes: usize,
        file: File,
        statements: Vec<String>,
        checked: bool,
    ) -> Meanwhile {
        let held = file.held();
        let waiting = Waiting { bytes, file, held, statements, checked, written: None };
        Meanwhile(Rc::new(RefCell::new(waiting)))
    }

    fn pass(&self, bytes: usize) {
        let mut waiting = self.0.borrow_mut();
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        if waiting.bytes == 0 && waiting.written.is_none() {
            // Too late for a table that is another one now.
            let written = match waiting.file.held() == waiting.held {
                true => waiting.file.write(&waiting.statements, waiting.checked),
                false => Written::default(),
            };
            waiting.written = Some(written);
        }
    }

    /// What has been done, and the words for it.
    pub(crate) fn end(&self) -> Option<(Written, String)> {
        let mut waiting = self.0.borrow_mut();
        let written = waiting.written.take()?;
        let story = tell(&waiting.statements, written.done, waiting.checked);
        Some((written, story))
    }
}

pub(crate) struct Cutting<T> {
    /// None once it has ended.
    inner: Option<T>,
    cut: Cut,
    meanwhile: Option<Meanwhile>,
}

impl<T: Transport> Cutting<T> {
    pub(crate) fn new(inner: T, cut: Cut, meanwhile: Option<Meanwhile>) -> Cutting<T> {
        Cutting { inner: Some(inner), cut, meanwhile }
    }

    fn end(&mut self) -> Failure {
        self.inner = None;
        Failure::new(Code::ConnectionLost, "cut by the test")
    }

    fn pass(&self, bytes: usize) {
        if let Some(meanwhile) = &self.meanwhile {
            meanwhile.pass(bytes);
        }
    }
}

impl<T: Transport> Transport for Cutting<T> {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.pass(bytes.len());
        let Some(inner) = &mut self.inner else { return Err(self.end()) };
        let Some(left) = &mut self.cut.up else { return inner.send(bytes) };
        let now = bytes.len().min(*left);
        *left -= now;
        inner.send(&bytes[..now])?;
        if now < bytes.len() { Err(self.end()) } else { Ok(()) }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let Some(inner) = &mut self.inner else { return Err(self.end()) };
        let most = match &mut self.cut.down {
            Some(left) => buffer.len().min(*left),
            None => buffer.len(),
        };
        if most == 0 && self.cut.down.is_some() {
            return Err(self.end());
        }
        let got = inner.receive(&mut buffer[..most])?;
        if let Some(left) = &mut self.cut.down {
            *left -= got;
        }
        self.pass(got);
        Ok(got)
    }
}
