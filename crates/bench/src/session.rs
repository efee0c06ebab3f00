//! A connection to PostgreSQL like that of any other program, and the values that it sends.

use crate::purchase::Purchase;
use bytes::BytesMut;
use consolidated::{Host, PostgresUrl, SslMode};
use model::{Code, Failure};
use std::error::Error;
use tokio::runtime::Runtime;
use tokio_postgres::types::{FromSqlOwned, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, Row};

/// A connection that blocks.
pub(crate) struct Session {
    client: Client,
    runtime: Runtime,
}

impl Session {
    pub(crate) fn open(url: &PostgresUrl) -> Result<Session, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Code::Bug, "cannot start the runtime").source(error))?;
        let client = runtime.block_on(connect(&config(url)?))?;
        let mut session = Session { client, runtime };
        // However the database was set up, a date is to be spelled in one way.
        session.batch("SET DateStyle = 'ISO'; SET search_path = pg_catalog")?;
        Ok(session)
    }

    /// Runs statements without parameters.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Failure> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(failed)
    }

    pub(crate) fn execute(
        &mut self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Failure> {
        self.runtime.block_on(self.client.execute(sql, parameters)).map_err(failed)
    }

    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<Row>, Failure> {
        self.runtime.block_on(self.client.query(sql, &[])).map_err(failed)
    }

    /// The one value that a query answers.
    pub(crate) fn one<T: FromSqlOwned>(&mut self, sql: &str) -> Result<T, Failure> {
        let row = self.runtime.block_on(self.client.query_one(sql, &[])).map_err(failed)?;
        row.try_get(0).map_err(failed)
    }
}

/// How to connect.
pub(crate) fn config(url: &PostgresUrl) -> Result<Config, Failure> {
    let mut config = Config::new();
    for host in &url.hosts {
        match host {
            Host::Tcp(name, port) => config.host(name).port(*port),
            Host::Socket(folder, port) => config.host_path(folder).port(*port),
        };
    }
    let only_sockets = url.hosts.iter().all(|host| matches!(host, Host::Socket(..)));
    let wants_tls = !matches!(url.sslmode, SslMode::Disable | SslMode::Prefer);
    if wants_tls && !only_sockets {
        let message = "a benchmark connects to its database without TLS";
        return Err(Failure::new(Code::BadUrl, message).hint("use sslmode=prefer, or a socket"));
    }
    config.user(&url.user).dbname(&url.database).application_name("syncline bench");
    if let Some(password) = &url.password {
        config.password(password.reveal());
    }
    if let Some(settings) = &url.options {
        config.options(settings);
    }
    if let Some(limit) = url.connect_timeout {
        config.connect_timeout(limit);
    }
    Ok(config)
}

/// A connection whose bytes are moved by a task of the runtime that it is made in.
pub(crate) async fn connect(config: &Config) -> Result<Client, Failure> {
    let (client, connection) = config.connect(NoTls).await.map_err(|error| {
        Failure::new(Code::DatabaseUnavailable, "cannot connect to PostgreSQL").source(told(&error))
    })?;
    // What goes wrong there is known from the next statement.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// A failure in PostgreSQL's own words.
pub(crate) fn failed(error: tokio_postgres::Error) -> Failure {
    Failure::new(Code::ScriptFailed, "the database of the benchmark failed").source(told(&error))
}

fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    }
}

/// The cost of a purchase as PostgreSQL sends and receives decimal numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numeric {
    /// Four decimal digits each.
    digits: [i16; 4],
}

impl Numeric {
    pub(crate) fn cost(purchase: &Purchase) -> Numeric {
        let cents = (purchase.cost_real() * 100.0).round() as i64;
        let part = |divisor: i64| (cents / divisor % 10_000) as i16;
        // Two decimals fill half of the last digit.
        Numeric {
            digits: [part(10_000_000_000), part(1_000_000), part(100), (cents % 100) as i16 * 100],
        }
    }
}

impl ToSql for Numeric {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // Digits, weight of the first, sign, decimals shown.
        for number in [4, 2, 0, 6] {
            out.extend_from_slice(&i16::to_be_bytes(number));
        }
        for digit in self.digits {
            out.extend_from_slice(&digit.to_be_bytes());
        }
        Ok(IsNull::No)
    }

    fn accepts(wanted: &Type) -> bool {
        *wanted == Type::NUMERIC
    }

    to_sql_checked!();
}

/// The date of a purchase: microseconds since the year 2000.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamp(i64);

impl Timestamp {
    pub(crate) fn order_date(purchase: &Purchase) -> Timestamp {
        Timestamp(purchase.order_date_us())
    }
}

impl ToSql for Timestamp {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(wanted: &Type) -> bool {
        *wanted == Type::TIMESTAMP
    }

    to_sql_checked!();
}
