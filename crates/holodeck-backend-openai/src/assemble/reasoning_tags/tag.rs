//! One tag before or after reasoning, in the spellings of models. It does not know where a tag may stand.

/// The brackets of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `<think>`, in any case and with blanks before its end.
    Angle,
    /// `[THINK]`, of Magistral.
    Square,
    /// `◁think▷`, of Kimi.
    Triangle,
}

impl Style {
    /// The first character of a tag.
    pub(super) fn first(self) -> char {
        match self {
            Self::Angle => '<',
            Self::Square => '[',
            Self::Triangle => '◁',
        }
    }

    fn last(self) -> char {
        match self {
            Self::Angle => '>',
            Self::Square => ']',
            Self::Triangle => '▷',
        }
    }
}

/// A tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) style: Style,
    pub(super) name: &'static str,
    pub(super) is_close: bool,
}

/// Whether a text begins with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It does, with this many bytes.
    Whole(usize),
    /// It may: it ends within the tag.
    Cut,
    Not,
}

/// Where a text has a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Find {
    /// At this byte, with this many bytes.
    At(usize, usize),
    /// Nowhere in its first bytes; the others may be the beginning of it.
    Not { certain: usize },
}

/// More blanks in a tag are none of a model.
const MAX_BLANKS: usize = 8;

impl Tag {
    /// Whether a text begins with this tag.
    pub(super) fn begins(self, text: &str) -> Match {
        let slash = self.is_close.then_some('/');
        let name = std::iter::once(self.style.first())
            .chain(slash)
            .chain(self.name.chars());
        let mut chars = text.chars();
        let mut length = 0;
        for expected in name {
            let Some(c) = chars.next() else {
                return Match::Cut;
            };
            let is_same = match self.style {
                Style::Angle => c.eq_ignore_ascii_case(&expected),
                Style::Square | Style::Triangle => c == expected,
            };
            if !is_same {
                return Match::Not;
            }
            length += c.len_utf8();
        }
        for _ in 0..=MAX_BLANKS {
            let Some(c) = chars.next() else {
                return Match::Cut;
            };
            length += c.len_utf8();
            if c == self.style.last() {
                return Match::Whole(length);
            }
            if self.style != Style::Angle || !c.is_whitespace() {
                return Match::Not;
            }
        }
        Match::Not
    }

    /// Whether a text has this tag.
    pub(super) fn is_in(self, text: &str) -> bool {
        matches!(self.find(text), Find::At(..))
    }

    /// The first place of this tag.
    pub(super) fn find(self, text: &str) -> Find {
        for (place, _) in text.match_indices(self.style.first()) {
            match self.begins(text.get(place..).unwrap_or_default()) {
                Match::Whole(length) => return Find::At(place, length),
                Match::Cut => return Find::Not { certain: place },
                Match::Not => {}
            }
        }
        Find::Not { certain: text.len() }
    }

    /// The number of first bytes that no longer text makes a part of this tag.
    pub(super) fn certain(self, text: &str) -> usize {
        let mut places = text.match_indices(self.style.first()).map(|(place, _)| place);
        let cut = places.find(|place| self.begins(text.get(*place..).unwrap_or_default()) == Match::Cut);
        cut.unwrap_or(text.len())
    }
}
