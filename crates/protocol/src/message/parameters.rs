//! Authentication parameters: what a program says of itself or its user beside the credential.

use model::{Code, Failure};
use serde::{Deserialize, Serialize};

/// Most parameters of one Hello.
const PARAMETERS_MAX: usize = 255;

/// Most bytes of all of them. Hello has to fit into what a server reads of strangers.
const PARAMETERS_BYTES_MAX: usize = 8 << 10;

/// The parameters in their order: the first is `{a.1}`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parameters(Vec<String>);

impl Parameters {
    /// These, if they are not too many and not too long.
    pub fn new(values: Vec<String>) -> Result<Parameters, Failure> {
        let parameters = Parameters(values);
        match parameters.fault() {
            None => Ok(parameters),
            Some(fault) => Err(Failure::new(Code::ParametersTooLarge, fault)),
        }
    }

    /// The values in their order.
    pub fn values(&self) -> &[String] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is wrong with them. It has none of their words.
    pub(super) fn fault(&self) -> Option<String> {
        let bytes: usize = self.0.iter().map(String::len).sum();
        let (count, bytes) = match (self.0.len(), bytes) {
            (count, _) if count > PARAMETERS_MAX => (count, bytes),
            (count, bytes) if bytes > PARAMETERS_BYTES_MAX => (count, bytes),
            _ => return None,
        };
        Some(format!(
            "{count} authentication parameters of {bytes} bytes together; there may be \
             {PARAMETERS_MAX}, of {PARAMETERS_BYTES_MAX} bytes together"
        ))
    }
}

impl std::fmt::Debug for Parameters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Some are secrets, and secrets never reach a log.
        write!(f, "Parameters({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S9
    #[test]
    fn parameters_are_bounded_and_never_shown() {
        let fits = Parameters::new(vec!["open sesame".into(); 255]).unwrap();
        assert_eq!(format!("{fits:?}"), "Parameters(255)");
        let most = Parameters::new(vec!["x".repeat(PARAMETERS_BYTES_MAX)]);
        assert_eq!(most.unwrap().values().len(), 1);
        for values in [vec![String::new(); 256], vec!["open sesame".repeat(800)]] {
            let refused = Parameters::new(values).unwrap_err();
            assert_eq!(refused.code(), Code::ParametersTooLarge);
            assert!(!refused.full_message().contains("sesame"));
        }
    }
}
