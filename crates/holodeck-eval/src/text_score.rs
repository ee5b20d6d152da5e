//! Adapts the text metrics to the metrics of a configuration.

use std::borrow::Cow;

use holodeck_model::{self as model, StandardMetric, StandardMetricName};

use crate::nlp::{self, RougeVariant, Stemming, Tokenizer, WordOrder};
use crate::response_path::ResponsePath;
use crate::{EvalInput, Metric, MetricError, Score};

/// Scores how close the answer is to the expected one; it gates only with a threshold.
pub(crate) struct TextScore {
    name: StandardMetricName,
    compute: fn(&Self, &str, &str) -> f64,
    tokenizer: Tokenizer,
    variant: RougeVariant,
    path: Option<ResponsePath>,
}

impl TextScore {
    pub(crate) fn new(config: &StandardMetric) -> Result<Self, String> {
        let compute: fn(&Self, &str, &str) -> f64 = match config.metric {
            StandardMetricName::Bleu => |this, p, r| nlp::bleu(p, r, this.tokenizer).score,
            StandardMetricName::Rouge => {
                |this, p, r| nlp::rouge(p, r, this.variant, this.tokenizer, Stemming::Off).f1
            }
            StandardMetricName::Meteor => |this, p, r| nlp::meteor(p, r, this.tokenizer).score,
            StandardMetricName::F1 => |this, p, r| nlp::squad_f1(p, r, this.tokenizer),
            StandardMetricName::Chrf => {
                |this, p, r| nlp::chrf(&this.compose(p), &this.compose(r), WordOrder::None)
            }
            other => return Err(format!("`{other}` is not a text metric")),
        };
        let variant = match config.variant.unwrap_or_default() {
            model::RougeVariant::Rouge1 => RougeVariant::Rouge1,
            model::RougeVariant::Rouge2 => RougeVariant::Rouge2,
            model::RougeVariant::RougeL => RougeVariant::RougeL,
            model::RougeVariant::RougeLsum => RougeVariant::RougeLsum,
        };
        let tokenizer = if config.unicode {
            Tokenizer::Unicode
        } else {
            Tokenizer::Reference
        };
        let path = config
            .response_path
            .as_deref()
            .map(ResponsePath::new)
            .transpose()?;
        Ok(Self {
            name: config.metric,
            compute,
            tokenizer,
            variant,
            path,
        })
    }

    /// chrF has no words, so `unicode` only composes accents.
    fn compose<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.tokenizer {
            Tokenizer::Reference => Cow::Borrowed(text),
            Tokenizer::Unicode => nlp::compose(text),
        }
    }
}

impl Metric for TextScore {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn score(&self, input: &EvalInput<'_>) -> Result<Score, MetricError> {
        let reference = input.ground_truth.ok_or_else(|| MetricError::MissingReference {
            metric: self.name.to_string(),
        })?;
        let response = match &self.path {
            Some(path) => path.text(input)?,
            None => Cow::Borrowed(input.response),
        };
        Ok(Score::graded((self.compute)(self, &response, reference)))
    }
}
