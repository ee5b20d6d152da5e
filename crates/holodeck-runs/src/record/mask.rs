//! Masks secrets in records and grades before anything is stored or shown.
//!
//! Every structure is taken apart into all its fields, so that a new one cannot be forgotten: only identities, which are
//! digests, and words of our own stay as they are.

use std::collections::BTreeMap;

use holodeck_backend_api::Redactions;
use holodeck_model::{
    ApprovalDetail, ArgMatchDetail, Failure, Juror, MetricResult, MissingVote, Redactor, TaskRoute,
};
use holodeck_turn::TurnRecord;

use super::{Grade, LoopRecord, TurnGrade, UnitRecord, UserRecord};

impl UnitRecord {
    /// Masks secrets before anything is stored or shown, and records where there were some.
    pub fn mask(&mut self, redactor: &Redactor) {
        let Self {
            key: _,
            case: _,
            name,
            conversation: _,
            at: _,
            turns,
            failures,
            user,
            route,
            quality_loop,
        } = self;
        mask_optional(redactor, name);
        mask_failures(redactor, failures);
        if let Some(route) = route {
            mask_route(redactor, route);
        }
        if let Some(user) = user {
            let UserRecord {
                ended: _,
                closing,
                model,
                used: _,
                judge_failure: _,
                failure,
            } = user;
            mask_optional(redactor, closing);
            mask_optional(redactor, model);
            mask_failures(redactor, failure.as_mut_slice());
        }
        if let Some(quality) = quality_loop {
            quality.mask(redactor);
        }
        for turn in turns {
            mask_turn(redactor, turn);
        }
    }
}

impl LoopRecord {
    /// Masks secrets before it is stored or shown.
    pub fn mask(&mut self, redactor: &Redactor) {
        let Self {
            summary: _,
            used: _,
            elapsed_ms: _,
            judge_failure: _,
            failure,
        } = self;
        mask_failures(redactor, failure.as_mut_slice());
    }
}

impl Grade {
    /// Masks secrets before anything is stored or shown.
    pub fn mask(&mut self, redactor: &Redactor) {
        let Self {
            deciders: _,
            min_passes: _,
            state: _,
            turns,
            conversation,
            score: _,
            score_failure,
            judging: _,
            // It is made of masked texts.
            expected: _,
        } = self;
        for turn in turns.iter_mut().chain(conversation.as_deref_mut()) {
            mask_grade(redactor, turn);
        }
        mask_failures(redactor, score_failure.as_mut_slice());
    }
}

fn mask_route(redactor: &Redactor, route: &mut TaskRoute) {
    let TaskRoute {
        agent,
        by_default: _,
        refused,
        unselected,
        confidence: _,
        reason,
    } = route;
    redactor.mask_text(reason);
    for text in [agent, refused, unselected] {
        mask_optional(redactor, text);
    }
}

fn mask_turn(redactor: &Redactor, turn: &mut TurnRecord) {
    let TurnRecord {
        input,
        files,
        state: _,
        result,
        usage: _,
        cost_usd: _,
        elapsed_ms: _,
        latency_ms: _,
        truncated: _,
        trajectory,
        failures,
        redacted,
        traceparent,
    } = turn;
    redacted.input |= redactor.mask_text(input);
    mask_failures(redactor, failures);
    for file in files {
        redactor.value(file);
    }
    mask_optional(redactor, traceparent);
    redacted.add(Redactions::of(result, redactor));
    let mask_text = |text: &mut String| {
        redactor.mask_text(text);
    };
    result.edit(mask_text, |value| redactor.value(value));
    trajectory.edit(mask_text, |value| redactor.value(value));
    let mut ids = Ids::default();
    let mut mask_id = |id: &mut String| ids.mask(redactor, id);
    result.edit_ids(&mut mask_id);
    trajectory.edit_ids(&mut mask_id);
    let Redactions {
        input: _,
        answer: _,
        object: _,
        arguments,
        results,
    } = redacted;
    arguments.iter_mut().chain(results).for_each(mask_id);
}

/// The masked ids of calls. Two calls never have the same one: results belong to calls by their ids.
#[derive(Default)]
struct Ids {
    masked: BTreeMap<String, String>,
}

impl Ids {
    fn mask(&mut self, redactor: &Redactor, id: &mut String) {
        if let Some(known) = self.masked.get(id) {
            id.clone_from(known);
            return;
        }
        let original = id.clone();
        if redactor.mask_text(id) {
            let first = id.clone();
            let mut number = 2;
            while self.masked.values().any(|taken| taken == id) {
                *id = format!("{first}-{number}");
                number += 1;
            }
            self.masked.insert(original, id.clone());
        }
    }
}

fn mask_grade(redactor: &Redactor, grade: &mut TurnGrade) {
    let TurnGrade {
        state: _,
        tools_matched: _,
        arg_match_details,
        approvals,
        metrics,
        failures,
        retrieval_context,
        tool_rules: _,
    } = grade;
    mask_failures(redactor, failures);
    for text in retrieval_context.iter_mut().flatten() {
        redactor.mask_text(text);
    }
    for metric in metrics {
        mask_metric(redactor, metric);
    }
    for detail in arg_match_details {
        let ArgMatchDetail {
            expected_tool,
            args_asserted,
            matched_call_index: _,
            unmatched_reason,
        } = detail;
        redactor.mask_text(expected_tool);
        redactor.value(args_asserted);
        mask_optional(redactor, unmatched_reason);
    }
    for detail in approvals {
        let ApprovalDetail {
            tool,
            expected: _,
            got,
            met: _,
        } = detail;
        for text in std::iter::once(tool).chain(got) {
            redactor.mask_text(text);
        }
    }
}

fn mask_metric(redactor: &Redactor, metric: &mut MetricResult) {
    let MetricResult {
        metric_name,
        kind: _,
        conversation: _,
        weight: _,
        score: _,
        threshold: _,
        passed: _,
        scale: _,
        error,
        retry_count: _,
        evaluation_time_ms: _,
        model_used,
        jurors,
        identity: _,
        reasoning,
        skipped: _,
        details,
        missing_votes,
        judge_failure: _,
    } = metric;
    redactor.mask_text(metric_name);
    for text in [error, model_used, reasoning] {
        mask_optional(redactor, text);
    }
    for juror in jurors {
        let Juror {
            model,
            reported,
            missing,
        } = juror;
        redactor.mask_text(model);
        mask_optional(redactor, reported);
        mask_optional(redactor, missing);
    }
    for vote in missing_votes {
        let MissingVote {
            judge,
            number: _,
            reason,
        } = vote;
        redactor.mask_text(judge);
        redactor.mask_text(reason);
    }
    if let Some(details) = details {
        redactor.value(details);
    }
}

fn mask_failures(redactor: &Redactor, failures: &mut [Failure]) {
    for failure in failures {
        let Failure {
            kind: _,
            field,
            turn: _,
            text,
            hint,
        } = failure;
        redactor.mask_text(text);
        mask_optional(redactor, field);
        mask_optional(redactor, hint);
    }
}

fn mask_optional(redactor: &Redactor, text: &mut Option<String>) {
    if let Some(text) = text {
        redactor.mask_text(text);
    }
}

#[cfg(test)]
mod tests;
