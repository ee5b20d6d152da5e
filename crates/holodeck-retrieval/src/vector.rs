//! Rejects vectors that must never be searched or stored: without direction, of another length, or not finite.

use crate::{Entry, RetrievalError};

/// Rejects a query vector without a direction.
pub(crate) fn check_query(query: &[f32]) -> Result<(), RetrievalError> {
    if has_direction(query) {
        Ok(())
    } else {
        Err(RetrievalError::Query(
            "the query's vector is empty, all zeros or not finite".to_owned(),
        ))
    }
}

/// Rejects vectors that must never enter an index: of another length, all zeros, or not finite.
pub(crate) fn check_entries(
    source: &str,
    entries: &[Entry],
    dimensions: usize,
) -> Result<(), RetrievalError> {
    for entry in entries {
        let found = entry.vector.len();
        if found != dimensions {
            return Err(RetrievalError::Mixed {
                found: format!("{dimensions} dimensions"),
                wanted: format!("{found} ({source})"),
            });
        }
        if !has_direction(&entry.vector) {
            return Err(RetrievalError::Query(format!(
                "a vector of `{source}` is all zeros or not finite"
            )));
        }
    }
    Ok(())
}

fn has_direction(vector: &[f32]) -> bool {
    vector.iter().all(|number| number.is_finite()) && vector.iter().any(|number| *number != 0.0)
}
