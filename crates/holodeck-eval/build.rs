//! Converts `data/wordnet` to the two tables that METEOR reads: `words.bin` (lemma → synsets) and `forms.bin`
//! (irregular form → base forms). Done at build time so that the repository contains readable text.

#![allow(clippy::print_stdout, reason = "cargo reads the output of a build script")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

#[path = "src/nlp/wordnet/table.rs"]
mod table;

/// Part of speech, its number in the tables, its list of irregular forms.
const PARTS: [(&str, u8, &str); 4] = [
    ("n", 0, "noun.exc"),
    ("v", 1, "verb.exc"),
    ("a", 2, "adj.exc"),
    ("r", 3, "adv.exc"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=data/wordnet");
    println!("cargo::rerun-if-changed=src/nlp/wordnet/table.rs");
    #[allow(
        clippy::disallowed_methods,
        reason = "cargo passes the build directory in the environment"
    )]
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let data = Path::new("data/wordnet");
    fs::write(out.join("words.bin"), table::build(&words(data)?)?)?;
    fs::write(out.join("forms.bin"), table::build(&irregular_forms(data)?)?)?;
    Ok(())
}

/// Lower-case lemma → its synsets as varints: the difference to the last synset number, shifted left by one;
/// the low bit is set if the synset contains the lemma in exactly this (lower-case) spelling.
fn words(data: &Path) -> Result<BTreeMap<String, Vec<u8>>, Box<dyn Error>> {
    let mut synsets_of: BTreeMap<String, BTreeMap<u32, bool>> = BTreeMap::new();
    let mut next = [0_u32; PARTS.len()];
    let file = fs::File::open(data.join("synsets.tsv.gz"))?;
    for line in BufReader::new(flate2::read::GzDecoder::new(file)).lines() {
        let line = line?;
        let (pos, lemmas) = line.split_once('\t').ok_or("a line without a tab")?;
        let (_, part, _) = PARTS
            .iter()
            .find(|(name, ..)| *name == pos)
            .ok_or("an unknown part of speech")?;
        let counter = next
            .get_mut(usize::from(*part))
            .ok_or("a counter for each part of speech")?;
        // The number includes the part of speech: 17 bits are enough for the synsets of each part.
        let id = u32::from(*part) << 17 | *counter;
        *counter += 1;
        for lemma in lemmas.split(' ') {
            let lower = lemma.to_lowercase();
            let exact = lower == lemma;
            *synsets_of.entry(lower).or_default().entry(id).or_default() |= exact;
        }
    }
    if next.iter().any(|&count| count >= 1 << 17) {
        return Err("more synsets than 17 bits can number".into());
    }
    Ok(synsets_of
        .into_iter()
        .map(|(lemma, synsets)| {
            let mut value = Vec::new();
            let mut last = 0;
            for (id, exact) in synsets {
                push_varint(&mut value, (id - last) << 1 | u32::from(exact));
                last = id;
            }
            (lemma, value)
        })
        .collect())
}

/// Irregular form (one word) → base forms, each after the digit of its part of speech, separated by spaces.
fn irregular_forms(data: &Path) -> Result<BTreeMap<String, Vec<u8>>, Box<dyn Error>> {
    let mut forms: BTreeMap<String, BTreeMap<u8, String>> = BTreeMap::new();
    for (_, part, file) in PARTS {
        for line in fs::read_to_string(data.join(file))?.lines() {
            let (form, bases) = line.split_once(' ').ok_or("a line without a base form")?;
            if !form.contains('_') {
                forms
                    .entry(form.to_owned())
                    .or_default()
                    .insert(part, bases.to_owned());
            }
        }
    }
    let value = |bases: BTreeMap<u8, String>| {
        let bases = bases
            .iter()
            .flat_map(|(part, bases)| bases.split(' ').map(move |base| format!("{part}{base}")));
        bases.collect::<Vec<_>>().join(" ").into_bytes()
    };
    Ok(forms
        .into_iter()
        .map(|(form, bases)| (form, value(bases)))
        .collect())
}

fn push_varint(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push((number & 0x7f | 0x80).to_le_bytes()[0]);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}
