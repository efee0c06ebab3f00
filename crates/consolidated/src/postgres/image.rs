//! Rows of a result as compact rows, decoded from the very bytes that arrived.

use super::values::{ColumnType, Raw, Reading};
use model::{Code, Failure};
use tokio_postgres::Row;

/// How the columns of one statement's result are read.
#[derive(Debug)]
pub(super) struct Decoder {
    readings: Vec<Reading>,
}

impl Decoder {
    /// For results like `row`, whose first columns go into `columns`.
    pub(super) fn new<'c>(
        row: &Row,
        columns: impl ExactSizeIterator<Item = &'c ColumnType>,
    ) -> Result<Decoder, Failure> {
        let results = row.columns();
        if results.len() < columns.len() {
            let message = format!("a script selects {} columns", results.len());
            return Err(Failure::new(Code::ScriptFailed, message)
                .hint("select every published column, in its order"));
        }
        let reading = |(column, result): (&ColumnType, &tokio_postgres::Column)| {
            Reading::of(result.type_(), column).ok_or_else(|| {
                let (name, kind) = (result.name(), result.type_().name());
                let message = format!("a script selects {name} as {kind}");
                Failure::new(Code::ScriptFailed, message)
                    .hint(format!("select {name}::text AS {name}"))
            })
        };
        let readings = columns.zip(results).map(reading).collect::<Result<_, _>>()?;
        Ok(Decoder { readings })
    }

    /// Appends `row`.
    pub(super) fn write(&self, row: &Row, out: &mut Vec<u8>) -> Result<(), Failure> {
        for (at, reading) in self.readings.iter().enumerate() {
            let raw = row.try_get::<_, Raw<'_>>(at).map_err(|error| {
                Failure::new(Code::Bug, "a result has no such column").source(error)
            })?;
            reading.write(raw.0, out).map_err(|_| {
                let message =
                    format!("column {} is not what its type says", row.columns()[at].name());
                Failure::new(Code::Bug, message)
            })?;
        }
        Ok(())
    }
}
