//! Who can reach the server, and over what.

use super::wire::{self, Cut, Socket};
use crate::vfs::Disk;
use harness::Chance;
use server::{Acceptor, Stream};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a server is known by, for the sake of its log.
const URL: &str = "tcp://center:1";

/// The door of the server that runs at present, if there is one.
#[derive(Debug)]
pub(super) struct Network {
    door: Mutex<Door>,
    center: Arc<Disk>,
}

#[derive(Debug, Default)]
struct Door {
    is_open: bool,
    waiting: VecDeque<(Socket, SocketAddr)>,
    waker: Option<Waker>,
}

impl Network {
    pub(super) fn new(center: Arc<Disk>) -> Arc<Network> {
        Arc::new(Network { door: Mutex::default(), center })
    }

    /// Where a server takes its connections from.
    pub(super) fn open(self: &Arc<Network>) -> Box<dyn Acceptor> {
        self.door().is_open = true;
        Box::new(Entrance(self.clone()))
    }

    /// A connection from this remote; none where there is no server.
    pub(super) fn connect(&self, remote: usize, chance: Chance, cut: Cut) -> Option<Socket> {
        let mut door = self.door();
        if !door.is_open {
            return None;
        }
        let [here, there] = wire::connect(chance, cut, self.center.clone());
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, remote as u8 + 1));
        door.waiting.push_back((there, SocketAddr::new(address, 1)));
        if let Some(waker) = door.waker.take() {
            waker.wake();
        }
        Some(here)
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The inner side of the door, which closes with it.
struct Entrance(Arc<Network>);

impl Acceptor for Entrance {
    fn url(&self) -> &str {
        URL
    }

    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        let mut door = self.0.door();
        match door.waiting.pop_front() {
            Some((socket, address)) => Poll::Ready(Ok((Box::new(socket), address))),
            None => {
                door.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        let waiting = {
            let mut door = self.0.door();
            door.is_open = false;
            door.waker = None;
            std::mem::take(&mut door.waiting)
        };
        // Those who were not let in hear that it has closed.
        drop(waiting);
    }
}
