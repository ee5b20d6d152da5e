//! The Porter stemmer of NLTK (`NLTK_EXTENSIONS`): the algorithm of 1980 with the additions NLTK makes.
//!
//! It is not Snowball's English stemmer: "fairly" becomes "fairli" here.

/// A letter of a word: a byte of an ASCII word or a character of any other.
trait Letter: Copy + PartialEq {
    fn from_ascii(byte: u8) -> Self;
    /// The ASCII byte, 0 for anything else.
    fn ascii(self) -> u8;
}

impl Letter for u8 {
    fn from_ascii(byte: u8) -> Self {
        byte
    }
    fn ascii(self) -> u8 {
        self
    }
}

impl Letter for char {
    fn from_ascii(byte: u8) -> Self {
        char::from(byte)
    }
    fn ascii(self) -> u8 {
        u8::try_from(self).ok().filter(u8::is_ascii).unwrap_or(0)
    }
}

/// Appends the stem of a lower-case word; `scratch` is a reusable buffer.
pub(crate) fn push_stem(word: &str, scratch: &mut Vec<u8>, out: &mut String) {
    if word.is_ascii() {
        scratch.clear();
        scratch.extend_from_slice(word.as_bytes());
        reduce(scratch);
        out.push_str(std::str::from_utf8(scratch).unwrap_or_default());
    } else {
        let mut stem = word.chars().collect();
        reduce(&mut stem);
        out.extend(stem);
    }
}

fn reduce<T: Letter>(word: &mut Vec<T>) {
    if let Some(stem) = irregular(word) {
        replace(word, 0, stem);
        return;
    }
    if word.len() <= 2 {
        return;
    }
    step_1a(word);
    step_1b(word);
    step_1c(word);
    // Skips a step unless the word ends in a letter of its suffixes.
    if ends_in(word, b"lirnms") {
        step_2(word);
    }
    if ends_in(word, b"eils") {
        step_3(word);
    }
    if ends_in(word, b"lercntumis") {
        step_4(word);
    }
    step_5(word);
}

fn ends_in<T: Letter>(word: &[T], letters: &[u8]) -> bool {
    word.last().is_some_and(|last| letters.contains(&last.ascii()))
}

fn irregular<T: Letter>(word: &[T]) -> Option<&'static str> {
    const FORMS: [(&str, &str); 16] = [
        ("sky", "sky"),
        ("skies", "sky"),
        ("dying", "die"),
        ("lying", "lie"),
        ("tying", "tie"),
        ("news", "news"),
        ("innings", "inning"),
        ("inning", "inning"),
        ("outings", "outing"),
        ("outing", "outing"),
        ("cannings", "canning"),
        ("canning", "canning"),
        ("howe", "howe"),
        ("proceed", "proceed"),
        ("exceed", "exceed"),
        ("succeed", "succeed"),
    ];
    if word.len() > 8 {
        return None;
    }
    FORMS
        .iter()
        .find(|(form, _)| word.len() == form.len() && ends_with(word, form))
        .map(|&(_, stem)| stem)
}

/// Plurals. "ties" becomes "tie", but "flies" "fli".
fn step_1a<T: Letter>(word: &mut Vec<T>) {
    if ends_with(word, "ies") && word.len() == 4 {
        word.pop();
    } else {
        let rules = [("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")];
        apply(word, &rules, |_| true);
    }
}

/// Past tense and -ing.
fn step_1b<T: Letter>(word: &mut Vec<T>) {
    if ends_with(word, "ied") {
        let removed = if word.len() == 4 { 1 } else { 2 };
        word.truncate(word.len() - removed);
        return;
    }
    if let Some(stem) = stem_before(word, "eed") {
        if measure(stem) > 0 {
            word.pop();
        }
        return;
    }
    let Some(length) = ["ed", "ing"].iter().find_map(|suffix| {
        stem_before(word, suffix)
            .filter(|stem| contains_vowel(stem))
            .map(<[T]>::len)
    }) else {
        return;
    };
    word.truncate(length);
    if ["at", "bl", "iz"].iter().any(|suffix| ends_with(word, suffix)) {
        word.push(T::from_ascii(b'e'));
    } else if ends_in_double_consonant(word) {
        if !word
            .last()
            .is_some_and(|last| matches!(last.ascii(), b'l' | b's' | b'z'))
        {
            word.pop();
        }
    } else if measure(word) == 1 && ends_in_cvc(word) {
        word.push(T::from_ascii(b'e'));
    }
}

/// A final y after a consonant.
fn step_1c<T: Letter>(word: &mut Vec<T>) {
    if stem_before(word, "y").is_some_and(|stem| stem.len() > 1 && is_consonant(stem, stem.len() - 1)) {
        word.pop();
        word.push(T::from_ascii(b'i'));
    }
}

/// Double suffixes.
fn step_2<T: Letter>(word: &mut Vec<T>) {
    while stem_before(word, "alli").is_some_and(|stem| measure(stem) > 0) {
        word.truncate(word.len() - 2);
    }
    if ends_with(word, "logi") {
        // The l counts as part of the stem, so that "geologi" is reduced like "archaeologi".
        if stem_before(word, "ogi").is_some_and(|stem| measure(stem) > 0) {
            word.pop();
        }
        return;
    }
    let rules = [
        ("ational", "ate"),
        ("tional", "tion"),
        ("enci", "ence"),
        ("anci", "ance"),
        ("izer", "ize"),
        ("bli", "ble"),
        ("alli", "al"),
        ("entli", "ent"),
        ("eli", "e"),
        ("ousli", "ous"),
        ("ization", "ize"),
        ("ation", "ate"),
        ("ator", "ate"),
        ("alism", "al"),
        ("iveness", "ive"),
        ("fulness", "ful"),
        ("ousness", "ous"),
        ("aliti", "al"),
        ("iviti", "ive"),
        ("biliti", "ble"),
        ("fulli", "ful"),
    ];
    apply(word, &rules, |stem| measure(stem) > 0);
}

