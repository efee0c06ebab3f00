//! `syncline bench`, whose work is in the crate of this name.

use crate::args::Arguments;
use crate::scripts::files;
use bench::BenchOptions;
use clap::CommandFactory;
use clap::error::ErrorKind;
use model::Failure;

/// Does what was asked with benchmarks.
pub(crate) fn run(options: &BenchOptions) -> Result<(), Failure> {
    if let Some(message) = options.contradiction() {
        Arguments::command().error(ErrorKind::ArgumentConflict, message).exit();
    }
    bench::run(options, files::add_to)
}
