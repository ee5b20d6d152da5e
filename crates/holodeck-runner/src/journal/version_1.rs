//! Reads journals of version 1, which have one line per case that includes the verdict.

use holodeck_backend_api::{ExecutionResult, Outcome, Redactions, ToolCall, ToolResult};
use holodeck_model::{
    CaseContent, CaseId, CaseIdentity, Cases, ExecutionState, Failure, FailureKind, FileInput, FileType,
    McpServerRecord, MemoryFiles, Replayed, RunMetadata, TestCase, TestResult, ToolInvocation, Turn,
    TurnResult, UnitKey, identify_cases,
};
use holodeck_turn::{Trajectory, TurnRecord};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Journal, JournalHeader, RunFlags, StoredSelection, UnitLine,
    place::{End, LinePosition, Place},
    scan::Lines,
    units::Units,
};
use crate::record::{Grade, TurnGrade, UnitRecord};

#[derive(Deserialize)]
struct Header {
    run_id: String,
    started_at: String,
    agent_name: String,
    agent_path: String,
    agent_hash: String,
    holodeck_version: String,
    cli_args: Vec<String>,
    selected: Places,
    replayed: Option<Replayed>,
    settings: Value,
    #[serde(default)]
    mcp_servers: Vec<McpServerRecord>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Places {
    First(#[allow(dead_code, reason = "only which variant it is counts")] usize),
    Only(#[allow(dead_code, reason = "only which variant it is counts")] Vec<usize>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Case(Box<Case>),
    Warning(String),
    End(End),
}

/// The result of a case, with those of its errors that occurred before grading.
#[derive(Deserialize)]
struct Case {
    #[serde(flatten)]
    result: TestResult,
    #[serde(default)]
    execution_errors: Vec<String>,
}

pub(super) fn header(line: &[u8]) -> serde_json::Result<JournalHeader> {
    let header: Header = serde_json::from_slice(line)?;
    Ok(JournalHeader {
        holodeck_journal: 1,
        run_id: header.run_id,
        started_at: header.started_at,
        agent_name: header.agent_name,
        agent_path: header.agent_path,
        agent_file: String::new(),
        model: String::new(),
        regrades: None,
        combination: None,
        shard: None,
        merged_from: Vec::new(),
        agent: [("agent".to_owned(), header.agent_hash)].into(),
        selected: StoredSelection {
            // The version does not record how cases were selected.
            failed: matches!(header.selected, Places::Only(_)),
            ..StoredSelection::default()
        },
        plan: [].into(),
        trials: Vec::new(),
        flags: RunFlags::default(),
        replayed: header.replayed,
        settings: header.settings,
        metadata: RunMetadata {
            agent_config: Value::Null,
            prompt_version: Value::Null,
            holodeck_version: header.holodeck_version,
            cli_args: header.cli_args,
            git_commit: None,
            mcp_servers: header.mcp_servers,
        },
    })
}

/// Finds the cases. Their identities are computed from the recorded inputs. Files are not recorded, so cases with files
/// match no current case.
pub(super) fn scan(journal: &mut Journal, lines: &mut Lines) -> std::io::Result<()> {
    let mut cases: std::collections::BTreeMap<usize, (TestCase, LinePosition)> =
        std::collections::BTreeMap::new();
    while let Some(position) = lines.next()? {
        journal.end = lines.offset;
        match serde_json::from_slice(&lines.line) {
            Ok(Line::Case(case)) => {
                cases.insert(case.result.index, (restore_case(&case.result), position));
                journal.ended = None;
            }
            Ok(Line::Warning(warning)) => journal.warnings.push(warning),
            Ok(Line::End(end)) => journal.ended = Some(end.ended),
            Err(_) => journal.warnings.push(format!(
                "line {} of the journal is damaged; its case has no result",
                lines.number
            )),
        }
    }
    let (cases, positions): (Vec<_>, Vec<_>) = cases.into_values().unzip();
    let cases = Cases::from_iter(cases);
    journal.header.plan = identify_cases(&cases, &MemoryFiles::new()).into();
    journal.units = Units::new(journal.header.plan.len(), &[]);
    journal.places = positions
        .into_iter()
        .map(|position| Place {
            ran: Some(position),
            graded: None,
            graded_with_run: true,
        })
        .collect();
    Ok(())
}

/// The test case of a result, as far as it is recorded.
fn restore_case(result: &TestResult) -> TestCase {
    let turns = result.turns.as_ref();
    let turns = turns.map(|turns| turns.iter().map(|turn| turn.input.as_str()).collect());
    let mut case = case_of_inputs(&result.test_input, turns);
    case.name.clone_from(&result.test_name);
    if !result.processed_files.is_empty() {
        case.files.push(unknown_file());
    }
    case
}

/// The content of a case without files.
pub(crate) fn content_of_inputs(input: &str, turns: Option<Vec<&str>>) -> Option<CaseContent> {
    let case = case_of_inputs(input, turns);
    let identities = identify_cases(&Cases::from_iter([case]), &MemoryFiles::new());
    identities.first().map(|identity| identity.content)
}

fn case_of_inputs(input: &str, turns: Option<Vec<&str>>) -> TestCase {
    let is_single = turns.is_none();
    let turns = turns.into_iter().flatten().map(|input| Turn {
        input: input.to_owned(),
        ..Turn::default()
    });
    TestCase {
        input: is_single.then(|| input.to_owned()),
        turns: turns.collect(),
        ..TestCase::default()
    }
}

fn unknown_file() -> FileInput {
    FileInput {
        path: None,
        url: None,
        file_type: FileType::Text,
        description: None,
        pages: Vec::new(),
        sheet: None,
        range: None,
        cache: None,
    }
}

/// A case as a unit with its grade.
pub(super) fn read(line: &[u8]) -> serde_json::Result<UnitLine> {
    let Line::Case(case) = serde_json::from_slice(line)? else {
        return Err(serde::de::Error::custom("not a case"));
    };
    let Case {
        result,
        execution_errors,
    } = *case;
    // Placeholders: regrading and summaries look up units by their place.
    let case = CaseIdentity {
        id: "0"
            .repeat(32)
            .parse::<CaseId>()
            .map_err(serde::de::Error::custom)?,
        content: "0"
            .repeat(32)
            .parse::<CaseContent>()
            .map_err(serde::de::Error::custom)?,
    };
    let conversation = result.turns.is_some();
    let (turns, grades) = if let Some(turns) = &result.turns {
        turns.iter().map(turn).unzip()
    } else {
        let (turn, grade) = single(&result, &execution_errors);
        (vec![turn], vec![grade])
    };
    let failures = if conversation {
        execution_errors.iter().map(|text| failure(text)).collect()
    } else {
        Vec::new()
    };
    Ok(UnitLine {
        unit: UnitRecord {
            route: None,
            key: UnitKey {
                case: case.id,
                trial: 0,
            },
            case,
            name: result.test_name.clone(),
            conversation,
            at: result.timestamp.clone(),
            turns,
            failures,
            user: None,
            quality_loop: None,
        },
        grade: Some(Grade {
            deciders: holodeck_model::CaseDeciders::default(),
            min_passes: None,
            state: result.state,
            turns: grades,
            conversation: None,
            unjudged: false,
            judging: None,
        }),
    })
}

/// A case without turns, as a turn.
fn single(result: &TestResult, execution_errors: &[String]) -> (TurnRecord, TurnGrade) {
    let (mut record, mut grade) = turn(&TurnResult {
        turn_index: 0,
        input: result.test_input.clone(),
        response: result.agent_response.clone(),
        ground_truth: None,
        expected_tools: None,
        tool_calls: Vec::new(),
        tool_invocations: result.tool_invocations.clone(),
        tools_matched: result.tools_matched,
        arg_match_details: None,
        metric_results: result.metric_results.clone(),
        passed: result.passed,
        state: result.state,
        execution: result.execution,
        execution_time_ms: result.execution_time_ms,
        latency_ms: result.latency_ms,
        token_usage: result.token_usage,
        cost_usd: result.cost_usd,
        num_turns: result.num_turns,
        structured_output: result.structured_output.clone(),
        approval_details: Vec::new(),
        retrieval_context: result.retrieval_context.clone(),
        errors: result.errors.clone(),
        model: result.model.clone(),
        truncated: false,
        truncated_by: None,
        redacted: false,
        skipped: false,
        grader_details: None,
    });
    record.files.clone_from(&result.processed_files);
    let is_of_grading =
        |failure: &Failure| !execution_errors.iter().any(|own| own.starts_with(&failure.text));
    let (grading, execution) = std::mem::take(&mut record.failures)
        .into_iter()
        .partition(is_of_grading);
    record.failures = execution;
    grade.failures = grading;
    (record, grade)
}

fn turn(turn: &TurnResult) -> (TurnRecord, TurnGrade) {
    let response = turn.response.clone().unwrap_or_default();
    let calls = turn.tool_invocations.iter().enumerate();
    let (tool_calls, tool_results) = calls.map(|(place, call)| invocation(place, call)).unzip();
    let record = TurnRecord {
        input: turn.input.clone(),
        files: Vec::new(),
        state: turn.execution,
        traceparent: None,
        redacted: Redactions {
            answer: response.contains("***"),
            ..Redactions::default()
        },
        result: ExecutionResult {
            response,
            tool_calls,
            tool_results,
            token_usage: turn.token_usage,
            structured_output: turn.structured_output.clone(),
            num_turns: turn.num_turns,
            outcome: match turn.execution {
                ExecutionState::Completed => Outcome::Completed,
                _ => Outcome::Failed {
                    reason: turn.errors.first().cloned().unwrap_or_default(),
                },
            },
            model: turn.model.clone(),
            ..ExecutionResult::default()
        },
        usage: turn.token_usage,
        cost_usd: turn.cost_usd,
        elapsed_ms: turn.execution_time_ms,
        latency_ms: turn.latency_ms,
        truncated: false,
        trajectory: Trajectory::default(),
        failures: turn.errors.iter().map(|text| failure(text)).collect(),
    };
    let grade = TurnGrade {
        tools_matched: turn.tools_matched,
        arg_match_details: turn.arg_match_details.clone().unwrap_or_default(),
        metrics: turn.metric_results.clone(),
        retrieval_context: turn.retrieval_context.clone(),
        ..TurnGrade::bare(turn.state)
    };
    (record, grade)
}

fn invocation(place: usize, call: &ToolInvocation) -> (ToolCall, ToolResult) {
    let call_id = format!("{}{place}", ToolCall::GENERATED_ID_PREFIX);
    let result = match &call.result {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let answer = ToolResult {
        call_id: call_id.clone(),
        name: call.name.clone(),
        result,
        is_error: call.error.is_some(),
        duration_ms: call.duration_ms,
        details: call.details.clone(),
    };
    let call = ToolCall {
        name: call.name.clone(),
        arguments: call.args.clone(),
        call_id,
    };
    (call, answer)
}

/// In this version, the hint is at the end of the text.
fn failure(text: &str) -> Failure {
    let (text, hint) = match text.split_once("\n\nhint: ") {
        Some((text, hint)) => (text, Some(hint.trim_end().to_owned())),
        None => (text, None),
    };
    Failure {
        hint,
        ..Failure::new(FailureKind::Other, text)
    }
}
