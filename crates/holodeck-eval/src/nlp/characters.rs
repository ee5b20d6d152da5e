//! What the SQuAD script makes of characters outside of ASCII.

use super::python;

/// The kind of a character.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// A letter or digit.
    Letter,
    /// Part of a word, but separates articles.
    Symbol,
    Space,
    /// Its lower case has another length or depends on what follows.
    #[default]
    Rare,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Character {
    c: char,
    /// Its lower case.
    pub(super) lower: char,
    pub(super) class: Class,
}

impl Character {
    fn new(c: char) -> Self {
        let mut lower_case = c.to_lowercase();
        let lower = lower_case.next().unwrap_or(c);
        let is_same_length = lower_case.next().is_none() && lower.len_utf8() == c.len_utf8();
        let class = if !is_same_length || c == 'Σ' {
            Class::Rare
        } else if python::is_space(lower) {
            Class::Space
        } else if python::is_word(lower) {
            Class::Letter
        } else {
            Class::Symbol
        };
        Self { c, lower, class }
    }
}

/// The characters that occurred last, because searching the tables of Unicode takes longer.
#[derive(Default)]
pub(super) struct Characters(Vec<Character>);

const CHARACTERS: usize = 1024;

impl Characters {
    #[expect(clippy::indexing_slicing, reason = "less than the size")]
    pub(super) fn get(&mut self, c: char) -> Character {
        if self.0.is_empty() {
            self.0.resize(CHARACTERS, Character::default());
        }
        let slot = &mut self.0[c as usize % CHARACTERS];
        if slot.c != c {
            *slot = Character::new(c);
        }
        *slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_classified_as_python_does() {
        let mut characters = Characters::default();
        // Twice, because each is found in the table or replaces another.
        for c in ('\u{80}'..=char::MAX).flat_map(|c| [c, c]) {
            let Character { lower, class, .. } = characters.get(c);
            let is_same_length = c.to_lowercase().eq([lower]) && lower.len_utf8() == c.len_utf8();
            assert_eq!(class == Class::Rare, c == 'Σ' || !is_same_length, "{c:?}");
            if class != Class::Rare {
                assert_eq!(class == Class::Space, python::is_space(lower), "{c:?}");
                assert_eq!(class == Class::Letter, python::is_word(lower), "{c:?}");
            }
        }
    }
}
