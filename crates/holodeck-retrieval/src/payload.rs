//! The form of entries in stores that keep JSON beside vectors.

use holodeck_model::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{Entry, IndexInfo, Passage, Scored, SourceState};

/// How an index was built, as a string.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    format: u32,
    info: IndexInfo,
}

/// Increased whenever the stored form changes incompatibly.
const FORMAT: u32 = 1;

impl Record {
    pub(crate) fn text(info: &IndexInfo) -> Result<String, String> {
        let record = Self {
            format: FORMAT,
            info: info.clone(),
        };
        serde_json::to_string(&record).map_err(|error| error.to_string())
    }

    pub(crate) fn read(text: &str) -> Result<IndexInfo, String> {
        let record: Self = serde_json::from_str(text)
            .map_err(|error| format!("the index has no readable build settings: {error}"))?;
        if record.format == FORMAT {
            Ok(record.info)
        } else {
            Err(format!(
                "format {} belongs to another version of HoloDeck",
                record.format
            ))
        }
    }
}

/// A deterministic id in the format these stores require.
pub(crate) fn uuid_of(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    let number = hash
        .finalize()
        .iter()
        .take(16)
        .fold(0_u128, |number, byte| (number << 8) | u128::from(*byte));
    // Version 8 (custom), variant 1.
    let number = number & !(0xf << 76) | (0x8 << 76);
    let number = number & !(0x3 << 62) | (0x2 << 62);
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
}

/// A string per value such that two strings are equal if and only if the values are; long values are hashed.
pub(crate) fn facet(value: &Value) -> String {
    let text = canonical(value).to_string();
    if text.len() <= 200 {
        return text;
    }
    let hash = Sha256::digest(text.as_bytes());
    let number = hash
        .iter()
        .take(16)
        .fold(0_u128, |number, byte| (number << 8) | u128::from(*byte));
    format!("#{number:032x}")
}

/// Writes `1.0` as `1` and sorts object keys.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| {
                number.is_f64() && float.fract().abs() < f64::MIN_POSITIVE && float.abs() < 9e15
            });
            #[expect(clippy::cast_possible_truncation, reason = "a whole number that fits")]
            whole.map_or_else(|| value.clone(), |float| Value::from(float as i64))
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().map(|(key, value)| (key, canonical(value))).collect();
            fields.sort_by_key(|(key, _)| *key);
            Value::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| (key.clone(), value))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// A stored passage; each store adds its search fields.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PassageFields {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) position: usize,
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// JSON as a string: no server interprets its keys or changes its numbers.
    pub(crate) metadata: String,
}

impl PassageFields {
    pub(crate) fn of(passage: &Passage, position: usize) -> Self {
        Self {
            id: passage.id.clone(),
            source: passage.source.clone(),
            position,
            text: passage.text.clone(),
            context: passage.context.clone(),
            metadata: Value::Object(passage.metadata.clone()).to_string(),
        }
    }

    pub(crate) fn passage(self) -> Result<Passage, String> {
        let metadata: JsonMap = serde_json::from_str(&self.metadata)
            .map_err(|error| format!("the metadata of passage `{}` can't be read: {error}", self.id))?;
        Ok(Passage {
            id: self.id,
            source: self.source,
            text: self.text,
            context: self.context,
            metadata,
        })
    }
}

/// A stored source. Its hash is empty while its passages are being replaced, so that after a killed writer the next run
/// treats it as out of date.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SourceFields {
    pub(crate) source: String,
    pub(crate) hash: String,
    pub(crate) passages: usize,
}

impl SourceFields {
    pub(crate) fn finished(state: &SourceState, entries: &[Entry]) -> Self {
        Self {
            source: state.source.clone(),
            hash: state.hash.clone(),
            passages: entries.len(),
        }
    }

    pub(crate) fn unfinished(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            hash: String::new(),
            passages: 0,
        }
    }

    pub(crate) fn state(self) -> SourceState {
        SourceState {
            source: self.source,
            hash: self.hash,
            passages: self.passages,
        }
    }
}

/// Passages fetched beyond the limit, so that ties are broken by the smallest ids.
pub(crate) const MORE: usize = 8;

