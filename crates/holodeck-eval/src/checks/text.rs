//! Checks of the answer's text: equality, the contains family, regular expressions.

use holodeck_model::Pattern;

use super::{Answer, Check, Expected, Finding};
use crate::json_text::shown_text;
use crate::nlp::{self, Normalization};
use crate::{MetricError, Need};

/// How case is taken away: as 0.7.1's equality does it, or as the exact match of the reference does.
#[derive(Clone, Copy)]
pub(super) enum Case {
    Folded,
    Lowered,
}

/// The answer is the expected text, or one of the expected texts.
pub(super) struct Equality {
    expected: Expected,
    options: Normalization,
    case: Case,
}

impl Equality {
    pub(super) fn new(expected: Expected, options: Normalization, case: Case) -> Self {
        Self {
            expected,
            options,
            case,
        }
    }
}

impl Check for Equality {
    fn needs(&self) -> &[Need] {
        self.expected.needs()
    }

    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let expected = self.expected.texts(answer)?;
        let text = answer.text()?;
        let equal = match self.case {
            Case::Folded => nlp::equality,
            Case::Lowered => nlp::exact_match,
        };
        if expected
            .iter()
            .any(|expected| equal(&text, expected, self.options))
        {
            return Ok(Finding::met(format!("the answer is {}", shown_text(&text))));
        }
        Ok(Finding::missed(format!(
            "expected {}, got {}",
            one_of(&expected),
            shown_text(&text)
        )))
    }
}

/// Which of several texts the answer must contain.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Which {
    All,
    Any,
    /// One of them, at the start.
    Start,
}

/// The answer contains the expected texts.
pub(super) struct Contains {
    expected: Expected,
    options: Normalization,
    which: Which,
}

impl Contains {
    pub(super) fn new(expected: Expected, options: Normalization, which: Which) -> Result<Self, String> {
        if let Expected::Values(texts) = &expected
            && let Some(empty) = texts.iter().find(|text| options.folded(text).is_empty())
        {
            return Err(format!(
                "`value` {} is empty, which every answer contains",
                shown_text(empty)
            ));
        }
        Ok(Self {
            expected,
            options,
            which,
        })
    }
}

impl Check for Contains {
    fn needs(&self) -> &[Need] {
        self.expected.needs()
    }

    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let expected = self.expected.texts(answer)?;
        let text = self.options.folded(&answer.text()?);
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for &expected in &expected {
            let part = self.options.folded(expected);
            if part.is_empty() {
                let problem = format!("{} is empty, which every answer contains", shown_text(expected));
                return Err(MetricError::UnusableReference {
                    metric: answer.metric.to_string(),
                    problem,
                });
            }
            let has = match self.which {
                Which::Start => text.starts_with(&part),
                Which::All | Which::Any => text.contains(&part),
            };
            let list = if has { &mut found } else { &mut missing };
            list.push(expected);
        }
        Ok(match self.which {
            Which::All if missing.is_empty() => Finding::met(format!("the answer contains {}", each(&found))),
            Which::All => Finding::missed(format!("the answer does not contain {}", each(&missing))),
            Which::Any if found.is_empty() => {
                Finding::missed(format!("the answer contains none of {}", each(&missing)))
            }
            Which::Any => Finding::met(format!("the answer contains {}", each(&found))),
            Which::Start if found.is_empty() => {
                Finding::missed(format!("the answer does not start with {}", one_of(&missing)))
            }
            Which::Start => Finding::met(format!("the answer starts with {}", each(&found))),
        })
    }
}

/// The answer matches the expected regular expressions somewhere.
pub(super) struct Matches {
    patterns: Vec<Pattern>,
    expected: Expected,
    ignore_case: bool,
    which: Which,
}

impl Matches {
    pub(super) fn new(expected: Expected, ignore_case: bool, which: Which) -> Result<Self, String> {
        let patterns = match &expected {
            Expected::Values(texts) => texts
                .iter()
                .map(|text| compile(text, ignore_case))
                .collect::<Result<_, _>>()?,
            Expected::GroundTruth => Vec::new(),
        };
        Ok(Self {
            patterns,
            expected,
            ignore_case,
            which,
        })
    }
}

fn compile(text: &str, ignore_case: bool) -> Result<Pattern, String> {
    if text.is_empty() {
        return Err("the regular expression is empty, which every answer matches".to_owned());
    }
    let pattern = if ignore_case {
        Pattern::new(&format!("(?i){text}"))
    } else {
        Pattern::new(text)
    };
    pattern.map_err(|error| format!("`{text}` is not a regular expression: {error}"))
}

impl Check for Matches {
    fn needs(&self) -> &[Need] {
        self.expected.needs()
    }

    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let expected = self.expected.texts(answer)?;
        let from_case: Vec<Pattern>;
        let patterns = match &self.expected {
            Expected::Values(_) => &self.patterns,
            Expected::GroundTruth => {
                let compiled = expected
                    .iter()
                    .map(|text| compile(text, self.ignore_case))
                    .collect::<Result<_, _>>();
                from_case = compiled.map_err(|problem| MetricError::UnusableReference {
                    metric: answer.metric.to_string(),
                    problem,
                })?;
                &from_case
            }
        };
        let text = answer.text()?;
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (pattern, &written) in patterns.iter().zip(&expected) {
            let matches = pattern.is_match(&text).map_err(|error| MetricError::Regex {
                pattern: written.to_owned(),
                problem: error.to_string(),
            })?;
            let list = if matches { &mut found } else { &mut missing };
            list.push(written);
        }
        if missing.is_empty() || self.which == Which::Any && !found.is_empty() {
            return Ok(Finding::met(format!(
                "the answer matches {}",
                shown_patterns(&found)
            )));
        }
        Ok(Finding::missed(format!(
            "the answer does not match {}: {}",
            shown_patterns(&missing),
            shown_text(&text)
        )))
    }
}

fn shown_patterns(patterns: &[&str]) -> String {
    patterns
        .iter()
        .map(|pattern| format!("`{pattern}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn each(texts: &[&str]) -> String {
    texts
        .iter()
        .map(|text| shown_text(text))
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn one_of(texts: &[&str]) -> String {
    match texts {
        [only] => shown_text(only),
        several => format!("one of {}", each(several)),
    }
}
