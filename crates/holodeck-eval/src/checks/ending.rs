//! The answer ended for an expected reason.

use holodeck_model::{
    OneOrMany, StandardMetric,
    events::{StopFamily, StopReason},
};

use super::{Answer, Check, Finding};
use crate::MetricError;

/// The reason why the answer ended is one of the expected families.
pub(super) struct FinishReason {
    expected: Vec<StopFamily>,
}

impl FinishReason {
    pub(super) fn new(config: &StandardMetric) -> Result<Self, String> {
        let words = match &config.value {
            None => return Err("`value` is missing".to_owned()),
            Some(OneOrMany::One(word)) => std::slice::from_ref(word),
            Some(OneOrMany::Many(words)) => words.as_slice(),
        };
        let families = words.iter().map(|word| match family(word) {
            Some(family) => Ok(family),
            None => Err(format!(
                "`value` is `{word}`, which is not a reason why an answer ends"
            )),
        });
        Ok(Self {
            expected: families.collect::<Result<_, _>>()?,
        })
    }
}

/// The family that a word of the configuration means; none for one that says nothing about the answer.
fn family(word: &str) -> Option<StopFamily> {
    let is_reported = !StopReason::from(word.to_owned()).is_not_reported();
    Some(StopFamily::named(word)).filter(|family| *family != StopFamily::Unknown && is_reported)
}

impl Check for FinishReason {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let unknown = |problem: String| MetricError::EndUnknown { problem };
        let reason = answer
            .input
            .finish_reason
            .filter(|reason| !reason.is_not_reported());
        let reason = reason.ok_or_else(|| unknown("its reason was not reported".to_owned()))?;
        let ended = reason.family();
        if ended == StopFamily::Unknown {
            return Err(unknown(format!(
                "the meaning of the reason `{reason}` is not known"
            )));
        }
        let fact = format!("the answer ended with `{reason}` ({})", ended.as_str());
        Ok(if self.expected.contains(&ended) {
            Finding::met(fact)
        } else {
            let expected: Vec<&str> = self.expected.iter().map(|family| family.as_str()).collect();
            Finding::missed(format!("{fact}, expected {}", expected.join(" or ")))
        })
    }
}
