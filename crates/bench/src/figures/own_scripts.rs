//! The figures of scripts that a user wrote, beside those of generated ones.

use super::Figures;
use crate::options::BenchRunOptions;
use serde_json::{Map, Value};

/// What is said once for both, or is of the generated ones only.
const ONCE: [&str; 11] = [
    "operation",
    "clients",
    "rows_per_sync",
    "bytes_per_row_on_wire",
    "ceiling",
    "ratio_to_ceiling",
    "ratio_to_tracked_delete",
    "server_to_consolidated_cpu",
    "machine",
    "settings",
    "error",
];

/// What a run has measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// With generated scripts.
    pub(crate) generated: Figures,
    /// With those of the user, if there are any.
    pub(crate) own: Option<Figures>,
}

impl Measured {
    /// The result of a run.
    pub(crate) fn into_json(self, options: &BenchRunOptions) -> Value {
        let mut json = self.generated.into_json(options);
        if let Some(own) = self.own {
            let mut own = own.into_json(options);
            if let Value::Object(figures) = &mut own {
                figures.retain(|figure, _| !ONCE.contains(&figure.as_str()));
            }
            own["ratio"] = quotients(&own, &json).unwrap_or_default();
            json["own_scripts"] = own;
        }
        json
    }
}

/// Every number divided by the one in the same place of the other.
fn quotients(own: &Value, generated: &Value) -> Option<Value> {
    match (own, generated) {
        (Value::Object(own), Value::Object(generated)) => {
            let quotient = |(name, own): (&String, &Value)| {
                Some((name.clone(), quotients(own, generated.get(name)?)?))
            };
            let all: Map<String, Value> = own.iter().filter_map(quotient).collect();
            (!all.is_empty()).then_some(Value::Object(all))
        }
        _ => {
            let (own, generated) = (own.as_f64()?, generated.as_f64()?);
            (generated != 0.0).then(|| super::rounded(own / generated).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quotients;
    use serde_json::json;

    #[test]
    fn only_figures_that_both_have_are_divided() {
        let own = json!({"a": 3, "b": {"c": 1.0, "d": null}, "e": 1, "f": [1], "g": {"h": null}});
        let generated = json!({"a": 2, "b": {"c": 4.0, "d": 1}, "e": 0, "f": [1], "g": {"h": 1}});
        assert_eq!(quotients(&own, &generated), Some(json!({"a": 1.5, "b": {"c": 0.25}})));
    }
}
