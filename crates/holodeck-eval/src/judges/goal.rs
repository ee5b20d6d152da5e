//! Whether the user's goal was reached in a conversation.

use std::fmt::Write as _;

use async_trait::async_trait;
use holodeck_model::GoalSuccessMetric;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    JudgedMetric,
    material::Material,
    questions::{Question, Questions, reason_text},
    transcript::{EXPLANATION, Transcript},
};
use crate::{EvalInput, InputText, MetricError, Score, VerdictFormat};

/// The highest score, except in strict mode.
const TOP: u32 = 10;

/// The length of a quote in the reason; `details` has the whole quote.
const QUOTE_CHARS: usize = 120;

/// A judge of whether the user's goal was reached.
pub(super) struct GoalSuccess {
    name: String,
    goal: Option<String>,
    strict: bool,
    include_reason: bool,
}

impl GoalSuccess {
    pub(super) fn new(config: &GoalSuccessMetric) -> Self {
        Self {
            name: config.name.clone(),
            goal: config.goal.clone(),
            strict: config.strict_mode,
            include_reason: config.include_reason.unwrap_or(true),
        }
    }

    fn top(&self) -> u32 {
        if self.strict { 1 } else { TOP }
    }

    fn build_prompt(&self, transcript: &Transcript<'_>, goal: &str) -> String {
        let scale = if self.strict {
            "1 if the goal was reached entirely, otherwise 0"
        } else {
            "a whole number from 0 to 10: 10 if the goal was reached entirely; 7 to 9 if it was reached with detours or \
             small gaps that this user would accept; 4 to 6 if it was reached in part; 1 to 3 if hardly anything was \
             reached; 0 if nothing was"
        };
        let material = transcript.add_to(Material::default().with("goal", goal));
        format!(
            "Judge whether the goal of the user was reached in the conversation below, between a user and an AI assistant, \
             the agent. The goal stands between the `goal` tags. The conversation has {} turns. {EXPLANATION}\n\n\
             Answer with `evidence`: for every turn that contributed to the goal or hindered it, `turn` is its number, \
             `effect` is `contributed` or `hindered`, and `quote` is a passage of that turn, copied word by word; and \
             with {}`score`, {scale}. A score above 0 needs at least one turn that contributed.\n\n{}",
            transcript.len(),
            reason_text(self.include_reason),
            material.render()
        )
    }

    fn check(&self, answer: GoalAnswer, transcript: &Transcript<'_>) -> Result<GoalAnswer, String> {
        let top = self.top();
        if answer.score.fract() != 0.0 || !(0.0..=f64::from(top)).contains(&answer.score) {
            return Err(format!(
                "the score {} is not a whole number from 0 to {top}",
                answer.score
            ));
        }
        let turns = transcript.len();
        let mut evidence = answer.evidence.iter();
        if let Some(wrong) = evidence.find(|item| !(1..=turns).contains(&item.turn)) {
            return Err(format!(
                "the evidence names turn {}, and the turns are numbered from 1 to {turns}",
                wrong.turn
            ));
        }
        let contributes = |item: &Evidence| {
            item.effect == Effect::Contributed && transcript.has_quote(item.turn, &item.quote)
        };
        if answer.score > 0.0 && !answer.evidence.iter().any(contributes) {
            return Err(
                "the score is above 0, and no turn that contributed is quoted word by word in `evidence`"
                    .to_owned(),
            );
        }
        Ok(answer)
    }
}

#[derive(Deserialize)]
struct GoalAnswer {
    evidence: Vec<Evidence>,
    /// Absent if none was asked for.
    #[serde(default)]
    reason: String,
    score: f64,
}

/// The contribution of one turn to the goal.
#[derive(Deserialize)]
struct Evidence {
    turn: usize,
    effect: Effect,
    quote: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    Contributed,
    Hindered,
}

impl Effect {
    fn as_str(self) -> &'static str {
        match self {
            Self::Contributed => "contributed",
            Self::Hindered => "hindered",
        }
    }
}

#[async_trait]
impl JudgedMetric for GoalSuccess {
    fn reads(&self, _: &EvalInput<'_>) -> Vec<InputText> {
        let goal = self.goal.is_none().then_some(InputText::Goal);
        InputText::TRANSCRIPT.into_iter().chain(goal).collect()
    }

    async fn judge(&self, input: &EvalInput<'_>, questions: &Questions<'_>) -> Result<Score, MetricError> {
        let turns = input
            .conversation
            .filter(|turns| !turns.is_empty())
            .ok_or_else(|| MetricError::NoConversation {
                metric: self.name.clone(),
            })?;
        let goal = self.goal.as_deref().or(input.goal);
        let goal = goal.ok_or_else(|| MetricError::MissingGoal {
            metric: self.name.clone(),
        })?;
        let transcript = Transcript::new(turns);
        let question = Question {
            step: "score",
            prompt: self.build_prompt(&transcript, goal),
            format: VerdictFormat::Goal { max: self.top() }.with_reason(self.include_reason),
            shared: false,
            odds: false,
        };
        let answer = questions
            .ask_for(question, |answer| self.check(answer, &transcript))
            .await?;
        let mut reason = answer.reason;
        let mut evidence: Vec<Value> = Vec::new();
        for item in &answer.evidence {
            let found = transcript.has_quote(item.turn, &item.quote);
            if found {
                let quote = shorten(&item.quote);
                // Writing to a string cannot fail.
                let _ = write!(reason, "; turn {} {}: “{quote}”", item.turn, item.effect.as_str());
            }
            // A quote that is not in its turn is kept, and marked.
            evidence.push(json!({
                "turn": item.turn, "effect": item.effect.as_str(), "quote": item.quote, "found": found,
            }));
        }
        Ok(Score {
            reason: self.include_reason.then_some(reason),
            evidence: Some(json!({"goal": goal, "raw": answer.score, "evidence": evidence})),
            ..Score::graded(answer.score / f64::from(self.top()))
        })
    }
}

fn shorten(quote: &str) -> String {
    let words: Vec<&str> = quote.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(QUOTE_CHARS) {
        None => line,
        Some((end, _)) => format!("{}…", line.split_at(end).0),
    }
}
