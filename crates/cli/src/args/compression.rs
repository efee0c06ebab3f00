//! How rows are compressed, as the command line says it.

use clap::ValueEnum;
use client::Compression;

/// How rows are compressed on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionChoice {
    /// Not at all
    None,
    /// By LZ4: the least work
    Lz4,
    /// By Zstandard: the fewest bytes
    Zstd,
    /// As the server likes; not at all if it is on this machine
    Auto,
}

impl CompressionChoice {
    /// What the remote offers to a server.
    pub(crate) fn methods(self, is_loopback: bool) -> &'static [Compression] {
        match self {
            CompressionChoice::Lz4 => &[Compression::Lz4],
            CompressionChoice::Zstd => &[Compression::Zstd],
            CompressionChoice::Auto if !is_loopback => &Compression::ALL,
            CompressionChoice::None | CompressionChoice::Auto => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_on_the_machine_is_not_compressed_unless_that_is_wanted() {
        assert!(CompressionChoice::Auto.methods(true).is_empty());
        assert_eq!(CompressionChoice::Auto.methods(false), Compression::ALL);
        assert_eq!(CompressionChoice::Zstd.methods(true), [Compression::Zstd]);
        assert!(CompressionChoice::None.methods(false).is_empty());
    }
}
