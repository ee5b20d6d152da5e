//! Metrics of a whole conversation.

use holodeck_eval::{
    Asked, ConversationTurn, EvalInput, Grader, InputText, MaskedInput, MaskedText, MetricOutcome,
};
use holodeck_model::{
    CaseState, ExecutionState, Failure, FailureKind, MetricConfig, MetricResult, OnTruncated, Redactor,
    TestCase,
};
use holodeck_turn::TurnRecord;

use super::{AnswerView, Computed, Graders, Known, Outcomes, Subject, state};
use holodeck_runs::{Expectations, TurnGrade, UnitRecord, worse_state};

/// Stands on a line of its own between the answers that a check searches. It is neither a space nor ASCII punctuation,
/// so that no option joins the ends of two answers.
const BETWEEN_ANSWERS: &str = "\n␞\n";

/// Why a conversation cannot be measured; `None` if every turn has an answer.
fn missing_part(unit: &UnitRecord, case: &TestCase) -> Option<String> {
    let unanswered = |turn: &TurnRecord| turn.state != ExecutionState::Completed;
    if let Some(place) = unit.turns.iter().position(unanswered) {
        return Some(format!("turn {} has no answer", place + 1));
    }
    let expected = match case.user {
        Some(_) => 1,
        None => case.turns.len().max(1),
    };
    if unit.turns.len() < expected {
        return Some(format!("turn {} did not run", unit.turns.len() + 1));
    }
    if let Some(failure) = unit.failures.first() {
        return Some(failure.text.clone());
    }
    let ended = unit.user.as_ref().is_some_and(|user| user.ended.is_some());
    (case.user.is_some() && !ended).then(|| "it did not end".to_owned())
}

/// The answers of a conversation as one text.
pub(crate) fn join_answers<'a>(answers: impl Iterator<Item = &'a str>) -> String {
    let answers: Vec<&str> = answers.collect();
    answers.join(BETWEEN_ANSWERS)
}

/// The conversation as one turn that said everything.
fn joined(unit: &UnitRecord, is_complete: bool) -> TurnRecord {
    let mut whole = TurnRecord {
        state: if is_complete {
            ExecutionState::Completed
        } else {
            ExecutionState::Error
        },
        ..TurnRecord::default()
    };
    let answers = unit.turns.iter().map(|turn| turn.result.response.as_str());
    whole.result.response = join_answers(answers);
    let truncation = unit.turns.iter().find_map(TurnRecord::truncation);
    whole.truncated = truncation.is_some();
    whole.result.truncated_by = truncation.cloned();
    // A sum with a missing part would be too low.
    whole.latency_ms = unit.turns.iter().map(|turn| turn.latency_ms).sum();
    whole.cost_usd = unit.turns.iter().map(|turn| turn.cost_usd).sum();
    for turn in &unit.turns {
        whole.redacted.add(turn.redacted.clone());
    }
    whole
}

