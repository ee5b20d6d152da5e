//! Masks with digests, which differ where the secrets differ: for the keys of recordings.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use regex::Regex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::hex_prefix;

use super::{MASK, MAX_PASSES, Redactor, merge_ranges, replace_ranges, replace_strings};

/// Bytes of a digest: enough to detect another secret, too few to verify guesses of a weak one.
const DIGEST: usize = 2;

static DIGESTS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\*\*\*\.[0-9a-f]{4}").ok());

impl Redactor {
    /// As [`mask_text`](Self::mask_text), but a secret that is recognised only by its shape gets a short digest after
    /// its mask. A secret of the agent gets no digest: it changes over time and differs between machines.
    ///
    /// Masking twice gives the same text.
    pub fn mask_text_with_digests(&self, text: &mut String) -> bool {
        match self.mask_with_digests(text) {
            Cow::Owned(clean) => {
                *text = clean;
                true
            }
            Cow::Borrowed(_) => false,
        }
    }

    /// As [`mask_value`](Self::mask_value), with such digests.
    pub fn mask_value_with_digests(&self, value: &mut Value) -> bool {
        replace_strings(value, self.known.numeric, &|text| self.mask_with_digests(text))
    }

    fn mask_with_digests<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = self.mask_once(text);
        // A mask is a boundary at which another shape may begin.
        for _ in 0..MAX_PASSES {
            let Cow::Owned(before) = &masked else { break };
            let Cow::Owned(after) = self.mask_once(before) else {
                break;
            };
            masked = Cow::Owned(after);
        }
        masked
    }

    fn mask_once<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut known = Vec::new();
        self.known.find(text, &mut known);
        let known = merge_ranges(known);
        let masks = self.find(text).into_iter().filter_map(|range| {
            let found = text.get(range.clone())?;
            let inside = known
                .iter()
                .filter(|known| range.start <= known.start && known.end <= range.end)
                .map(|known| known.start - range.start..known.end - range.start)
                .collect();
            let mask = mask(found, inside)?;
            Some((range, mask))
        });
        let masks: Vec<(Range<usize>, String)> = masks.collect();
        insert_masks(text, &masks)
    }
}

/// The replacement of a secret that contains these `known` secrets; `None` if it is a mask already.
fn mask(found: &str, known: Vec<Range<usize>>) -> Option<String> {
    let has_known = !known.is_empty();
    let rest = replace_ranges(found, known);
    let is_masked = without_digests(&rest).split(MASK).all(str::is_empty);
    match (is_masked, has_known) {
        (true, true) => Some(MASK.to_owned()),
        (true, false) => None,
        (false, _) => {
            let digest = Sha256::digest(rest.as_bytes());
            Some(format!("{MASK}.{}", hex_prefix(&digest, DIGEST)))
        }
    }
}

fn insert_masks<'a>(text: &'a str, masks: &[(Range<usize>, String)]) -> Cow<'a, str> {
    if masks.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for (range, mask) in masks {
        clean.push_str(text.get(at..range.start).unwrap_or_default());
        clean.push_str(mask);
        at = range.end;
    }
    clean.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(clean)
}

/// Removes the digests from the masks of a text.
pub fn without_digests(text: &str) -> Cow<'_, str> {
    match DIGESTS.as_ref() {
        Some(digests) => digests.replace_all(text, MASK),
        None => Cow::Borrowed(text),
    }
}