fn step_3<T: Letter>(word: &mut Vec<T>) {
    let rules = [
        ("icate", "ic"),
        ("ative", ""),
        ("alize", "al"),
        ("iciti", "ic"),
        ("ical", "ic"),
        ("ful", ""),
        ("ness", ""),
    ];
    apply(word, &rules, |stem| measure(stem) > 0);
}

fn step_4<T: Letter>(word: &mut Vec<T>) {
    const SUFFIXES: [&str; 19] = [
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism",
        "ate", "iti", "ous", "ive", "ize",
    ];
    let Some((suffix, stem)) = SUFFIXES
        .iter()
        .find_map(|suffix| Some((suffix, stem_before(word, suffix)?)))
    else {
        return;
    };
    let s_or_t = || {
        stem.last()
            .is_some_and(|last| matches!(last.ascii(), b's' | b't'))
    };
    if measure(stem) > 1 && (*suffix != "ion" || s_or_t()) {
        word.truncate(word.len() - suffix.len());
    }
}

/// A final e, a final double l.
fn step_5<T: Letter>(word: &mut Vec<T>) {
    if let Some(stem) = stem_before(word, "e") {
        let measure = measure(stem);
        if measure > 1 || measure == 1 && !ends_in_cvc(stem) {
            word.pop();
        }
    }
    if ends_with(word, "ll") && word.split_last().is_some_and(|(_, stem)| measure(stem) > 1) {
        word.pop();
    }
}

/// Replaces the first matching suffix if the stem before it meets the condition.
fn apply<T: Letter>(word: &mut Vec<T>, rules: &[(&str, &str)], condition: impl Fn(&[T]) -> bool) {
    let rule = rules
        .iter()
        .find_map(|(suffix, new)| Some((stem_before(word, suffix)?, new)));
    if let Some((stem, new)) = rule
        && condition(stem)
    {
        replace(word, stem.len(), new);
    }
}

fn replace<T: Letter>(word: &mut Vec<T>, keep: usize, suffix: &str) {
    word.truncate(keep);
    word.extend(suffix.bytes().map(T::from_ascii));
}

fn ends_with<T: Letter>(word: &[T], suffix: &str) -> bool {
    stem_before(word, suffix).is_some()
}

fn stem_before<'w, T: Letter>(word: &'w [T], suffix: &str) -> Option<&'w [T]> {
    let (stem, end) = word.split_at_checked(word.len().checked_sub(suffix.len())?)?;
    // Backwards, since most words differ at the end.
    end.iter()
        .rev()
        .map(|letter| letter.ascii())
        .eq(suffix.bytes().rev())
        .then_some(stem)
}

/// For each letter whether it is a consonant; y is one at the start and after a vowel.
fn consonants<T: Letter>(word: &[T]) -> impl Iterator<Item = bool> {
    let mut after_consonant = false;
    word.iter().map(move |letter| {
        after_consonant = match letter.ascii() {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => !after_consonant,
            _ => true,
        };
        after_consonant
    })
}

fn is_consonant<T: Letter>(word: &[T], at: usize) -> bool {
    consonants(word).nth(at).unwrap_or(false)
}

/// How often a vowel is followed by a consonant.
fn measure<T: Letter>(stem: &[T]) -> usize {
    let mut after_vowel = false;
    consonants(stem)
        .filter(|&consonant| std::mem::replace(&mut after_vowel, !consonant) && consonant)
        .count()
}

fn contains_vowel<T: Letter>(stem: &[T]) -> bool {
    consonants(stem).any(|consonant| !consonant)
}

fn ends_in_double_consonant<T: Letter>(word: &[T]) -> bool {
    matches!(word, [.., a, b] if a == b) && is_consonant(word, word.len() - 1)
}

/// Consonant, vowel, consonant other than w, x, y; or a word of two letters, vowel and consonant.
fn ends_in_cvc<T: Letter>(word: &[T]) -> bool {
    let skip = word.len().saturating_sub(3);
    let mut kinds = consonants(word).skip(skip);
    match (kinds.next(), kinds.next(), kinds.next()) {
        (Some(true), Some(false), Some(true)) => !word
            .last()
            .is_some_and(|last| matches!(last.ascii(), b'w' | b'x' | b'y')),
        (Some(false), Some(true), None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_as_nltk_does() {
        let cases = "caresses:caress ponies:poni ties:tie dies:die flies:fli cats:cat feed:feed agreed:agre \
            plastered:plaster bled:bled motoring:motor sing:sing conflated:conflat troubled:troubl sized:size \
            hopping:hop falling:fall hissing:hiss failing:fail filing:file happy:happi sky:sky enjoy:enjoy \
            relational:relat rational:ration digitizer:digit radically:radic differently:differ vilely:vile \
            fairly:fairli geology:geolog theology:theolog hopefulness:hope adoption:adopt controlling:control \
            rolling:roll probate:probat cease:ceas news:news dying:die spied:spi died:die usefully:use \
            generously:gener by:by as:as étés:été naïvely:naïv größer:größer";
        for case in cases.split_whitespace() {
            let (word, expected) = case.split_once(':').unwrap();
            let mut stem = String::new();
            push_stem(word, &mut Vec::new(), &mut stem);
            assert_eq!(stem, expected, "{word}");
        }
    }
}
