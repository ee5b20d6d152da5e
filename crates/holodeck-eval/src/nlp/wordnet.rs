//! Looks up synonyms in WordNet 3.0 as NLTK does.
//!
//! `build.rs` generates the tables, which are read in place in the binary: nothing is loaded or allocated.

mod table;

static WORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/words.bin"));
static FORMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forms.bin"));

/// The licence of the WordNet data that is compiled in for METEOR; every copy must include it.
pub const WORDNET_LICENSE: &str = include_str!("../../data/wordnet/LICENSE.txt");

/// A synset's number; the bits from the 17th up are its part of speech.
pub(super) type Synset = u32;

/// Parts of speech, as bits.
const NOUN: u8 = 1;
const VERB: u8 = 2;
const ADJECTIVE: u8 = 4;

/// The endings that are replaced to get base forms, with their parts of speech.
const ENDINGS: [(&str, &str, u8); 19] = [
    ("s", "", NOUN | VERB),
    ("ses", "s", NOUN),
    ("ves", "f", NOUN),
    ("xes", "x", NOUN),
    ("zes", "z", NOUN),
    ("ches", "ch", NOUN),
    ("shes", "sh", NOUN),
    ("men", "man", NOUN),
    ("ies", "y", NOUN | VERB),
    ("es", "e", VERB),
    ("es", "", VERB),
    ("ed", "e", VERB),
    ("ed", "", VERB),
    ("ing", "e", VERB),
    ("ing", "", VERB),
    ("er", "", ADJECTIVE),
    ("est", "", ADJECTIVE),
    ("er", "e", ADJECTIVE),
    ("est", "e", ADJECTIVE),
];

/// Calls `emit` with the synsets that contain `word` in exactly this spelling.
pub(super) fn synsets_with_lemma(word: &str, mut emit: impl FnMut(Synset)) {
    for (synset, exact) in postings(word) {
        if exact {
            emit(synset);
        }
    }
}

/// Calls `emit` with the synsets of `word` and of each possible base form; a synset may occur twice.
pub(super) fn synsets(word: &str, mut emit: impl FnMut(Synset)) {
    for (synset, _) in postings(word) {
        emit(synset);
    }
    let mut emit_parts = |form: &str, parts: u8| {
        postings(form)
            .filter(|(synset, _)| parts >> (synset >> 17) & 1 == 1)
            .for_each(|(synset, _)| emit(synset));
    };
    // If a part of speech lists the form as irregular, the form has no other base forms in it.
    let mut irregular = 0;
    for (part, base) in irregular_bases(word) {
        irregular |= part;
        if base != word {
            emit_parts(base, part);
        }
    }
    if !word.ends_with(['s', 'n', 'd', 'g', 'r', 't']) {
        return;
    }
    let mut base = String::with_capacity(word.len() + 1);
    for (ending, replacement, parts) in ENDINGS {
        let parts = parts & !irregular;
        if parts != 0
            && let Some(stem) = word.strip_suffix(ending)
        {
            base.clear();
            base.push_str(stem);
            base.push_str(replacement);
            emit_parts(&base, parts);
        }
    }
}

/// The base forms that WordNet lists for an irregular form, each with the bit of its part of speech.
fn irregular_bases(word: &str) -> impl Iterator<Item = (u8, &'static str)> {
    let bases = table::find(FORMS, word.as_bytes()).and_then(|bases| std::str::from_utf8(bases).ok());
    bases.unwrap_or_default().split(' ').filter_map(|base| {
        let (&part, base) = (base.as_bytes().first()?, base.get(1..)?);
        Some((1 << (part - b'0'), base))
    })
}

fn postings(word: &str) -> impl Iterator<Item = (Synset, bool)> {
    let mut bytes = table::find(WORDS, word.as_bytes()).unwrap_or_default().iter();
    let mut synset = 0;
    std::iter::from_fn(move || {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = bytes.next()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        synset += number >> 1;
        Some((synset, number & 1 == 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn related(word: &str, other: &str) -> bool {
        let mut of_word = Vec::new();
        synsets(word, |synset| of_word.push(synset));
        let mut related = false;
        synsets_with_lemma(other, |synset| related |= of_word.contains(&synset));
        related
    }

    #[test]
    fn finds_synonyms_through_base_forms() {
        for (word, other) in [
            ("kids", "child"),
            ("children", "kid"),
            ("bought", "purchase"),
            ("glad", "happy"),
            ("happier", "glad"),
        ] {
            assert!(related(word, other), "{word} {other}");
        }
        assert!(!related("cat", "dog"));
        assert!(!related("", "dog"));
        assert!(!related("zzz", "zzz"));
    }
}
