use crate::{Entry, RetrievalError};

/// Refuses a query that has no direction.
pub(crate) fn check_query(query: &[f32]) -> Result<(), RetrievalError> {
    if has_direction(query) {
        Ok(())
    } else {
        Err(RetrievalError::Query(
            "the query's vector is empty, all zeros, or not a number".to_owned(),
        ))
    }
}

/// Refuses what must never be in an index: vectors of another length than its own, of zeros, or of no numbers.
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
                "a vector of `{source}` is all zeros, or not a number"
            )));
        }
    }
    Ok(())
}

fn has_direction(vector: &[f32]) -> bool {
    vector.iter().all(|number| number.is_finite()) && vector.iter().any(|number| *number != 0.0)
}
