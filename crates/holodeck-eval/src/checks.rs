//! The deterministic checks on an answer, each with its own verdict, which can be negated.
//!
//! A check that does not apply to an answer fails, also when it is negated.

mod distance;
mod ending;
mod found_json;
mod json;
mod limits;
mod numeric;
mod refusal;
mod text;
mod words;

use std::borrow::Cow;

use holodeck_model::{OneOrMany, StandardMetric, StandardMetricName as Name};

use crate::nlp::Normalization;
use crate::response_path::ResponsePath;
use crate::{EvalInput, Metric, MetricError, Score};

/// The result of a check on an answer.
struct Finding {
    /// Whether the answer meets the check, before `negate`.
    met: bool,
    /// How closely it meets the check, 0 to 1.
    score: f64,
    /// The finding in words; reported if the check fails.
    fact: String,
    /// False if the check cannot apply to the answer, so that its negation is not met either.
    applies: bool,
}

impl Finding {
    fn met(fact: impl Into<String>) -> Self {
        Self {
            met: true,
            score: 1.0,
            fact: fact.into(),
            applies: true,
        }
    }

    fn missed(fact: impl Into<String>) -> Self {
        Self {
            met: false,
            score: 0.0,
            fact: fact.into(),
            applies: true,
        }
    }

    fn not_applicable(fact: String) -> Self {
        Self {
            met: false,
            score: 0.0,
            fact,
            applies: false,
        }
    }
}

/// One kind of check, with its options.
trait Check: Send + Sync {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError>;
}

/// The answer, or the part of it that `response_path` selects.
struct Answer<'a> {
    input: &'a EvalInput<'a>,
    path: Option<&'a ResponsePath>,
    metric: Name,
}

impl<'a> Answer<'a> {
    fn text(&self) -> Result<Cow<'a, str>, MetricError> {
        match self.path {
            Some(path) => path.text(self.input),
            None => Ok(Cow::Borrowed(self.input.response)),
        }
    }
}

/// The texts to compare with: `value`, or the expected answer of the case.
enum Expected {
    Values(Vec<String>),
    GroundTruth,
}

impl Expected {
    fn new(value: Option<&OneOrMany>) -> Self {
        match value {
            None => Self::GroundTruth,
            Some(OneOrMany::One(text)) => Self::Values(vec![text.clone()]),
            Some(OneOrMany::Many(texts)) => Self::Values(texts.clone()),
        }
    }

    fn texts<'a>(&'a self, answer: &Answer<'a>) -> Result<Vec<&'a str>, MetricError> {
        match self {
            Self::Values(texts) => Ok(texts.iter().map(String::as_str).collect()),
            Self::GroundTruth => match answer.input.ground_truth {
                Some(text) => Ok(vec![text]),
                None => Err(MetricError::MissingReference {
                    metric: answer.metric.to_string(),
                }),
            },
        }
    }
}

/// A check of a configuration as a metric.
pub(crate) struct StandardCheck {
    name: Name,
    check: Box<dyn Check>,
    negate: bool,
    path: Option<ResponsePath>,
}

impl StandardCheck {
    pub(crate) fn new(config: &StandardMetric) -> Result<Self, String> {
        let expected = Expected::new(config.value.as_ref());
        if matches!(&expected, Expected::Values(texts) if texts.is_empty()) {
            return Err("`value` is an empty list, which every answer would meet".to_owned());
        }
        let options = Normalization {
            ignore_case: config.case_insensitive,
            strip_whitespace: config.strip_whitespace,
            strip_punctuation: config.strip_punctuation,
        };
        // A negated list means none of its texts: a leaked text must not pass because another one is missing.
        let mode = if config.negate {
            text::MatchMode::Any
        } else {
            text::MatchMode::All
        };
        let check: Box<dyn Check> = match config.metric {
            Name::Equality => Box::new(text::Equality::new(expected, options, text::CaseRule::Fold)),
            Name::ExactMatch => Box::new(text::Equality::new(expected, options, text::CaseRule::Lower)),
            Name::Contains => Box::new(text::Contains::new(expected, options, mode)?),
            Name::ContainsAll => Box::new(text::Contains::new(expected, options, text::MatchMode::All)?),
            Name::ContainsAny => Box::new(text::Contains::new(expected, options, text::MatchMode::Any)?),
            Name::Icontains => {
                let options = Normalization {
                    ignore_case: true,
                    ..options
                };
                Box::new(text::Contains::new(expected, options, mode)?)
            }
            Name::StartsWith => Box::new(text::Contains::new(expected, options, text::MatchMode::Start)?),
            Name::Regex => Box::new(text::Matches::new(expected, config.case_insensitive, mode)?),
            Name::Numeric => Box::new(numeric::Numeric::new(expected, config)?),
            Name::JsonValid => Box::new(json::JsonValid),
            Name::JsonSchema => Box::new(json::JsonSchema::new(config)?),
            Name::Levenshtein => Box::new(distance::Levenshtein::new(expected, options, config)?),
            Name::Latency => Box::new(limits::Latency::new(config)?),
            Name::Cost => Box::new(limits::Cost::new(config)?),
            Name::ContainsJson => Box::new(found_json::ContainsJson::new(config)?),
            Name::IsRefusal => Box::new(refusal::IsRefusal),
            Name::WordCount => Box::new(words::WordCount::new(config)?),
            Name::FinishReason => Box::new(ending::FinishReason::new(config)?),
            other => return Err(format!("`{other}` is not a deterministic check")),
        };
        let path = config
            .response_path
            .as_deref()
            .map(ResponsePath::new)
            .transpose()?;
        Ok(Self {
            name: config.metric,
            check,
            negate: config.negate,
            path,
        })
    }
}

impl Metric for StandardCheck {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn score(&self, input: &EvalInput<'_>) -> Result<Score, MetricError> {
        let answer = Answer {
            input,
            path: self.path.as_ref(),
            metric: self.name,
        };
        let Finding {
            met,
            score,
            fact,
            applies,
        } = self.check.find(&answer)?;
        let passed = applies && met != self.negate;
        let value = match (applies, self.negate) {
            (false, _) => 0.0,
            (true, false) => score,
            (true, true) => 1.0 - score,
        };
        let reason = (!passed).then(|| {
            if self.negate && applies {
                format!("{fact}, which is not allowed")
            } else {
                fact
            }
        });
        Ok(Score {
            passed: Some(passed),
            reason,
            ..Score::graded(value)
        })
    }
}