/// The same for every string and key in `value`.
pub fn without_digests_in(value: &mut Value) {
    replace_strings(value, false, &|text| without_digests(text));
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const KNOWN: &str = "hunter2-horse";
    const OTHER: &str = "another-horse-3";

    fn key(letters: &str) -> String {
        format!("sk-{}", letters.repeat(8))
    }

    fn masked(redactor: &Redactor, text: &str) -> String {
        redactor.mask_with_digests(text).into_owned()
    }

    #[test]
    fn the_shape_of_a_key_leaves_a_digest_and_a_known_secret_does_not() {
        let old = Redactor::new([KNOWN.to_owned()]);
        let new = Redactor::new([OTHER.to_owned()]);
        let (one, two) = (masked(&old, &key("a1B2")), masked(&old, &key("a1B3")));
        assert_ne!(one, two);
        assert_eq!(without_digests(&one), "***");
        assert_eq!(masked(&old, KNOWN), "***");
        // A replaced secret gives the same text, also as a part of a shape.
        for shape in ["Authorization: Bearer X", "https://me:X@host/", "a X b"] {
            assert_eq!(
                masked(&old, &shape.replace('X', KNOWN)),
                masked(&new, &shape.replace('X', OTHER))
            );
        }
        assert_ne!(
            masked(&old, &format!("https://me:{KNOWN}@host/")),
            masked(&old, &format!("https://you:{KNOWN}@host/"))
        );
        let mut value = json!({"a": [key("a1B2"), "***", 1]});
        assert!(old.mask_value_with_digests(&mut value));
        assert_eq!(value, json!({"a": [one, "***", 1]}));
        without_digests_in(&mut value);
        assert_eq!(value, json!({"a": ["***", "***", 1]}));
    }

    #[test]
    fn a_key_directly_after_a_secret_is_masked_with_it() {
        let redactor = Redactor::new([KNOWN.to_owned()]);
        let private = concat!("-----BEGIN PRIVATE", " KEY----------END PRIVATE", " KEY-----");
        let key = key("a1B2");
        for secrets in [
            format!("{KNOWN}{key}"),
            format!("{KNOWN}{KNOWN}{key}"),
            format!("{private}{KNOWN}{key}"),
            format!("{KNOWN}{private}{KNOWN}{key}{KNOWN}"),
            format!("{KNOWN}https://me:pw@host/?api_key=a1B2a1B2"),
            format!("{KNOWN}Authorization: Bearer {key}"),
        ] {
            for text in [secrets.clone(), format!("é {secrets} é")] {
                let clean = redactor.text(&text).into_owned();
                let with_digests = masked(&redactor, &text);
                for shown in [&clean, &with_digests] {
                    assert!(
                        !shown.contains("a1B2") && !shown.contains(KNOWN),
                        "{text}: {shown}"
                    );
                }
                assert_eq!(redactor.text(&clean), clean, "{text}");
                assert_eq!(masked(&redactor, &with_digests), with_digests, "{text}");
                assert_eq!(without_digests(&with_digests), clean, "{text}");
            }
        }
    }

    #[test]
    fn existing_masks_are_not_masked_again() {
        let redactor = Redactor::default();
        for text in ["***", "a *** b", "***.4f2a", "https://***@host/"] {
            assert!(!redactor.mask_text_with_digests(&mut text.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn masking_twice_changes_nothing_and_hides_what_masking_hides(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "Authorization: ", "Bearer ", "Basic ", "https://", "me:", "pw", "@", "host/", "?api_key=", "***",
                    " ***.4f2a ", " ", "\"", KNOWN, OTHER, "sk-a1B2a1B2a1B2a1B2a1B2", "AKIAAAAAAAAAAAAAAAAA", "x", "\n", "&",
                    concat!("-----BEGIN PRIVATE", " KEY-----"), concat!("-----END PRIVATE", " KEY-----"), "/", "#", ";", ":",
                ]),
                0..12,
            )
        ) {
            let redactor = Redactor::new([KNOWN.to_owned()]);
            let text = parts.concat();
            let once = masked(&redactor, &text);
            prop_assert_eq!(&masked(&redactor, &once), &once);
            let clean = redactor.text(&text).into_owned();
            prop_assert_eq!(redactor.text(&clean), clean.as_str());
            let plain = without_digests(&once);
            // Two adjacent masks may become one.
            prop_assert_eq!(redactor.text(&plain).replace(MASK, ""), plain.replace(MASK, ""));
        }
    }
}
