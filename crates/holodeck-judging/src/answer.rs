//! An answer as metrics read it: the record of its turn, with what it is compared with.
//!
//! The texts are those of the record; [`TurnGrader`](crate::TurnGrader) masks them before it shows them to a judge.

use std::{borrow::Cow, time::Duration};

use holodeck_eval::{CalledTool, ConversationTurn, EvalInput, InputText, MaskedText};
use holodeck_model::{Evidence, JsonMap};
use holodeck_turn::TurnRecord;

/// Stands on a line of its own between the answers that a check searches. It is neither a space nor ASCII punctuation,
/// so that no option joins the ends of two answers.
const BETWEEN_ANSWERS: &str = "\n␞\n";

/// An answer to grade, or the answers of a conversation as one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Answer<'a> {
    /// The turn; of a conversation, one that said everything.
    pub turn: Cow<'a, TurnRecord>,
    /// The question.
    pub question: &'a str,
    /// The place of the turn in the conversation, from 0.
    pub turn_index: usize,
    /// The name of the test case.
    pub case_name: Option<&'a str>,
    /// The expected answer.
    pub ground_truth: Option<&'a str>,
    /// The passages of the case.
    pub context: Option<&'a [String]>,
    /// The values that the turn passes to code graders.
    pub turn_config: Option<&'a JsonMap>,
    /// The `vars` of the case.
    pub vars: Option<&'a JsonMap>,
    /// The goal of the user of a conversation.
    pub goal: Option<&'a str>,
    /// The passages that the tools of the turn retrieved, else those of earlier turns.
    retrieved: Option<Vec<String>>,
    /// Whether these were masked.
    retrieved_masked: bool,
    /// The turns of a conversation.
    turns: Option<Vec<Self>>,
}

/// The passages that an agent which is not ours reports, else those that tools retrieved, in the order of the tool results, each ordered by rank.
fn retrieved_passages(turn: &TurnRecord) -> Option<Vec<String>> {
    if let Some(reported) = &turn.result.passages {
        return Some(reported.clone());
    }
    let succeeded = turn.result.tool_results.iter().filter(|result| !result.is_error);
    let passages = succeeded.flat_map(|result| &result.details.passages);
    let texts: Vec<String> = passages.map(|passage| passage.text.clone()).collect();
    (!texts.is_empty()).then_some(texts)
}

/// The answers of a conversation as one text.
fn join_answers<'a>(answers: impl Iterator<Item = &'a str>) -> String {
    let answers: Vec<&str> = answers.collect();
    answers.join(BETWEEN_ANSWERS)
}

