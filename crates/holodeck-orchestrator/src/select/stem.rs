//! Stems of English words: the algorithm of M. F. Porter (1980), with the British spellings of its suffixes. Words with
//! letters other than a–z are their own stems.

/// Suffixes that become another one after a stem of at least one syllable; the first that fits decides.
const SECOND: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("iser", "ise"),
    ("ably", "able"),
    ("ibly", "ible"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("isation", "ise"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const THIRD: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

/// Suffixes that are dropped after a stem of at least two syllables, the longest first.
const FOURTH: &[&str] = &[
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize",
    "ise", "al", "er", "or", "ic",
];

/// The stem of a word in lower case.
pub(super) fn stem(word: &str) -> String {
    let mut stem = word.to_owned();
    if word.len() <= 2 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return stem;
    }
    drop_plural(&mut stem);
    drop_tense(&mut stem);
    let before = stem.strip_suffix('y').and_then(|rest| rest.chars().next_back());
    if stem.len() > 2 && before.is_some_and(|letter| !"aeiou".contains(letter)) {
        stem.pop();
        stem.push('i');
    }
    for step in [SECOND, THIRD] {
        let found = step
            .iter()
            .find_map(|(suffix, instead)| Some((stem.strip_suffix(suffix)?.len(), instead)));
        if let Some((length, instead)) = found {
            replace_after(&mut stem, length, 0, instead);
        }
    }
    match stem.strip_suffix("ion") {
        Some(rest) if rest.ends_with(['s', 't']) => {
            let length = rest.len();
            replace_after(&mut stem, length, 1, "");
        }
        _ => {
            let found = FOURTH.iter().find_map(|suffix| stem.strip_suffix(suffix));
            if let Some(length) = found.map(str::len) {
                replace_after(&mut stem, length, 1, "");
            }
        }
    }
    if let Some(rest) = stem.strip_suffix('e') {
        let syllables = syllables(rest);
        if syllables > 1 || (syllables == 1 && !ends_short(rest)) {
            stem.pop();
        }
    }
    if stem.ends_with("ll") && syllables(&stem) > 1 {
        stem.pop();
    }
    stem
}

/// Replaces what follows the first `length` letters if these have more than `least` syllables.
fn replace_after(stem: &mut String, length: usize, least: usize, instead: &str) {
    if stem.get(..length).is_some_and(|rest| syllables(rest) > least) {
        stem.truncate(length);
        stem.push_str(instead);
    }
}

fn drop_plural(stem: &mut String) {
    let drop = if stem.ends_with("sses") || (stem.ends_with("ies") && stem.len() > 4) {
        2
    } else {
        let is_plural = stem.ends_with('s') && !stem.ends_with("ss") && !stem.ends_with("us");
        usize::from(is_plural)
    };
    stem.truncate(stem.len() - drop);
}

fn drop_tense(stem: &mut String) {
    if let Some(rest) = stem.strip_suffix("eed") {
        if syllables(rest) > 0 {
            stem.pop();
        }
        return;
    }
    let rest = ["ed", "ing"].iter().find_map(|suffix| {
        let rest = stem.strip_suffix(suffix)?;
        has_vowel(rest).then_some(rest.len())
    });
    let Some(length) = rest else { return };
    stem.truncate(length);
    let is_double = stem
        .chars()
        .next_back()
        .is_some_and(|last| !"aeioulsz".contains(last) && stem.chars().rev().nth(1) == Some(last));
    if ["at", "bl", "iz"].iter().any(|end| stem.ends_with(end)) {
        stem.push('e');
    } else if is_double {
        stem.pop();
    } else if syllables(stem) == 1 && ends_short(stem) {
        stem.push('e');
    }
}

/// Whether each letter is a vowel; `y` is one after a consonant.
fn vowels(word: &str) -> impl Iterator<Item = bool> + '_ {
    let mut before: Option<char> = None;
    word.chars().map(move |letter| {
        let is_vowel = "aeiou".contains(letter)
            || (letter == 'y' && before.is_some_and(|before| !"aeiou".contains(before)));
        before = Some(letter);
        is_vowel
    })
}

fn has_vowel(word: &str) -> bool {
    let later_y = word.chars().skip(1).any(|letter| letter == 'y');
    later_y || word.contains(['a', 'e', 'i', 'o', 'u'])
}

/// How often a vowel is followed by a consonant.
fn syllables(word: &str) -> usize {
    let mut before = false;
    let mut count = 0;
    for is_vowel in vowels(word) {
        count += usize::from(before && !is_vowel);
        before = is_vowel;
    }
    count
}

/// Whether the word ends with a consonant, a vowel and a consonant other than `w`, `x` and `y`.
fn ends_short(word: &str) -> bool {
    let mut letters = word.chars().rev();
    let (last, middle, first) = (letters.next(), letters.next(), letters.next());
    last.is_some_and(|letter| !"aeiouwxy".contains(letter))
        && middle.is_some_and(|letter| "aeiouy".contains(letter))
        && first.is_some_and(|letter| !"aeiou".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (one, other) in [
            ("reviews", "reviewing"),
            ("deployment", "deploy"),
            ("deployed", "deploys"),
            ("vulnerabilities", "vulnerability"),
            ("optimize", "optimizing"),
            ("localization", "localize"),
            ("queries", "query"),
            ("running", "runs"),
            ("translation", "translate"),
            ("crashes", "crashed"),
            ("caresses", "caress"),
        ] {
            assert_eq!(stem(one), stem(other), "{one} {other}");
        }
    }

    #[test]
    fn different_words_stay_different() {
        for (one, other) in [
            ("status", "state"),
            ("test", "text"),
            ("news", "new's"),
            ("c++", "c"),
        ] {
            assert_ne!(stem(one), stem(other), "{one} {other}");
        }
    }

    #[test]
    fn any_word_has_a_stem() {
        for word in [
            "", "s", "ss", "y", "ing", "eed", "ion", "ed", "été", "日", "aaaa", "yyy", "e", "ll",
        ] {
            assert!(stem(word).len() <= word.len() + 1, "{word}");
        }
    }
}
