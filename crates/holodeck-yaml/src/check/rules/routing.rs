//! Checks which specialist agent executes a command, and what executes it otherwise.

use holodeck_model::{Code, Diagnostic, FileKind, SelectionAlgorithm};

use super::{Rules, View};

/// Why a setting has no effect with another algorithm.
const KEYWORD_ONLY: &str = "it acts with `algorithm: keyword-v1` in `routing.agents`";

/// The executors, in the order in which they are tried.
const ORDER: [&str; 3] = ["sdk", "skills", "legacy"];

pub(super) fn check_routing(rules: &mut Rules<'_>, agent: &View) {
    let Some(routing) = rules.child(agent, "routing") else {
        return;
    };
    if let Some(agents) = rules.child(&routing, "agents") {
        check_agents(rules, &agents);
    }
    check_chain(rules, &routing);
    if let Some(skills) = rules.child(&routing, "skills") {
        check_folder(rules, &skills, "directory");
    }
    if let Some(legacy) = rules.child(&routing, "legacy") {
        check_legacy(rules, &legacy);
    }
}

fn check_agents(rules: &mut Rules<'_>, agents: &View) {
    let directories = rules.list(agents, "directories");
    if directories.is_empty() && !rules.findings.is_suggested(agents.node, "directories") {
        rules.report_missing(
            agents,
            "directories",
            "",
            "the folders with the agents, such as `[{path: agents}]`",
        );
    }
    for directory in &directories {
        check_folder(rules, directory, "path");
    }
    let excluded = rules.texts(agents, "exclude");
    if let Some(default) = rules.text(agents, "default_agent")
        && excluded.iter().any(|(_, name)| *name == default)
    {
        let message = "`default_agent` is in `exclude`, so it is never selected";
        rules.report_inconsistent(
            agents,
            "default_agent",
            message,
            Some("remove it from one of them"),
        );
    }
    let weights = rules.child(agents, "weights");
    let names = ["triggers", "category", "description", "tools", "focus", "files"];
    if let Some(weights) = weights
        && names.iter().all(|name| rules.number(&weights, name) == Some(0.0))
    {
        let message = "all `weights` are 0, so no task has a score";
        let diagnostic =
            Diagnostic::error(Code::InconsistentValues, message).about(weights.path.pointer(None));
        rules.add(weights.named_at, diagnostic);
    }
    check_algorithm(rules, agents, &directories);
}

/// Warns of settings that act in `keyword-v1` only.
fn check_algorithm(rules: &mut Rules<'_>, agents: &View, directories: &[View]) {
    let named = rules.text(agents, "algorithm");
    if named.is_none() && rules.has(agents, "algorithm") {
        return;
    }
    let named = named.unwrap_or(SelectionAlgorithm::default().as_str());
    let algorithm = SelectionAlgorithm::ALL
        .iter()
        .find(|known| known.as_str() == named);
    if algorithm.is_none_or(|algorithm| *algorithm == SelectionAlgorithm::KeywordV1) {
        return;
    }
    for key in ["weights", "candidate_floor"] {
        rules.warn_no_effect(agents, key, KEYWORD_ONLY);
    }
    for directory in directories {
        rules.warn_no_effect(directory, "core", KEYWORD_ONLY);
    }
}

/// The order is fixed; an executor can only be left out.
fn check_chain(rules: &mut Rules<'_>, routing: &View) {
    let written = rules.texts(routing, "chain");
    let places: Vec<Option<usize>> = written
        .iter()
        .map(|(_, name)| ORDER.iter().position(|known| known == name))
        .collect();
    let in_order = places.windows(2).all(|pair| match pair {
        [Some(one), Some(next)] => one < next,
        _ => true,
    });
    if !in_order {
        let message = "`chain` in `routing` must be in the order `sdk`, `skills`, `legacy`, each once";
        rules.report_inconsistent(
            routing,
            "chain",
            message,
            Some("leave out what should not execute commands"),
        );
    }
}

fn check_folder(rules: &mut Rules<'_>, view: &View, key: &str) {
    let Some(text) = rules.text(view, key) else { return };
    let place = rules.value_place(view, key);
    let path = rules.tree.dir(place).join(text);
    let diagnostic = match rules.files.kind(&path) {
        FileKind::Directory => return,
        FileKind::File => {
            let message = format!("`{key}`{} is a file, not a directory", rules.owner_suffix(view));
            Diagnostic::error(Code::FileNotFound, message)
        }
        FileKind::Missing => Diagnostic::error(Code::FileNotFound, rules.missing_file_message(view, key))
            .with_help("paths are relative to the file that names them"),
    };
    rules.add(place, diagnostic.about(view.path.pointer(Some(key))));
}

fn check_legacy(rules: &mut Rules<'_>, legacy: &View) {
    let given: Vec<&str> = ["command", "backend", "agent"]
        .into_iter()
        .filter(|key| rules.has(legacy, key))
        .collect();
    match given.as_slice() {
        [] => {
            let message = "`legacy` in `routing` needs `command`, `backend` or `agent`";
            let diagnostic = Diagnostic::error(Code::OneOfRequired, message).about(legacy.path.pointer(None));
            rules.add(legacy.named_at, diagnostic);
        }
        [first, second, ..] => rules.report_conflict(legacy, first, second),
        [_] => {}
    }
    if let Some(backend) = rules.child(legacy, "backend") {
        super::model::check_model(rules, &backend);
    }
    rules.check_file(legacy, "agent", Diagnostic::error);
}