impl Graders {
    /// The conversation as what its metrics measure.
    fn conversation<'a>(
        &'a self,
        unit: &UnitRecord,
        case: &'a TestCase,
        turn: &'a TurnRecord,
        view: &'a AnswerView,
    ) -> Subject<'a> {
        let mut retrieved = Vec::new();
        for turn in &unit.turns {
            retrieved.extend(super::retrieved_passages(turn).into_iter().flatten());
        }
        let retrieved = (!retrieved.is_empty()).then_some(retrieved);
        let context = case.retrieval_context.clone();
        Subject {
            route: None,
            turn,
            turn_index: unit.turns.len().saturating_sub(1),
            case_name: case.name.as_deref(),
            expected: whole_expectations(case),
            retrieval_context: context.or_else(|| retrieved.clone()),
            retrieved,
            retrieved_masked: unit
                .turns
                .iter()
                .any(|turn| turn.redacted.hides_passages(&turn.result)),
            names: &self.names,
            checks: &self.checks,
            goal: case.goal(),
            is_conversation: true,
            recorded: match view {
                AnswerView::Stored(Some(grade)) => grade.conversation.as_deref(),
                AnswerView::Stored(None) | AnswerView::BeforeMasking => None,
            },
            before_masking: matches!(view, AnswerView::BeforeMasking),
        }
    }

    /// Computes the metrics of the conversation that need no judge; `None` without metrics.
    pub(super) fn compute_conversation(&self, unit: &UnitRecord, case: &TestCase) -> Computed {
        case.conversation_metrics().next()?;
        let grader = match self.conversation_grader(case) {
            Ok(grader) => grader,
            Err(failure) => return Some(Err(failure)),
        };
        if let Some(problem) = missing_part(unit, case) {
            return Some(Ok(grader.incomplete(&problem).into_iter().map(Some).collect()));
        }
        let whole = joined(unit, true);
        let subject = self.conversation(unit, case, &whole, &AnswerView::BeforeMasking);
        Some(Ok(grader.compute(&subject.eval_input(&[]))))
    }

    /// Whether every gate that needs no judge was met in all turns, and what is expected of the conversation.
    pub(crate) fn gates_met(
        &self,
        unit: &UnitRecord,
        case: &TestCase,
        view: &AnswerView,
        computed: &[Computed],
    ) -> bool {
        let met = |(subject, computed): (Subject<'_>, &Computed)| match computed {
            Some(Ok(outcomes)) => {
                self.expectations_met(&subject) && outcomes.iter().flatten().all(MetricOutcome::is_met)
            }
            Some(Err(_)) | None => false,
        };
        let expected = self.conclude_conversation(unit, case, view);
        self.subjects(unit, case).into_iter().zip(computed).all(met)
            && expected.is_none_or(|grade| matches!(grade.state, CaseState::Passed | CaseState::Unchecked))
    }

    /// Whether the expectations of a turn about tools are met, and its answer is complete if it must be.
    pub(super) fn expectations_met(&self, subject: &Subject<'_>) -> bool {
        let is_cut = subject.turn.truncated && self.on_truncated == OnTruncated::Fail;
        subject.tool_check().check(&subject.calls()).matched != Some(false)
            && subject.approvals().matched() != Some(false)
            && !is_cut
    }

    /// Computes the other metrics of the conversation with the judge.
    pub(crate) async fn ask_conversation(
        &self,
        unit: &UnitRecord,
        case: &TestCase,
        known: Known<'_>,
        asked: &Asked<'_>,
        redactor: &Redactor,
        gates_met: bool,
    ) -> Outcomes {
        let kept = known.kept;
        let computed = match known.computed? {
            Ok(computed) => computed,
            Err(failure) => return Some(Err(failure)),
        };
        if computed.iter().all(Option::is_some) {
            return Some(Ok(computed.into_iter().flatten().collect()));
        }
        let grader = match self.conversation_grader(case) {
            Ok(grader) => grader,
            Err(failure) => return Some(Err(failure)),
        };
        let mut known = Vec::new();
        let turns: Vec<ConversationTurn<'_>> = self
            .subjects(unit, case)
            .into_iter()
            .enumerate()
            .map(|(place, subject)| {
                let number = Some(place + 1);
                let turn = subject.turn;
                known.extend(MaskedText::of_stored(&turn.result, &turn.redacted, number));
                if subject.retrieved_masked {
                    known.push(MaskedText::new(InputText::TurnPassages, number));
                    known.push(MaskedText::new(InputText::Retrieved, number));
                }
                ConversationTurn {
                    input: &turn.input,
                    answer: &turn.result.response,
                    tool_calls: turn.result.calls().map(super::called_tool).collect(),
                    retrieval_context: subject.retrieval_context,
                }
            })
            .collect();
        let calls: Vec<_> = turns
            .iter()
            .flat_map(|turn| turn.tool_calls.iter().copied())
            .collect();
        let whole = joined(unit, true);
        let subject = self.conversation(unit, case, &whole, &AnswerView::BeforeMasking);
        let input = EvalInput {
            conversation: Some(&turns),
            goal: case.goal(),
            ..subject.eval_input(&calls)
        };
        let input = MaskedInput::new(input, redactor, known);
        Some(Ok(grader.ask(&input, computed, kept, asked, gates_met).await))
    }

    fn conversation_grader(&self, case: &TestCase) -> Result<Grader, Failure> {
        let configs = &case.conversation_evaluations;
        match Grader::for_conversation(configs) {
            Ok(grader) => Ok(grader.on_masked(configs, self.on_masked)),
            Err(error) => Err(Failure::new(FailureKind::Checks, error.to_string())),
        }
    }

    /// Adds the results of the metrics of the conversation to the verdict on it.
    pub(super) fn add_conversation_metrics(
        &self,
        expected: Option<TurnGrade>,
        unit: &UnitRecord,
        case: &TestCase,
        view: &AnswerView,
        outcomes: Outcomes,
    ) -> Option<TurnGrade> {
        let Some(outcomes) = outcomes else {
            return expected;
        };
        let mut grade = expected.unwrap_or_else(|| TurnGrade::bare(CaseState::Unchecked));
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(failure) => {
                grade.failures.push(failure);
                grade.state = worse_state(grade.state, CaseState::Error);
                return Some(grade);
            }
        };
        let whole = joined(unit, missing_part(unit, case).is_none());
        let subject = self.conversation(unit, case, &whole, view);
        let configs: Vec<&MetricConfig> = case.conversation_metrics().collect();
        let metrics = outcomes.into_iter().zip(&configs);
        let metrics: Vec<MetricResult> = metrics
            .map(|(outcome, config)| {
                let result = if subject.has_answer() {
                    subject.metric(outcome, config)
                } else {
                    super::metric_result(outcome)
                };
                MetricResult {
                    conversation: true,
                    identity: subject.identity(config),
                    ..result
                }
            })
            .collect();
        grade.state = worse_state(grade.state, state(&[], false, &metrics));
        grade.metrics = metrics;
        Some(grade)
    }
}

/// The expectations that the metrics of a conversation compare with.
pub(super) fn whole_expectations(case: &TestCase) -> Expectations<'_> {
    Expectations {
        ground_truth: case.ground_truth.as_deref(),
        retrieval_context: case.retrieval_context.as_deref(),
        evaluations: &case.conversation_evaluations,
        ..Expectations::default()
    }
}
