//! Names of tables and indexes, quoted and within PostgreSQL's length.

use sha2::{Digest as _, Sha256};

/// Where an index is: quoted names for SQL.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// Unquoted, for people.
    pub(super) shown: String,
    pub(super) schema: String,
    pub(super) schema_name: String,
    pub(super) info: String,
    pub(super) sources: String,
    pub(super) passages: String,
    pub(super) vectors: String,
    /// The bare name of the vector index.
    pub(super) hnsw_name: String,
    pub(super) hnsw: String,
    /// The key of the advisory lock of this index's writers.
    pub(super) lock: i64,
}

/// PostgreSQL silently truncates longer names; the longest suffix is `_vectors_hnsw`.
pub(super) const LONGEST: usize = 63 - "_vectors_hnsw".len();

impl Names {
    pub(super) fn new(schema: &str, table: &str) -> Self {
        let in_schema = |name: &str| format!("{}.{}", quote(schema), quote(name));
        let hnsw_name = format!("{table}_vectors_hnsw");
        let hash = Sha256::digest(format!("holodeck\0{schema}\0{table}").as_bytes());
        let lock = hash
            .iter()
            .take(8)
            .fold(0_i64, |key, byte| (key << 8) | i64::from(*byte));
        Self {
            shown: format!("{schema}.{table}"),
            schema: quote(schema),
            schema_name: schema.to_owned(),
            info: in_schema(&format!("{table}_info")),
            sources: in_schema(&format!("{table}_sources")),
            passages: in_schema(table),
            vectors: in_schema(&format!("{table}_vectors")),
            hnsw: in_schema(&hnsw_name),
            hnsw_name,
            lock,
        }
    }
}

/// A name as an SQL identifier.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string as an SQL literal.
pub(super) fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "''");
    format!("E'{escaped}'")
}

#[cfg(test)]
mod tests {
    use super::{Names, literal, quote};

    #[test]
    fn names_and_texts_can_not_break_out() {
        assert_eq!(quote("a\"; drop table b; --"), "\"a\"\"; drop table b; --\"");
        assert_eq!(literal("it's \\"), "E'it''s \\\\'");
    }

    #[test]
    fn each_index_has_its_own_lock() {
        let locks = [("public", "a"), ("public", "b"), ("other", "a")]
            .map(|(schema, table)| Names::new(schema, table).lock);
        assert!(locks[0] != locks[1] && locks[1] != locks[2] && locks[0] != locks[2]);
    }
}
