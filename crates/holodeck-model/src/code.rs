//! The registry of diagnostic codes.
//!
//! HD00 the file and its YAML, HD01 the shape, HD02 values, HD03 rules across fields, HD04 settings without effect,
//! HD05 environment and layers, HD06 files that the YAML names, HD07 notes on tests, HD08 the environment of a run,
//! HD09 specialist agents and how they are selected.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $id:literal, $name:literal;)+) => {
        /// A stable diagnostic code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code as printed, `HD0101`.
            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)+ }
            }

            /// The name of the code, `unknown-field`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The meaning of the code, in one line.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

codes! {
    /// A file could not be read.
    UnreadableFile = "HD0001", "unreadable-file";
    /// A directory was given where a file is expected.
    IsDirectory = "HD0002", "is-directory";
    /// A file is larger than 10 MB.
    FileTooLarge = "HD0003", "file-too-large";
    /// A file is not UTF-8 text.
    InvalidUtf8 = "HD0004", "invalid-utf8";
    /// A file holds nothing but blanks and comments.
    EmptyFile = "HD0005", "empty-file";
    /// The text is not YAML.
    YamlSyntax = "HD0006", "yaml-syntax";
    /// A file holds more than one YAML document.
    MultipleDocuments = "HD0007", "multiple-documents";
    /// A tab is used for indentation.
    TabIndentation = "HD0008", "tab-indentation";
    /// A key appears twice in one mapping.
    DuplicateKey = "HD0009", "duplicate-key";
    /// The YAML is nested too deeply.
    TooDeep = "HD0010", "too-deep";
    /// The YAML expands to too many nodes.
    TooManyNodes = "HD0011", "too-many-nodes";
    /// An alias names an anchor that is not defined before it.
    UnknownAnchor = "HD0012", "unknown-anchor";
    /// A merge key `<<` does not point to a mapping.
    BadMerge = "HD0013", "bad-merge";
    /// A mapping key is not a string.
    KeyNotText = "HD0014", "key-not-text";
    /// A YAML tag such as `!include` is not supported.
    UnsupportedTag = "HD0015", "unsupported-tag";
    /// There are more problems than are shown.
    TooManyProblems = "HD0016", "too-many-problems";
    /// A field is unknown.
    UnknownField = "HD0101", "unknown-field";
    /// A required field is absent.
    MissingField = "HD0102", "missing-field";
    /// A value has the wrong type.
    WrongType = "HD0103", "wrong-type";
    /// A value is not one of those allowed.
    UnknownValue = "HD0104", "unknown-value";
    /// A list item has no `type`.
    MissingType = "HD0105", "missing-type";
    /// A string or list is empty but must not be.
    Blank = "HD0201", "blank";
    /// A string does not have the required format.
    BadFormat = "HD0202", "bad-format";
    /// A number is outside its range.
    OutOfRange = "HD0203", "out-of-range";
    /// A list has too many items.
    TooManyItems = "HD0204", "too-many-items";
    /// A regular expression does not compile.
    BadPattern = "HD0205", "bad-pattern";
    /// Two fields exclude each other.
    ConflictingFields = "HD0301", "conflicting-fields";
    /// One of several fields is required.
    OneOfRequired = "HD0302", "one-of-required";
    /// A name is used twice.
    DuplicateName = "HD0303", "duplicate-name";
    /// Related values are inconsistent.
    InconsistentValues = "HD0304", "inconsistent-values";
    /// A setting grants a risky permission without confirmation.
    UnconfirmedRisk = "HD0305", "unconfirmed-risk";
    /// A part cannot be run yet.
    NotYetSupported = "HD0401", "not-yet-supported";
    /// The chosen provider does not use a block.
    IgnoredForProvider = "HD0402", "ignored-for-provider";
    /// YAML 1.1 reads a value differently.
    Yaml11Difference = "HD0403", "yaml-1.1-difference";
    /// A mapping looks like a matcher but is not one: compared literally, or rejected as in 0.7.1.
    LiteralMatcher = "HD0404", "literal-matcher";
    /// A built-in replacement is used for the configured component.
    StandIn = "HD0405", "stand-in";
    /// A text ends before ` #`, where a comment begins.
    CutText = "HD0406", "cut-text";
    /// A text has a variable in a form that is not replaced.
    NotAVariable = "HD0407", "not-a-variable";
    /// A text stands in quotes of a word processor, which belong to it.
    TypographicQuotes = "HD0408", "typographic-quotes";
    /// A field is accepted but has no effect.
    NoEffect = "HD0410", "no-effect";
    /// An environment variable is not set.
    MissingVariable = "HD0501", "missing-variable";
    /// An environment variable holds a value that cannot be used.
    BadVariable = "HD0502", "bad-variable";
    /// No layer of the configuration defines a name.
    UnknownReference = "HD0503", "unknown-reference";
    /// A file that the YAML names does not exist.
    FileNotFound = "HD0601", "file-not-found";
    /// A JSON file that the YAML names is not JSON.
    BadJson = "HD0602", "bad-json";
    /// The front matter of an instruction file is malformed.
    BadFrontMatter = "HD0603", "bad-front-matter";
    /// A `CLAUDE.md` is in the agent's working directory.
    ClaudeMd = "HD0604", "claude-md";
    /// A Markdown file among the specialist agents has no front matter.
    NotAnAgent = "HD0605", "not-an-agent";
    /// The test cases are in a hidden sheet of a workbook, or in hidden rows or columns.
    HiddenSheet = "HD0606", "hidden-sheet";
    /// A metric is reported but cannot fail a test.
    NotGated = "HD0701", "not-gated";
    /// A default differs from HoloDeck 0.7.
    ChangedDefault = "HD0702", "changed-default";
    /// A test case checks nothing.
    Unchecked = "HD0703", "unchecked";
    /// A tool answers from its `mock`; the real one does not run.
    Mocked = "HD0704", "mocked";
    /// A negated `contains_all` passes even if only some of its strings are missing.
    NegatedAll = "HD0705", "negated-all";
    /// A metric compares with a `ground_truth` that a test case does not have.
    MissingReference = "HD0706", "missing-reference";
    /// Test cases have the same name, or the same content and no name.
    EqualCases = "HD0707", "equal-cases";
    /// A gate passes whatever the agent answers.
    IdleGate = "HD0708", "idle-gate";
    /// The metrics of the agent check no test case: each case has metrics of its own.
    UnusedMetrics = "HD0709", "unused-metrics";
    /// A credential that the agent needs is absent.
    MissingCredential = "HD0801", "missing-credential";
    /// A program that the agent needs is absent or unusable.
    MissingProgram = "HD0802", "missing-program";
    /// An endpoint that the agent needs does not answer, or answers incorrectly.
    EndpointUnreachable = "HD0803", "endpoint-unreachable";
    /// A directory that the agent needs is absent or not writable.
    UnusableDirectory = "HD0804", "unusable-directory";
    /// A JSON Schema is not valid.
    BadSchema = "HD0805", "bad-schema";
    /// A program that the agent needs is too old.
    OutdatedProgram = "HD0806", "outdated-program";
    /// An index that the agent searches is out of date or unusable.
    UnusableIndex = "HD0807", "unusable-index";
    /// An endpoint does not accept the credential that the agent has for it.
    RejectedCredential = "HD0808", "rejected-credential";
    /// An endpoint does not list the agent's model, or has no list.
    UnlistedModel = "HD0809", "unlisted-model";
    /// A model did not answer a test request.
    FailedRequest = "HD0810", "failed-request";
    /// A metric requires a calibrated judge, and its judge is not calibrated.
    UncalibratedJudge = "HD0811", "uncalibrated-judge";
    /// The `.env` beside the agent decides where keys of the user go, or which program runs.
    EnvFileDecides = "HD0812", "env-file-decides";
    /// A name refers to no specialist agent.
    UnknownAgent = "HD0901", "unknown-agent";
    /// A folder contains no specialist agent.
    NoAgents = "HD0902", "no-agents";
    /// A specialist agent names a tool that does not exist; it is dropped.
    UnknownTool = "HD0903", "unknown-tool";
    /// The model of a specialist agent is ignored, because another provider has it.
    IgnoredModel = "HD0904", "ignored-model";
    /// A specialist agent can never, or hardly ever, be selected.
    NeverSelected = "HD0905", "never-selected";
    /// Two specialist agents have almost the same score for a task.
    NearTie = "HD0906", "near-tie";
    /// Two specialist agents declare the same command; the first by name gets it.
    SharedCommand = "HD0907", "shared-command";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_sorted() {
        let ids: Vec<_> = Code::ALL.iter().map(|code| code.id()).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(ids, sorted);
    }
}
