//! Checks which specialist agent executes a command, and what executes it otherwise.

use holodeck_model::{CHAT_COMMANDS, Code, Diagnostic, FileKind, SelectionAlgorithm, closest, printable};

use super::{Rules, View};

/// Why a setting has no effect with another algorithm.
const KEYWORD_ONLY: &str = "it acts with `algorithm: keyword-v1` in `routing.agents`";

/// The executors, in the order in which they are tried.
const ORDER: [&str; 3] = ["sdk", "skills", "legacy"];

pub(super) fn check_routing(rules: &mut Rules<'_>, agent: &View) {
    check_served_commands(rules, agent);
    let Some(routing) = rules.child(agent, "routing") else {
        return;
    };
    let agents = rules.child(&routing, "agents");
    if let Some(agents) = &agents {
        check_agents(rules, agents);
    }
    check_selecting_model(rules, &routing, agents.as_ref());
    if let Some(agents) = &agents
        && rules.text(agents, "algorithm") == Some(SelectionAlgorithm::Embedding.as_str())
        && !rules.has(agent, "embedding_provider")
    {
        let message = "`algorithm: embedding` needs `embedding_provider`, whose model compares the task with the agents";
        let help = "add `embedding_provider: {provider: openai, name: text-embedding-3-small}`";
        rules.report_inconsistent(agents, "algorithm", message, Some(help));
    }
    check_chain(rules, &routing);
    check_chat_commands(rules, &routing);
    if let Some(skills) = rules.child(&routing, "skills") {
        check_folder(rules, &skills, "directory");
    }
    if let Some(legacy) = rules.child(&routing, "legacy") {
        check_legacy(rules, &legacy);
    }
}

/// A client can only name a command that may be routed: nothing would execute another one.
fn check_served_commands(rules: &mut Rules<'_>, agent: &View) {
    let Some(serve) = rules.child(agent, "serve") else {
        return;
    };
    let routing = rules.child(agent, "routing");
    let routed = routing.map_or_else(Vec::new, |routing| rules.texts(&routing, "commands"));
    for (index, (node, name)) in rules.texts(&serve, "commands").into_iter().enumerate() {
        if routed.iter().any(|(_, known)| is_same(known, name)) {
            continue;
        }
        let message = format!(
            "`{}` in `serve.commands` is not in `routing.commands`",
            printable(name)
        );
        let mut diagnostic = Diagnostic::error(Code::InconsistentValues, message)
            .about(
                serve
                    .path
                    .with_key("commands", node)
                    .with_index(index, node)
                    .pointer(None),
            )
            .with_help("add it to `routing.commands`, or remove it here");
        if let Some(meant) = closest(name, routed.iter().map(|(_, known)| *known)) {
            diagnostic = diagnostic.with_inline(format!("did you mean `{meant}`?"));
        }
        let place = rules.tree.place(node);
        rules.add(place, diagnostic);
    }
}

/// A command with the name of one that `holodeck chat` has itself can't be named there.
fn check_chat_commands(rules: &mut Rules<'_>, routing: &View) {
    for (index, (node, name)) in rules.texts(routing, "commands").into_iter().enumerate() {
        if !CHAT_COMMANDS.iter().any(|own| is_same(own, name)) {
            continue;
        }
        let name = printable(name);
        let message = format!("`/{name}` is a command of `holodeck chat` itself, so it can't be used there");
        let diagnostic = Diagnostic::warning(Code::InconsistentValues, message)
            .about(
                routing
                    .path
                    .with_key("commands", node)
                    .with_index(index, node)
                    .pointer(None),
            )
            .with_help("choose another name; `run --command`, `command:` of a case and `serve` can use it");
        let place = rules.tree.place(node);
        rules.add(place, diagnostic);
    }
}

fn is_same(one: &str, other: &str) -> bool {
    one.trim().eq_ignore_ascii_case(other.trim())
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

/// The model that selects is asked by one algorithm only.
fn check_selecting_model(rules: &mut Rules<'_>, routing: &View, agents: Option<&View>) {
    let Some(model) = rules.child(routing, "model") else {
        return;
    };
    super::model::check_model(rules, &model);
    let asks = agents.is_some_and(|agents| {
        // A name that is none has an error of its own.
        let named = rules.text(agents, "algorithm");
        let known = |named: &str| {
            SelectionAlgorithm::ALL
                .iter()
                .find(|known| known.as_str() == named)
        };
        named
            .is_some_and(|named| known(named).is_none_or(|algorithm| *algorithm == SelectionAlgorithm::Model))
    });
    if !asks {
        let why = "it is asked with `algorithm: model` in `routing.agents`";
        rules.warn_no_effect(routing, "model", why);
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
