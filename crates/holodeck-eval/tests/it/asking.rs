//! Metrics that call a judge.

use async_trait::async_trait;
use futures::FutureExt as _;
use holodeck_eval::model::Redactor;
use holodeck_eval::{
    Asked, AskingMetric, EvalInput, Grader, InputText, Judge, JudgeAnswer, JudgeError, JudgeRequest,
    MaskedInput, MetricError, MetricKind, MetricOutcome, NoPrograms, Score, Verdict, VerdictFormat,
};
use serde_json::json;

use crate::grader::{answer, config};

/// Answers with the reversed prompt and fails on an empty one.
struct Mirror;

#[async_trait]
impl Judge for Mirror {
    async fn ask(&self, request: JudgeRequest<'_>) -> Result<JudgeAnswer, JudgeError> {
        match request.prompt.as_str() {
            "" => Err(JudgeError::retryable("the endpoint returned nothing")),
            prompt => Ok(JudgeAnswer {
                value: json!(prompt.chars().rev().collect::<String>()),
                ..JudgeAnswer::default()
            }),
        }
    }
}

/// All outcomes. The metrics of these tests never wait.
pub(crate) fn outcomes(grader: &Grader, input: &EvalInput<'_>) -> Vec<MetricOutcome> {
    let computed = grader.compute(input);
    let asked = Asked {
        judge: &Mirror,
        programs: &NoPrograms,
    };
    let masked = MaskedInput::new(*input, &Redactor::default(), Vec::new());
    let asking = grader.ask(&masked, computed, &[], &asked, true);
    asking.now_or_never().unwrap()
}

/// Sends the answer to the judge and scores the length of the reply.
struct Length;

#[async_trait]
impl AskingMetric for Length {
    fn name(&self) -> &'static str {
        "length"
    }

    fn reads(&self, _: &EvalInput<'_>) -> Vec<InputText> {
        vec![InputText::Answer]
    }

    async fn score(&self, input: &EvalInput<'_>, asked: &Asked<'_>) -> Result<Score, MetricError> {
        let request = JudgeRequest {
            model: None,
            label: "length".to_owned(),
            prompt: input.response.to_owned(),
            format: VerdictFormat::Items,
            shared: false,
            odds: false,
            timeout: None,
        };
        let answer = asked.judge.ask(request).await;
        let answer = answer.map_err(|error| MetricError::NotJudged {
            name: self.name().to_owned(),
            asked: None,
            reason: error.reason,
            kind: error.kind,
            missing_votes: Vec::new(),
        })?;
        let length = u8::try_from(answer.value.as_str().unwrap().len()).unwrap();
        Ok(Score::graded(f64::from(length) / 10.0))
    }
}

#[test]
fn an_asking_metric_keeps_its_place_and_follows_the_same_rules() {
    let grader = Grader::new(&[config(json!({"metric": "equality"}))])
        .unwrap()
        .with_asking(Box::new(Length), MetricKind::Geval, Some(0.5));
    assert!(grader.asks());
    for (response, verdict, error) in [
        ("sixsix", Verdict::Passed, None),
        ("no", Verdict::Failed, None),
        (
            "",
            Verdict::Error,
            Some("`length` has no verdict: the endpoint returned nothing"),
        ),
        (
            "more than ten",
            Verdict::Error,
            Some("`length` gave no valid score: 1.3 is not between 0 and 1"),
        ),
    ] {
        let input = answer(response, response);
        assert_eq!(
            grader
                .compute(&input)
                .iter()
                .filter(|outcome| outcome.is_none())
                .count(),
            1
        );
        let outcomes = outcomes(&grader, &input);
        assert_eq!(
            (outcomes[0].name.as_str(), outcomes[0].verdict),
            ("equality", Verdict::Passed)
        );
        assert_eq!(
            (outcomes[1].name.as_str(), outcomes[1].verdict),
            ("length", verdict)
        );
        let found = outcomes[1].error.as_ref().map(ToString::to_string);
        assert_eq!(found.as_deref(), error);
    }
}
