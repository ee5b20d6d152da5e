//! Renders search results for a model.

use std::fmt::Write as _;

use super::SearchResults;

/// The answer of a retrieval tool.
pub fn render_hits(results: &SearchResults) -> String {
    if results.hits.is_empty() {
        return format!("No relevant results found for query: {}", results.query);
    }
    let mut text = format!("Found {} result(s):\n", results.hits.len());
    for (hit, number) in results.hits.iter().zip(1_usize..) {
        // Writing to a `String` never fails.
        let _ = write!(
            text,
            "\n[{number}] Score: {:.2} | Source: {}\n{}\n",
            hit.score, hit.source, hit.text
        );
    }
    text.truncate(text.trim_end().len());
    text
}
