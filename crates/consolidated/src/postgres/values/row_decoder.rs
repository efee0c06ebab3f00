//! Rows of a result as compact rows, decoded directly from the received bytes.

use crate::postgres::link::{Column, RowRef};
use crate::postgres::values::{ColumnType, Reading};
use model::{Code, Failure};

/// How the columns of one statement's result are read.
#[derive(Debug)]
pub(in crate::postgres) struct Decoder {
    readings: Vec<Reading>,
}

impl Decoder {
    /// For results like `row`, whose first columns go into `columns`.
    pub(in crate::postgres) fn new<'c>(
        row: RowRef<'_>,
        columns: impl ExactSizeIterator<Item = &'c ColumnType>,
    ) -> Result<Decoder, Failure> {
        let results = row.columns();
        if results.len() < columns.len() {
            let message = format!("a script selects {} columns", results.len());
            return Err(Failure::new(Code::ScriptFailed, message)
                .hint("select every published column, in its order"));
        }
        let reading = |(column, result): (&ColumnType, &Column)| {
            Reading::of(&result.type_, column).ok_or_else(|| {
                let (name, kind) = (&result.name, result.type_.name());
                let message = format!("a script selects {name} as {kind}");
                Failure::new(Code::ScriptFailed, message)
                    .hint(format!("select {name}::text AS {name}"))
            })
        };
        let readings = columns.zip(results).map(reading).collect::<Result<_, _>>()?;
        Ok(Decoder { readings })
    }

    /// Appends `row`.
    pub(in crate::postgres) fn write(
        &self,
        row: RowRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        for ((reading, raw), column) in self.readings.iter().zip(row.values()).zip(row.columns()) {
            reading.write(raw, out).map_err(|_| match reading {
                Reading::Null => {
                    let message = format!("a script selects {} as text", column.name);
                    Failure::new(Code::ScriptFailed, message)
                        .hint("cast it to the type of the published column")
                }
                _ => {
                    let message = format!("column {} is not what its type says", column.name);
                    Failure::new(Code::Bug, message)
                }
            })?;
        }
        Ok(())
    }
}
