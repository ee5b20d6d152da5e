//! Asks the judge about one item, as a run asks it about an answer or a conversation.

use holodeck_backend_api::{CallDetails, ToolCall, ToolResult};
use holodeck_eval::{Asked, MetricOutcome, NoPrograms, Verdict, calibration::LabelledVerdict};
use holodeck_judging::{Answer, Judging, TurnGrader, UnitJudge};
use holodeck_model::{CallRefusal, LabelledContent, LabelledItem, LabelledTurn, Redactor, Spent};
use holodeck_turn::TurnRecord;

use super::{JudgedLabel, JudgedSubject};

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
    grader: &TurnGrader,
    subject: JudgedSubject,
    judge: UnitJudge<'_>,
    item: &LabelledItem,
    redactor: &Redactor,
) -> (JudgedLabel, Option<Spent>) {
    let outcome = match (&item.content, subject) {
        (LabelledContent::Answer { input, response }, JudgedSubject::Answers) => {
            let turn = turn(input, response);
            Ok(ask(grader, &judge, Answer::of_turn(&turn), item).await)
        }
        (LabelledContent::Conversation { goal, turns }, JudgedSubject::Conversations) => {
            let turns: Vec<TurnRecord> = turns.iter().map(turn_of_conversation).collect();
            let mut answer = Answer::of_conversation(Answer::of_turns(&turns));
            answer.goal = goal.as_deref();
            Ok(ask(grader, &judge, answer, item).await)
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

fn turn(question: &str, response: &str) -> TurnRecord {
    let mut turn = TurnRecord {
        input: question.to_owned(),
        ..TurnRecord::default()
    };
    response.clone_into(&mut turn.result.response);
    turn
}

fn turn_of_conversation(labelled: &LabelledTurn) -> TurnRecord {
    let mut turn = turn(&labelled.user, &labelled.agent);
    for (place, call) in labelled.tools.iter().enumerate() {
        let call_id = place.to_string();
        // A judge does not see the result of a tool that did not run.
        if call.refused || call.result.is_some() {
            let mut result = ToolResult {
                call_id: call_id.clone(),
                name: call.name.clone(),
                result: call.result.clone().unwrap_or_default(),
                is_error: call.failed || call.result.is_none(),
                duration_ms: None,
                details: CallDetails::default(),
            };
            result.details.refused = call.refused.then_some(CallRefusal::Rejected);
            turn.result.tool_results.push(result);
        }
        turn.result.tool_calls.push(ToolCall {
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            call_id,
            provider_fields: None,
        });
    }
    turn
}

async fn ask(
    grader: &TurnGrader,
    judge: &UnitJudge<'_>,
    mut answer: Answer<'_>,
    item: &LabelledItem,
) -> Option<MetricOutcome> {
    answer.case_name = item.case.as_deref();
    answer.ground_truth = item.ground_truth.as_deref();
    answer.context = item.retrieval_context.as_deref();
    let judging = Judging {
        asked: Asked {
            judge,
            programs: &NoPrograms,
        },
        kept: &[],
        gates_met: true,
    };
    let checks = grader.check(&answer);
    grader.judge(&answer, checks, judging).await.pop()
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
