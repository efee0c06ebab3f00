//! One client of a run: the real one, or one that only speaks the protocol.

pub(crate) mod account;
mod real;
mod throttle;
pub(crate) mod traffic;
mod wire;

use crate::barrier::{Assignment, Order};
use crate::checksum::Checksum;
use crate::layout::Expected;
use crate::options::{ClientsOn, Handshake};
use account::{name_of, user_of};
use client::transport::tcp::Timeouts;
use client::transport::{Connector, Trust};
use client::{Components, Transport};
use model::{Code, Failure, RemoteId, ServerUrl};
use real::RealClient;
use throttle::Throttled;
use traffic::{Network, Traffic};
use wire::WireClient;

/// A client.
pub(crate) struct Client {
    number: u32,
    assignment: Assignment,
    connector: Connector,
    kind: Kind,
}

enum Kind {
    Real(Box<RealClient>),
    Wire(Box<WireClient>),
}

impl Client {
    pub(crate) fn new(number: u32, assignment: &Assignment) -> Result<Client, Failure> {
        let (user, remote_id) = (user_of(number)?, RemoteId::new(name_of(number))?);
        let kind = match assignment.clients_on {
            ClientsOn::Wire => {
                let method = assignment.compression.method();
                Kind::Wire(Box::new(WireClient::new(user, remote_id, method)))
            }
            ClientsOn::Memory | ClientsOn::File => {
                let components = Components::system(&assignment.folder)?;
                let real = RealClient::open(user, remote_id, assignment, components)?;
                Kind::Real(Box::new(real))
            }
        };
        let connector = connector(assignment)?;
        Ok(Client { number, assignment: assignment.clone(), connector, kind })
    }

    /// One attempt to synchronize; the rows that it carried. What went over the network is added to
    /// `network`, also where it fails.
    pub(crate) fn synchronize(
        &mut self,
        order: Order,
        network: &mut Network,
    ) -> Result<Traffic, Failure> {
        let before = self.connector.metered();
        let traffic = self.attempt(order);
        *network += Network::between(before, self.connector.metered());
        traffic
    }

    fn attempt(&mut self, order: Order) -> Result<Traffic, Failure> {
        let connections = self.connector.connections();
        // The steps before are the same for all clients and are not timed.
        let timed = order == Order::SynchronizeTimed;
        let bandwidth = self.assignment.bandwidth.filter(|_| timed);
        let mut connect = || -> Result<Box<dyn Transport>, Failure> {
            let transport = connections.connect()?;
            Ok(match bandwidth {
                Some(bytes_per_second) => Box::new(Throttled::new(transport, bytes_per_second)),
                None => transport,
            })
        };
        let traffic = match &mut self.kind {
            Kind::Real(real) => real.synchronize(&mut connect)?,
            Kind::Wire(wire) => wire.synchronize(&mut connect)?,
        };
        if timed {
            self.check(traffic)?;
        }
        Ok(traffic)
    }

    /// A timed synchronization carries the rows of one set, all of them and nothing else.
    fn check(&self, traffic: Traffic) -> Result<(), Failure> {
        let Traffic { uploaded, downloaded, disputed } = traffic;
        let wanted = self.assignment.layout.expected();
        let seen =
            Expected { uploaded, downloaded: wanted.downloaded.map(|_| downloaded), disputed };
        if seen == wanted {
            return Ok(());
        }
        let others = wanted.downloaded.map_or("any".to_owned(), |rows| rows.to_string());
        Err(Failure::new(
            Code::BenchmarkWrong,
            format!(
                "client {} uploaded {uploaded} rows ({disputed} of them disputed) and downloaded \
                 {downloaded}, instead of {} ({}) and {others}",
                self.number, wanted.uploaded, wanted.disputed
            ),
        ))
    }

    /// The application changes the rows of a set.
    pub(crate) fn change(&mut self, set: u32) -> Result<(), Failure> {
        let layout = self.assignment.layout;
        let rows = layout.changed_at_remote(self.number, set).collect::<Vec<_>>();
        match &mut self.kind {
            Kind::Real(real) => real.change(layout.operation, &rows),
            Kind::Wire(wire) => wire.change(layout.operation, &rows, self.assignment.cost_as_text),
        }
    }

    /// The rows that the remote holds.
    pub(crate) fn checksum(&mut self) -> Result<Checksum, Failure> {
        match &mut self.kind {
            Kind::Real(real) => real.checksum(),
            Kind::Wire(wire) => wire.checksum(),
        }
    }
}

/// How a client reaches the server, again and again.
fn connector(assignment: &Assignment) -> Result<Connector, Failure> {
    let url = ServerUrl::parse(&assignment.server)?;
    let trust = Trust { ca_file: assignment.ca_file.clone(), ..Trust::default() };
    let connector = Connector::new(url, &trust, Timeouts::default())?;
    Ok(match assignment.handshake {
        Some(Handshake::Full) => connector.without_resumption(),
        Some(Handshake::Resumed) | None => connector,
    })
}
