//! Asks the judge about one item, as a run asks it about an answer or a conversation.

use holodeck_eval::{
    Asked, CalledTool, ConversationTurn, EvalInput, Grader, MaskedInput, MetricOutcome, NoPrograms, Verdict,
    calibration::LabelledVerdict,
};
use holodeck_model::{
    CallRefusal, LabelledCall, LabelledContent, LabelledItem, LabelledTurn, Redactor, Spent,
};

use super::{JudgedLabel, JudgedSubject};
use crate::{grade::join_answers, judging::UnitJudge};

/// The item as reports and recordings may show it.
pub(super) fn masked(item: &LabelledItem, redactor: &Redactor) -> LabelledItem {
    let mut item = item.clone();
    let mask = |text: &mut String| {
        redactor.mask_text(text);
    };
    match &mut item.content {
        LabelledContent::Answer { input, response } => {
            mask(input);
            mask(response);
        }
        LabelledContent::Conversation { goal, turns } => {
            goal.iter_mut().for_each(mask);
            for turn in turns {
                mask(&mut turn.user);
                mask(&mut turn.agent);
                for call in &mut turn.tools {
                    mask(&mut call.name);
                    redactor.value(&mut call.arguments);
                    call.result.iter_mut().for_each(mask);
                }
            }
        }
    }
    item.ground_truth.iter_mut().for_each(mask);
    item.retrieval_context.iter_mut().flatten().for_each(mask);
    item
}

pub(super) async fn judge_item(
    grader: &Grader,
    subject: JudgedSubject,
    judge: UnitJudge<'_>,
    item: &LabelledItem,
    redactor: &Redactor,
) -> (JudgedLabel, Option<Spent>) {
    let outcome = match (&item.content, subject) {
        (LabelledContent::Answer { input, response }, JudgedSubject::Answers) => {
            let input = EvalInput {
                input,
                response,
                ..given(item)
            };
            Ok(ask(grader, &judge, input, redactor).await)
        }
        (LabelledContent::Conversation { goal, turns }, JudgedSubject::Conversations) => {
            let turns: Vec<ConversationTurn<'_>> = turns.iter().map(conversation_turn).collect();
            let calls: Vec<CalledTool<'_>> = turns
                .iter()
                .flat_map(|turn| turn.tool_calls.iter().copied())
                .collect();
            let response = join_answers(turns.iter().map(|turn| turn.answer));
            let input = EvalInput {
                response: &response,
                tool_calls: &calls,
                turn_index: turns.len().saturating_sub(1),
                conversation: Some(&turns),
                goal: goal.as_deref(),
                ..given(item)
            };
            Ok(ask(grader, &judge, input, redactor).await)
        }
        // A verdict on the other kind would calibrate another judge.
        _ => Err(format!("the metric measures {}", subject.as_str())),
    };
    let mut row = judged(outcome, masked(item, redactor));
    for text in row.reason.iter_mut().chain(row.verdict.as_mut().err()) {
        redactor.mask_text(text);
    }
    (row, judge.usage())
}

/// The fields of an item besides the judged content.
fn given(item: &LabelledItem) -> EvalInput<'_> {
    let passages = item.retrieval_context.as_deref();
    EvalInput {
        ground_truth: item.ground_truth.as_deref(),
        retrieval_context: passages,
        context: passages,
        test_case_name: item.case.as_deref(),
        ..EvalInput::default()
    }
}

fn conversation_turn(turn: &LabelledTurn) -> ConversationTurn<'_> {
    ConversationTurn {
        input: &turn.user,
        answer: &turn.agent,
        tool_calls: turn.tools.iter().map(called_tool).collect(),
        retrieval_context: None,
    }
}

fn called_tool(call: &LabelledCall) -> CalledTool<'_> {
    let mut called = CalledTool::new(&call.name, &call.arguments);
    called.result = call.result.as_deref();
    called.failed = call.failed || call.result.is_none();
    called.refused = call.refused.then_some(CallRefusal::Rejected);
    called
}

async fn ask(
    grader: &Grader,
    judge: &UnitJudge<'_>,
    input: EvalInput<'_>,
    redactor: &Redactor,
) -> Option<MetricOutcome> {
    let asked = Asked {
        judge,
        programs: &NoPrograms,
    };
    let computed = grader.compute(&input);
    let input = MaskedInput::new(input, redactor, Vec::new());
    grader.ask(&input, computed, &[], &asked, true).await.pop()
}

/// Only a score with a verdict counts: with `fail_on_error`, an error has the verdict of a missed gate.
fn judged(outcome: Result<Option<MetricOutcome>, String>, item: LabelledItem) -> JudgedLabel {
    let outcome = match outcome {
        Ok(Some(outcome)) => outcome,
        Ok(None) => return not_judged("the metric was not computed".to_owned(), item),
        Err(problem) => return not_judged(problem, item),
    };
    let passed = match outcome.verdict {
        Verdict::Passed => Some(true),
        Verdict::Failed => Some(false),
        Verdict::NotGated | Verdict::Error | Verdict::Skipped => None,
    };
    let verdict = match (outcome.error, outcome.score, passed) {
        (Some(error), ..) => Err(error.to_string()),
        (None, Some(score), Some(passed)) => Ok(LabelledVerdict {
            people: item.passed,
            judge: passed,
            score,
            length: item.content.answers().map(|answer| answer.chars().count()).sum(),
        }),
        (None, ..) => Err("the judge gave no verdict".to_owned()),
    };
    JudgedLabel {
        item,
        verdict,
        reason: outcome.reason,
    }
}

fn not_judged(problem: String, item: LabelledItem) -> JudgedLabel {
    JudgedLabel {
        item,
        verdict: Err(problem),
        reason: None,
    }
}
