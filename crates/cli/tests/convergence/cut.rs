//! A connection that ends after so many bytes.

use client::Transport;
use model::{Code, Failure};

/// How many bytes pass, up and down; none: all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cut {
    pub(crate) up: Option<usize>,
    pub(crate) down: Option<usize>,
}

pub(crate) struct Cutting<T> {
    /// None once it has ended.
    inner: Option<T>,
    cut: Cut,
}

impl<T: Transport> Cutting<T> {
    pub(crate) fn new(inner: T, cut: Cut) -> Cutting<T> {
        Cutting { inner: Some(inner), cut }
    }

    fn end(&mut self) -> Failure {
        self.inner = None;
        Failure::new(Code::ConnectionLost, "cut by the test")
    }
}

impl<T: Transport> Transport for Cutting<T> {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(inner) = &mut self.inner else { return Err(self.end()) };
        let Some(left) = &mut self.cut.up else { return inner.send(bytes) };
        let now = bytes.len().min(*left);
        *left -= now;
        inner.send(&bytes[..now])?;
        if now < bytes.len() { Err(self.end()) } else { Ok(()) }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let Some(inner) = &mut self.inner else { return Err(self.end()) };
        let Some(left) = &mut self.cut.down else { return inner.receive(buffer) };
        let most = buffer.len().min(*left);
        if most == 0 {
            return Err(self.end());
        }
        let got = inner.receive(&mut buffer[..most])?;
        *left -= got;
        Ok(got)
    }
}