/// The turns as one that said everything.
fn join(turns: &[Answer<'_>]) -> TurnRecord {
    let turns = || turns.iter().map(|answer| &*answer.turn);
    let mut whole = TurnRecord::default();
    whole.result.response = join_answers(turns().map(|turn| turn.result.response.as_str()));
    let truncation = turns().find_map(TurnRecord::truncation);
    whole.truncated = truncation.is_some();
    whole.result.truncated_by = truncation.cloned();
    // A sum with a missing part would be too low.
    whole.latency_ms = turns().map(|turn| turn.latency_ms).sum();
    whole.cost_usd = turns().map(|turn| turn.cost_usd).sum();
    for turn in turns() {
        whole.redacted.add(turn.redacted.clone());
    }
    whole
}

impl<'a> Answer<'a> {
    /// The answer of a turn.
    pub fn of_turn(turn: &'a TurnRecord) -> Self {
        Self {
            turn: Cow::Borrowed(turn),
            question: &turn.input,
            retrieved: retrieved_passages(turn),
            retrieved_masked: turn.redacted.hides_passages(&turn.result),
            ..Self::default()
        }
    }

    /// The answers of the turns of a conversation. One without passages has those of the turns before.
    pub fn of_turns(turns: &'a [TurnRecord]) -> Vec<Self> {
        let mut earlier = Vec::new();
        let mut earlier_masked = false;
        let answers = turns.iter().enumerate().map(|(turn_index, turn)| {
            let mut answer = Self::of_turn(turn);
            answer.turn_index = turn_index;
            earlier.extend(answer.retrieved.iter().flatten().cloned());
            earlier_masked |= answer.retrieved_masked;
            // What a target did not report is not known from what it reported before.
            if answer.retrieved.is_none() && !turn.result.lacks(Evidence::RetrievalContext) {
                answer.retrieved = (!earlier.is_empty()).then(|| earlier.clone());
                answer.retrieved_masked = earlier_masked;
            }
            answer
        });
        answers.collect()
    }

    /// The answers of a conversation as one.
    pub fn of_conversation(turns: Vec<Self>) -> Self {
        let mut retrieved = Vec::new();
        for answer in &turns {
            retrieved.extend(retrieved_passages(&answer.turn).into_iter().flatten());
        }
        let is_masked = |answer: &Self| answer.turn.redacted.hides_passages(&answer.turn.result);
        Self {
            turn: Cow::Owned(join(&turns)),
            turn_index: turns.len().saturating_sub(1),
            retrieved: (!retrieved.is_empty()).then_some(retrieved),
            retrieved_masked: turns.iter().any(is_masked),
            turns: Some(turns),
            ..Self::default()
        }
    }

    /// The passages that metrics use: those of the case, else those that tools retrieved.
    pub fn passages(&self) -> Option<&[String]> {
        self.context.or(self.retrieved.as_deref())
    }

    /// The tool calls of the turn, or of all turns.
    pub fn calls(&self) -> Vec<CalledTool<'_>> {
        if let Some(turns) = &self.turns {
            return turns.iter().flat_map(Self::calls).collect();
        }
        let calls = self.turn.result.calls();
        calls
            .map(|(call, result)| CalledTool::with_result(call, result))
            .collect()
    }

    /// The turns of a conversation.
    pub(crate) fn conversation(&self) -> Option<Vec<ConversationTurn<'_>>> {
        let turns = self.turns.as_ref()?.iter().map(|answer| ConversationTurn {
            input: answer.question,
            answer: &answer.turn.result.response,
            tool_calls: answer.calls(),
            retrieval_context: answer.passages().map(<[String]>::to_vec),
        });
        Some(turns.collect())
    }

    /// The input of metrics.
    pub(crate) fn input<'b>(
        &'b self,
        calls: &'b [CalledTool<'b>],
        conversation: Option<&'b [ConversationTurn<'b>]>,
    ) -> EvalInput<'b> {
        let turn = &*self.turn;
        EvalInput {
            input: self.question,
            response: &turn.result.response,
            structured_output: turn.result.structured_output.as_ref(),
            ground_truth: self.ground_truth,
            retrieval_context: self.passages(),
            context: self.context,
            retrieved: self.retrieved.as_deref(),
            tool_calls: calls,
            latency: turn.latency_ms.map(Duration::from_millis),
            cost_usd: turn.cost_usd,
            turn_index: self.turn_index,
            test_case_name: self.case_name,
            turn_config: self.turn_config,
            vars: self.vars,
            finish_reason: turn.result.finish_reason.as_ref(),
            conversation,
            goal: self.goal,
        }
    }

    /// The texts that were masked when the record was stored.
    pub(crate) fn masked(&self) -> Vec<MaskedText> {
        let of = |answer: &Self, number, passages: &[InputText]| {
            let turn = &answer.turn;
            let mut masked = MaskedText::of_stored(&turn.result, &turn.redacted, number);
            if answer.retrieved_masked {
                masked.extend(passages.iter().map(|text| MaskedText::new(*text, number)));
            }
            masked
        };
        match &self.turns {
            None => of(self, None, &[InputText::Retrieved]),
            Some(turns) => {
                let passages = [InputText::TurnPassages, InputText::Retrieved];
                let turns = turns.iter().enumerate();
                turns
                    .flat_map(|(place, answer)| of(answer, Some(place + 1), &passages))
                    .collect()
            }
        }
    }
}