/// Whether the extra results contain all ties of the last one.
pub(crate) fn settles_ties(found: &[Scored], asked: usize, limit: usize) -> bool {
    let (Some(kept), Some(last)) = (limit.checked_sub(1).and_then(|at| found.get(at)), found.last()) else {
        return true;
    };
    found.len() < asked || last.score < kept.score
}

/// Best first, ties by id, at most the limit.
pub(crate) fn best(mut found: Vec<Scored>, limit: usize) -> Vec<Scored> {
    found.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| a.passage.id.cmp(&b.passage.id))
    });
    found.truncate(limit);
    found
}

/// Batches of bounded JSON size, given the size of each item.
pub(crate) fn pieces<T>(items: &[T], size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    const LARGEST: usize = 4 << 20;
    const MOST: usize = 500;
    let (mut pieces, mut start, mut sum) = (Vec::new(), 0, 0);
    for (at, item) in items.iter().enumerate() {
        let next = size(item);
        if at > start && (sum + next > LARGEST || at - start == MOST) {
            pieces.extend(items.get(start..at));
            (start, sum) = (at, 0);
        }
        sum += next;
    }
    pieces.extend(items.get(start..).filter(|rest| !rest.is_empty()));
    pieces
}

/// Approximate length of an entry's JSON.
pub(crate) fn size(entry: &Entry) -> usize {
    let passage = &entry.passage;
    entry.vector.len() * 13
        + passage.text.len() * 3
        + passage.context.as_ref().map_or(0, String::len) * 3
        + 500
}

/// A vector as it is compared: of length 1.
pub(crate) fn unit(vector: &[f32]) -> std::borrow::Cow<'_, [f32]> {
    let length = vector
        .iter()
        .map(|number| f64::from(*number).powi(2))
        .sum::<f64>()
        .sqrt();
    if (length - 1.0).abs() < 1e-5 {
        return vector.into();
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 1")]
    vector
        .iter()
        .map(|number| (f64::from(*number) / length) as f32)
        .collect()
}

/// Checks that a name means a collection to a server and nothing else in a URL.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let (first, last) = (name.chars().next(), name.chars().next_back());
    if (3..=200).contains(&name.len()) && name.chars().all(plain) && edge(first) && edge(last) {
        Ok(())
    } else {
        Err("a collection name must be 3 to 200 letters, digits, `_`, `-` or `.` and start and end with a letter or digit".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{check_name, facet, pieces, uuid_of};

    #[test]
    fn equal_values_have_equal_facets() {
        assert_eq!(facet(&json!(3)), facet(&json!(3.0)));
        assert_eq!(
            facet(&json!({"a": 1, "b": [2.0]})),
            facet(&json!({"b": [2], "a": 1.0}))
        );
        assert_ne!(facet(&json!("3")), facet(&json!(3)));
        assert_ne!(facet(&json!(3.5)), facet(&json!(3)));
        assert_ne!(
            facet(&json!(9_007_199_254_740_993_i64)),
            facet(&json!(9_007_199_254_740_992_i64))
        );
        let long = |end: &str| facet(&json!("x".repeat(500) + end));
        assert!(long("a").len() < 50 && long("a") != long("b"));
    }

    #[test]
    fn ids_are_uuids_and_stay_the_same() {
        assert_eq!(uuid_of(&["a", "b"]), uuid_of(&["a", "b"]));
        assert_ne!(uuid_of(&["a", "b"]), uuid_of(&["ab", ""]));
        insta::assert_snapshot!(uuid_of(&["docs/a.md", "1"]));
    }

    #[test]
    fn requests_are_of_bearable_size() {
        let lengths = |sizes: &[usize]| {
            pieces(sizes, |size| *size)
                .iter()
                .map(|piece| piece.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[9 << 20, 1, 9 << 20]), [1, 1, 1]);
        assert_eq!(lengths(&[1; 1200]), [500, 500, 200]);
    }

    #[test]
    fn names_are_plain() {
        assert!(check_name("kb-1.x_y").is_ok());
        for name in ["ab", "a/b", "-ab", "ab?", &"x".repeat(201)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
