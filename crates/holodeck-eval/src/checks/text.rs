//! Checks of the answer's text: equality, the contains family, regular expressions.

use holodeck_model::Pattern;

use super::{Answer, Check, Expected, Finding};
use crate::MetricError;
use crate::json_text::quote;
use crate::nlp::{self, Normalization};

/// How case is ignored: by folding as in the equality of 0.7.1, or by lower-casing as in the reference's exact match.
#[derive(Clone, Copy)]
pub(super) enum CaseRule {
    Fold,
    Lower,
}

/// The answer equals the expected text, or one of the expected texts.
pub(super) struct Equality {
    expected: Expected,
    options: Normalization,
    case: CaseRule,
}

impl Equality {
    pub(super) fn new(expected: Expected, options: Normalization, case: CaseRule) -> Self {
        Self {
            expected,
            options,
            case,
        }
    }
}

impl Check for Equality {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let expected = self.expected.texts(answer)?;
        let text = answer.text()?;
        let equal = match self.case {
            CaseRule::Fold => nlp::equality,
            CaseRule::Lower => nlp::exact_match,
        };
        if expected
            .iter()
            .any(|expected| equal(&text, expected, self.options))
        {
            return Ok(Finding::met(format!("the answer is {}", quote(&text))));
        }
        Ok(Finding::missed(format!(
            "expected {}, got {}",
            list_alternatives(&expected),
            quote(&text)
        )))
    }
}

/// How the answer must match several texts.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum MatchMode {
    All,
    Any,
    /// One of them, at the start.
    Start,
}

/// The answer contains the expected texts.
pub(super) struct Contains {
    expected: Expected,
    options: Normalization,
    mode: MatchMode,
}

impl Contains {
    pub(super) fn new(expected: Expected, options: Normalization, mode: MatchMode) -> Result<Self, String> {
        if let Expected::Values(texts) = &expected
            && let Some(empty) = texts.iter().find(|text| options.fold_text(text).is_empty())
        {
            return Err(format!(
                "`value` {} is empty, which every answer contains",
                quote(empty)
            ));
        }
        Ok(Self {
            expected,
            options,
            mode,
        })
    }
}

impl Check for Contains {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let expected = self.expected.texts(answer)?;
        let text = self.options.fold_text(&answer.text()?);
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for &expected in &expected {
            let part = self.options.fold_text(expected);
            if part.is_empty() {
                let problem = format!("{} is empty, which every answer contains", quote(expected));
                return Err(MetricError::UnusableReference {
                    metric: answer.metric.to_string(),
                    problem,
                });
            }
            let is_found = match self.mode {
                MatchMode::Start => text.starts_with(&part),
                MatchMode::All | MatchMode::Any => text.contains(&part),
            };
            let list = if is_found { &mut found } else { &mut missing };
            list.push(expected);
        }
        Ok(match self.mode {
            MatchMode::All if missing.is_empty() => {
                Finding::met(format!("the answer contains {}", join_quoted(&found)))
            }
            MatchMode::All => {
                Finding::missed(format!("the answer does not contain {}", join_quoted(&missing)))
            }
            MatchMode::Any if found.is_empty() => {
                Finding::missed(format!("the answer contains none of {}", join_quoted(&missing)))
            }
            MatchMode::Any => Finding::met(format!("the answer contains {}", join_quoted(&found))),
            MatchMode::Start if found.is_empty() => Finding::missed(format!(
                "the answer does not start with {}",
                list_alternatives(&missing)
            )),
            MatchMode::Start => Finding::met(format!("the answer starts with {}", join_quoted(&found))),
        })
    }
}

/// The answer matches the expected regular expressions somewhere.
pub(super) struct Matches {
    patterns: Vec<Pattern>,
    expected: Expected,
    ignore_case: bool,
    mode: MatchMode,
}

impl Matches {
    pub(super) fn new(expected: Expected, ignore_case: bool, mode: MatchMode) -> Result<Self, String> {
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
            mode,
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
        for (pattern, &expression) in patterns.iter().zip(&expected) {
            let matches = pattern.is_match(&text).map_err(|error| MetricError::Regex {
                pattern: expression.to_owned(),
                problem: error.to_string(),
            })?;
            let list = if matches { &mut found } else { &mut missing };
            list.push(expression);
        }
        if missing.is_empty() || self.mode == MatchMode::Any && !found.is_empty() {
            return Ok(Finding::met(format!(
                "the answer matches {}",
                quote_patterns(&found)
            )));
        }
        Ok(Finding::missed(format!(
            "the answer does not match {}: {}",
            quote_patterns(&missing),
            quote(&text)
        )))
    }
}

fn quote_patterns(patterns: &[&str]) -> String {
    patterns
        .iter()
        .map(|pattern| format!("`{pattern}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn join_quoted(texts: &[&str]) -> String {
    texts
        .iter()
        .map(|text| quote(text))
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn list_alternatives(texts: &[&str]) -> String {
    match texts {
        [only] => quote(only),
        several => format!("one of {}", join_quoted(several)),
    }
}
