//! Decides what a provider's word for the end of an answer means. No other code compares these words.

use super::StopReason;

/// The meaning of a stop reason for the answer, whatever its provider calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "every consumer decides about each family")]
pub enum StopFamily {
    /// The model finished its answer.
    End,
    /// The model called tools.
    Calls,
    /// The answer was cut off.
    Truncated,
    /// The model refused, or a filter did.
    Refusal,
    /// The provider failed during the answer.
    Failure,
    /// A word unknown to this version. The answer may have been cut off.
    Unknown,
}

impl StopFamily {
    /// The family with this name, or with this word of a provider.
    pub fn named(name: &str) -> Self {
        let named = WORDS.iter().find(|(family, _)| family.as_str() == name);
        named.map_or_else(
            || StopReason::from(name.to_owned()).family(),
            |(family, _)| *family,
        )
    }

    /// The name of the family.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Calls => "calls",
            Self::Truncated => "truncated",
            Self::Refusal => "refusal",
            Self::Failure => "failure",
            Self::Unknown => "unknown",
        }
    }
}

/// The words of each family in lower case and without separators.
const WORDS: [(StopFamily, &[&str]); 5] = [
    (
        StopFamily::End,
        &[
            "stop",
            "endturn",
            "eos",
            "eostoken",
            "stopsequence",
            "complete",
            "completed",
            "notreported",
        ],
    ),
    (
        StopFamily::Calls,
        &[
            "tooluse",
            "toolcall",
            "toolcalls",
            "functioncall",
            "functioncalls",
        ],
    ),
    (
        StopFamily::Truncated,
        &[
            "length",
            "maxtokens",
            "maxtoken",
            "maxlength",
            "maxoutputtokens",
            "maxcompletiontokens",
            "maxnewtokens",
            "modellength",
            "tokenlimit",
            "timelimit",
            "contextlength",
            "contextlengthexceeded",
            "contextwindowexceeded",
            "modelcontextwindowexceeded",
            "errorlimit",
            "truncated",
            "incomplete",
            "pauseturn",
        ],
    ),
    (
        StopFamily::Refusal,
        &[
            "refusal",
            "refused",
            "contentfilter",
            "contentfiltered",
            "safety",
            "sensitive",
            "recitation",
            "language",
            "blocklist",
            "prohibitedcontent",
            "spii",
            "imagesafety",
            "imageprohibitedcontent",
            "imagerecitation",
            "modelarmor",
            "guardrailintervened",
            "errortoxic",
        ],
    ),
    (
        StopFamily::Failure,
        &[
            "error",
            "failed",
            "failure",
            "abort",
            "aborted",
            "cancel",
            "cancelled",
            "canceled",
            "usercancel",
            "timeout",
            "networkerror",
            "servererror",
            "internalerror",
            "insufficientsystemresource",
            "malformedfunctioncall",
            "malformedresponse",
            "malformedtooluse",
            "malformedmodeloutput",
            "unexpectedtoolcall",
            "toomanytoolcalls",
            "missingthoughtsignature",
        ],
    ),
];

impl StopReason {
    /// The word for a message that was cut off before it was complete.
    pub const ABORTED: &str = "aborted";
    /// The word for a complete answer whose provider sent no reason.
    pub const NOT_REPORTED: &str = "not_reported";

    /// A message that was cut off before it was complete.
    pub fn aborted() -> Self {
        Self::Other(Self::ABORTED.to_owned())
    }

    /// A complete answer whose provider sent no reason.
    pub fn not_reported() -> Self {
        Self::Other(Self::NOT_REPORTED.to_owned())
    }

    /// Whether the message was cut off.
    pub fn is_aborted(&self) -> bool {
        matches!(self, Self::Other(word) if word == Self::ABORTED)
    }

    /// Whether the provider sent no reason.
    pub fn is_not_reported(&self) -> bool {
        matches!(self, Self::Other(word) if word == Self::NOT_REPORTED)
    }

    /// The meaning of the reason. Providers differ in case and separators: `MAX_TOKENS`, `max-tokens` and `maxTokens` are
    /// one word.
    pub fn family(&self) -> StopFamily {
        // Nearly all answers.
        if *self == Self::EndTurn {
            return StopFamily::End;
        }
        let letters = self.as_str().chars();
        let letters = letters.filter(|letter| !matches!(letter, '_' | '-' | ' '));
        let word: String = letters.flat_map(char::to_lowercase).collect();
        let family = WORDS.iter().find(|(_, words)| words.contains(&word.as_str()));
        family.map_or(StopFamily::Unknown, |(family, _)| *family)
    }

    /// The reason, if a part of the answer is missing or may be.
    pub fn truncation(&self) -> Option<&Self> {
        matches!(self.family(), StopFamily::Truncated | StopFamily::Unknown).then_some(self)
    }

    /// The note beside an answer of which a part is missing or may be: `answer truncated at max_tokens`.
    pub fn truncation_note(&self) -> String {
        match (self, self.family()) {
            (Self::MaxTokens, _) => "answer truncated at max_tokens".to_owned(),
            (_, StopFamily::Unknown) => {
                format!("answer may be truncated: unknown finish_reason `{self}`")
            }
            _ => format!("answer truncated: finish_reason `{self}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_in_two_families() {
        let mut words: Vec<&str> = WORDS
            .iter()
            .flat_map(|(_, words)| words.iter().copied())
            .collect();
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count);
        for word in words {
            assert!(word.chars().all(|letter| letter.is_ascii_lowercase()), "{word}");
        }
    }

    #[test]
    fn words_are_compared_without_case_and_separators() {
        for (_, words) in WORDS {
            for word in words {
                let family = StopReason::from((*word).to_owned()).family();
                let upper = word.to_uppercase();
                let (left, right) = upper.split_at(1);
                for spelling in [
                    upper.clone(),
                    format!("{left}_{right}"),
                    format!(" {left}-{right} "),
                ] {
                    assert_eq!(StopReason::from(spelling).family(), family, "{word}");
                }
            }
        }
    }

    #[test]
    fn a_word_that_is_not_in_the_list_may_hide_a_cut() {
        for word in [
            "",
            "OTHER",
            "FINISH_REASON_UNSPECIFIED",
            "stopped_somehow",
            "length2",
            "null",
        ] {
            let reason = StopReason::from(word.to_owned());
            assert_eq!(reason.family(), StopFamily::Unknown, "{word}");
            assert_eq!(reason.truncation(), Some(&reason));
            assert!(reason.truncation_note().contains(word));
        }
    }

    #[test]
    fn only_a_cut_is_a_truncation() {
        for (word, note) in [
            ("end_turn", None),
            ("tool_use", None),
            ("refusal", None),
            ("aborted", None),
            ("not_reported", None),
            ("max_tokens", Some("answer truncated at max_tokens")),
            (
                "model_length",
                Some("answer truncated: finish_reason `model_length`"),
            ),
            (
                "odd",
                Some("answer may be truncated: unknown finish_reason `odd`"),
            ),
        ] {
            let reason = StopReason::from(word.to_owned());
            let found = reason.truncation().map(StopReason::truncation_note);
            assert_eq!(found.as_deref(), note, "{word}");
        }
    }
}
