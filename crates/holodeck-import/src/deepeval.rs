//! Converts goldens of DeepEval, also those of conversations, to test cases.

use std::path::Path;

use holodeck_yaml::{ForeignNode, ForeignValue};
use serde_json::{Map, Value, json};

use crate::{
    Import, ImportError, ImportedFile, SourceFiles,
    findings::Findings,
    reader::{read_lines, read_node, read_rows},
    writer::document,
};

/// Fields of a golden that hold what the agent did, and not what is expected of it.
const OF_A_RUN: [&str; 3] = ["actual_output", "retrieval_context", "tools_called"];

/// Converts goldens, also those of conversations, in JSON, JSON Lines or CSV.
pub fn import_deepeval(source: &Path, files: &dyn SourceFiles) -> Result<Import, ImportError> {
    let extension = source
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let goldens = match extension.as_str() {
        "csv" => read_rows(files, source)?,
        "jsonl" => read_lines(files, source)?,
        _ => {
            let node = read_node(files, source)?;
            let list = node
                .items()
                .or_else(|| node.get("goldens").and_then(ForeignNode::items));
            match list {
                Some(items) => items.to_vec(),
                None => return Err(ImportError::at(&node, "holds no list of goldens")),
            }
        }
    };
    let mut findings = Findings::default();
    let mut cases = Vec::new();
    for golden in &goldens {
        cases.extend(case(golden, cases.len(), &mut findings));
    }
    if cases.is_empty()
        && let Some(first) = goldens.first()
    {
        return Err(ImportError::at(
            first,
            "is no golden: it has neither `input` nor `scenario`",
        ));
    }
    let count = cases.len();
    let text = document(
        &["Test cases; `holodeck import deepeval` wrote them. DeepEval keeps its metrics in Python: add `evaluations` to the agent.".to_owned()],
        &Value::Array(cases),
    );
    Ok(Import {
        files: vec![ImportedFile {
            path: "cases.yaml".into(),
            text,
        }],
        findings: findings.finish(),
        agents: Vec::new(),
        cases: count,
    })
}

fn case(golden: &ForeignNode, index: usize, findings: &mut Findings) -> Option<Value> {
    let text = |names: &[&str]| {
        let found = names.iter().find_map(|name| golden.get(name)?.text());
        found.filter(|text| !text.trim().is_empty()).map(str::to_owned)
    };
    let mut case = Map::new();
    let name = text(&["name"]).unwrap_or_else(|| format!("golden {}", index + 1));
    case.insert("name".to_owned(), name.into());
    let turns = golden.get("turns").and_then(ForeignNode::items);
    let scenario = text(&["scenario"]);
    if let Some(input) = text(&["input", "query"]) {
        case.insert("input".to_owned(), input.into());
    } else if let Some(turns) = turns.filter(|turns| !turns.is_empty()) {
        let turns: Vec<Value> = turns
            .iter()
            .filter(|turn| turn.get("role").and_then(ForeignNode::text) == Some("user"))
            .filter_map(|turn| Some(json!({"input": turn.get("content")?.text()?})))
            .collect();
        case.insert("turns".to_owned(), Value::Array(turns));
    } else if let Some(scenario) = &scenario {
        let mut user = Map::new();
        user.insert(
            "goal".to_owned(),
            text(&["expected_outcome"])
                .unwrap_or_else(|| scenario.clone())
                .into(),
        );
        let persona: Vec<String> = [Some(scenario.clone()), text(&["user_description"])]
            .into_iter()
            .flatten()
            .collect();
        user.insert("persona".to_owned(), persona.join("\n").into());
        case.insert("user".to_owned(), Value::Object(user));
    } else {
        findings.left_out(golden, "a golden without `input`, `turns` or `scenario`", "");
        return None;
    }
    if let Some(expected) = text(&["expected_output", "expectedOutput"]) {
        case.insert("ground_truth".to_owned(), expected.into());
    }
    if let Some(outcome) = text(&["expected_outcome", "expectedOutcome"]) {
        let judge = json!([{"type": "goal_success", "goal": outcome}]);
        case.insert("conversation_evaluations".to_owned(), judge);
    }
    if let Some(context) = golden.get("context").filter(|node| !node.is_null()) {
        let passages = passages(context);
        if !passages.is_empty() {
            case.insert("retrieval_context".to_owned(), passages.into());
        }
    }
    for name in ["expected_tools", "expectedTools"] {
        let tools: Vec<Value> = golden
            .get(name)
            .and_then(ForeignNode::items)
            .unwrap_or_default()
            .iter()
            .filter_map(|tool| tool.text().or_else(|| tool.get("name")?.text()))
            .map(Value::from)
            .collect();
        if !tools.is_empty() {
            case.insert("expected_tools".to_owned(), Value::Array(tools));
        }
    }
    for (key, value) in golden.entries() {
        let known = [
            "name",
            "input",
            "query",
            "turns",
            "scenario",
            "expected_output",
            "expectedOutput",
            "expected_outcome",
            "expectedOutcome",
            "context",
            "expected_tools",
            "expectedTools",
            "user_description",
        ];
        let is_empty = value.is_null()
            || value.text().is_some_and(|text| text.trim().is_empty())
            || value.items().is_some_and(<[_]>::is_empty);
        if known.contains(&key.as_str()) || is_empty {
            continue;
        }
        if OF_A_RUN.contains(&key.as_str()) {
            findings.ignored(
                value,
                format!("`{key}`: what an agent did"),
                "`target: {type: answers}`",
            );
        } else {
            findings.ignored(value, format!("`{key}` of a golden"), "");
        }
    }
    Some(Value::Object(case))
}

fn passages(node: &ForeignNode) -> Vec<String> {
    match &node.value {
        ForeignValue::List(items) => items
            .iter()
            .filter_map(ForeignNode::text)
            .map(str::to_owned)
            .collect(),
        ForeignValue::Text(text) => match serde_json::from_str::<Vec<String>>(text) {
            Ok(items) => items,
            // DeepEval writes several passages of a cell with this between them.
            Err(_) => text
                .split('|')
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .collect(),
        },
        _ => Vec::new(),
    }
}
