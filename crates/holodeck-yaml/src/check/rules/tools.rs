//! Rules for declared tools: names, sources, databases, embeddings and Python functions.

use std::collections::HashMap;

use holodeck_model::{Code, Diagnostic, FileKind, closest};

use super::{
    Rules, View,
    mocks::{check_mock, is_mocked},
    model::check_model,
};
use crate::yaml::Place;

/// Larger Python files are not searched.
pub(super) const MAX_MODULE_BYTES: u64 = 1 << 20;

pub(super) fn check_tools(rules: &mut Rules<'_>, agent: &View, provider: Option<&str>) {
    let tools = rules.list(agent, "tools");
    check_names(rules, &tools);
    for tool in &tools {
        check_mock(rules, tool);
        match rules.text(tool, "type") {
            Some("vectorstore") => check_vectorstore(rules, tool),
            Some("hierarchical_document") => check_hierarchical_document(rules, tool),
            Some("function") => check_function(rules, tool),
            Some("mcp") => {
                check_server_name(rules, tool, provider);
                check_mcp(rules, tool);
            }
            Some("prompt") => check_prompt(rules, tool, provider),
            _ => {}
        }
    }
}

/// Names that the Claude Code CLI keeps for servers of its own, also with `_` at the end: it does not load the server, or
/// hides its tools. Tried with 2.1.330 and 2.1.197.
const RESERVED_BY_CLI: &[&str] = &[
    "Claude_Browser",
    "Claude_Preview",
    "Claude_in_Chrome",
    "claude_ai",
    "ide",
    "webagent",
    "workspace",
];

/// Checks that the tools of a server get names of their own.
fn check_server_name(rules: &mut Rules<'_>, tool: &View, provider: Option<&str>) {
    let Some(name) = rules.text(tool, "name").map(str::to_owned) else {
        return;
    };
    let place = rules.value_place(tool, "name");
    let about = tool.path.pointer(Some("name"));
    let is_reserved = RESERVED_BY_CLI.contains(&name.trim_end_matches('_'));
    if provider == Some("anthropic") && is_reserved && !is_mocked(rules, tool) {
        let message = format!("the Claude Code CLI keeps the server name `{name}` for itself");
        let diagnostic = Diagnostic::error(Code::BadFormat, message)
            .about(about)
            .with_help("give the server another name; it would have no tools");
        rules.add(place, diagnostic);
    } else if name.contains("__") {
        let message = format!(
            "`__` in the server name `{name}` separates a server from its tool in the names of tools"
        );
        let diagnostic = Diagnostic::warning(Code::BadFormat, message)
            .about(about)
            .with_help(
                "use one `_`: a tool could get the name of another server's, and a list may mean both",
            );
        rules.add(place, diagnostic);
    }
}

fn check_names(rules: &mut Rules<'_>, tools: &[View]) {
    let mut first: HashMap<&str, Place> = HashMap::new();
    for tool in tools {
        let Some(name) = rules.text(tool, "name") else {
            continue;
        };
        let place = rules.value_place(tool, "name");
        if let Some(other) = first.get(name) {
            let label = rules.tree.location(*other);
            let diagnostic =
                Diagnostic::error(Code::DuplicateName, format!("two tools have the name `{name}`"))
                    .about(tool.path.pointer(Some("name")))
                    .with_label(label, "the other one")
                    .with_help("the model calls tools by name; rename one of them");
            rules.add(place, diagnostic);
        } else {
            first.insert(name, place);
        }
    }
}

/// Checks that an agent with semantic search has a provider of embeddings; there is no implicit default.
pub(super) fn check_embeddings(rules: &mut Rules<'_>, agent: &View, provider: Option<&str>) {
    const HINT: &str = "add `embedding_provider:` with `openai` or `azure_openai`, which need a key, or with `ollama`, which runs on this machine; or `embedding_provider: {provider: hash}`, which works offline but compares only words, not meaning";
    let searching: Vec<View> = rules
        .list(agent, "tools")
        .into_iter()
        .filter(|tool| is_indexed(rules, tool) && !is_mocked(rules, tool))
        .collect();
    let named: Vec<&View> = searching
        .iter()
        .filter(|tool| rules.text(tool, "embedding_model").is_some())
        .collect();
    if let Some((first, others)) = named.split_first() {
        for other in others {
            check_same_model(rules, first, other);
        }
    }
    let Some(embeddings) = rules.child(agent, "embedding_provider") else {
        if let (Some("anthropic"), Some(tool)) = (provider, searching.first())
            && !rules.has(agent, "embedding_provider")
        {
            let message = format!(
                "{} needs embeddings, which provider `anthropic` does not offer",
                tool.path.describe(rules.tree)
            );
            let diagnostic = Diagnostic::error(Code::MissingField, message)
                .about("embedding_provider")
                .with_help(HINT);
            rules.add(tool.named_at, diagnostic);
        }
        return;
    };
    match rules.text(&embeddings, "provider") {
        Some("hash") => {
            for tool in &named {
                rules.warn_no_effect(tool, "embedding_model", "provider `hash` has no models");
            }
        }
        Some(_) if !rules.has(&embeddings, "name") => {
            rules.report_missing(
                &embeddings,
                "name",
                "",
                "the model's name; for Azure the name of the deployment",
            );
        }
        Some(_) => {
            if let Some(tool) = named.first() {
                warn_different_model(rules, &embeddings, tool);
            }
        }
        None => {}
    }
}

fn is_indexed(rules: &Rules<'_>, tool: &View) -> bool {
    matches!(
        rules.text(tool, "type"),
        Some("vectorstore" | "hierarchical_document")
    )
}

/// Reports different embedding models: a question is embedded once, and vectors of two models are not comparable.
fn check_same_model(rules: &mut Rules<'_>, first: &View, other: &View) {
    let key = "embedding_model";
    let (Some(one), Some(two)) = (rules.text(first, key), rules.text(other, key)) else {
        return;
    };
    if one == two {
        return;
    }
    let place = rules.value_place(first, key);
    let label = rules.tree.location(place);
    let diagnostic = Diagnostic::error(
        Code::InconsistentValues,
        format!(
            "`{key}`{} differs from that{}",
            rules.owner_suffix(other),
            rules.owner_suffix(first)
        ),
    )
    .about(other.path.pointer(Some(key)))
    .with_label(label, "the other one")
    .with_help("an agent has one embedding model; name the same in both, or name it in only one");
    rules.add(rules.value_place(other, key), diagnostic);
}

/// Warns that the model of the tool takes precedence over the name of the provider, as in 0.7.
fn warn_different_model(rules: &mut Rules<'_>, embeddings: &View, tool: &View) {
    let (Some(name), Some(model)) = (
        rules.text(embeddings, "name"),
        rules.text(tool, "embedding_model"),
    ) else {
        return;
    };
    if name == model {
        return;
    }
    let label = rules.tree.location(rules.value_place(tool, "embedding_model"));
    let diagnostic = Diagnostic::warning(
        Code::InconsistentValues,
        "`name` in `embedding_provider` has no effect, because a tool names another `embedding_model`",
    )
    .about(embeddings.path.pointer(Some("name")))
    .with_label(label, "this one is used")
    .with_help("keep one of them");
    let place = rules.value_place(embeddings, "name");
    rules.add(place, diagnostic);
}

fn check_vectorstore(rules: &mut Rules<'_>, tool: &View) {
    check_source(rules, tool);
    check_database(rules, tool);
    if rules.has(tool, "vector_field") && !rules.has(tool, "id_field") {
        rules.report_missing(
            tool,
            "id_field",
            ": `vector_field` needs it",
            "the field that identifies a record",
        );
    }
}

fn check_hierarchical_document(rules: &mut Rules<'_>, tool: &View) {
    check_source(rules, tool);
    check_database(rules, tool);
    for key in ["reranker_model", "context_model"] {
        if let Some(model) = rules.child(tool, key) {
            check_model(rules, &model);
        }
    }
    let mode = rules.text(tool, "search_mode").unwrap_or("hybrid");
    if mode == "hybrid" {
        check_weights(rules, tool);
    }
    if rules.flag(tool, "enable_reranking") == Some(true) && !rules.has(tool, "reranker_model") {
        rules.report_missing(
            tool,
            "reranker_model",
            ": `enable_reranking` needs it",
            "the model that reranks results",
        );
    }
    if let Some(index) = rules.child(tool, "keyword_index")
        && rules.text(&index, "provider") == Some("opensearch")
    {
        for (key, what) in [
            ("endpoint", "URL of the index"),
            ("index_name", "name of the index"),
        ] {
            if !rules.has(&index, key) {
                rules.report_missing(&index, key, ": `opensearch` requires it", what);
            }
        }
    }
}

fn check_weights(rules: &mut Rules<'_>, tool: &View) {
    let weights = [
        ("semantic_weight", 0.5),
        ("keyword_weight", 0.3),
        ("exact_weight", 0.2),
    ];
    let Some(values) = weights
        .iter()
        .map(|(key, default)| {
            if rules.has(tool, key) {
                rules.number(tool, key)
            } else {
                Some(*default)
            }
        })
        .collect::<Option<Vec<f64>>>()
    else {
        return;
    };
    let given = weights
        .iter()
        .find(|(key, _)| rules.has(tool, key))
        .map_or("semantic_weight", |(key, _)| key);
    let sum: f64 = values.iter().sum();
    if (sum - 1.0).abs() > 1e-6 {
        let shown: Vec<String> = weights
            .iter()
            .zip(&values)
            .map(|((key, _), value)| format!("`{key}` {value}"))
            .collect();
        let message = format!(
            "the weights{} must add up to 1, not {sum:.3}",
            rules.owner_suffix(tool)
        );
        let help = format!("they are {}", shown.join(", "));
        rules.report_inconsistent(tool, given, message, Some(&help));
    } else if let [semantic, keyword, _] = values.as_slice()
        && semantic + keyword <= 0.0
    {
        let message = format!(
            "`semantic_weight` and `keyword_weight`{} must not both be 0",
            rules.owner_suffix(tool)
        );
        rules.report_inconsistent(tool, given, message, None);
    }
}

/// Notes that the embedded index replaces FAISS, which is a library, not a server.
fn check_database(rules: &mut Rules<'_>, tool: &View) {
    let Some(database) = rules.child(tool, "database") else {
        return;
    };
    if is_mocked(rules, tool) || rules.text(&database, "provider") != Some("faiss") {
        return;
    }
    let message = format!(
        "the embedded index is used instead of `faiss`{}; both search exactly",
        rules.owner_suffix(tool)
    );
    let diagnostic = Diagnostic::note(Code::StandIn, message)
        .about(database.path.pointer(Some("provider")))
        .with_help("the index is a persistent file in `.holodeck/index`, or in the folder that `connection_string` names; `provider: in-memory` does the same without this note");
    let place = rules.value_place(&database, "provider");
    rules.add(place, diagnostic);
}

/// Checks that the source is a path or a URL with a supported scheme. Globs are not evaluated here.
fn check_source(rules: &mut Rules<'_>, tool: &View) {
    let Some(source) = rules.text(tool, "source") else {
        return;
    };
    let place = rules.value_place(tool, "source");
    if let Some((scheme, _)) = source.split_once("://") {
        if !["s3", "az", "https", "http", "file"].contains(&scheme.to_ascii_lowercase().as_str()) {
            let message = format!(
                "`source`{} has the unsupported scheme `{scheme}`",
                rules.owner_suffix(tool)
            );
            let diagnostic = Diagnostic::error(Code::BadFormat, message)
                .about(tool.path.pointer(Some("source")))
                .with_help("use a path, or a URL with `s3`, `az`, `https`, `http` or `file`");
            rules.add(place, diagnostic);
        }
        return;
    }
    let path = rules.tree.dir(place).join(source);
    let is_glob = source.contains(['*', '?', '[', '{']);
    if !is_glob && !is_mocked(rules, tool) && rules.files.kind(&path) == FileKind::Missing {
        let message = rules.missing_file_message(tool, "source");
        let diagnostic =
            Diagnostic::warning(Code::FileNotFound, message).about(tool.path.pointer(Some("source")));
        let diagnostic = rules.with_near_file(diagnostic, tool, "source", &path);
        rules.add(place, diagnostic);
    }
}

fn check_function(rules: &mut Rules<'_>, tool: &View) {
    let is_foreign = rules
        .child(tool, "function")
        .is_some_and(|function| rules.tree.entries(function.node).is_some());
    if is_mocked(rules, tool) || is_foreign {
        // The real tool may not exist yet; one in a foreign form is reported.
        return;
    }
    if rules.has(tool, "command") {
        rules.report_conflict(tool, "command", "file");
        rules.report_conflict(tool, "command", "function");
        check_command(rules, tool);
        return;
    }
    let why = ": a function tool runs `function` of a Python `file`, or a `command`";
    if !rules.has(tool, "file") {
        rules.report_missing(tool, "file", why, "the Python file, relative to this YAML file");
    }
    if !rules.has(tool, "function") {
        rules.report_missing(tool, "function", why, "the function in that file");
    }
    rules.check_file(tool, "file", Diagnostic::error);
    check_python_function(rules, tool);
    rules.warn_no_effect(tool, "args", "only a `command` takes arguments");
}

/// Checks that the file can define the function: it may also import it, even with `import *`.
fn check_python_function(rules: &mut Rules<'_>, tool: &View) {
    let (Some(file), Some(function)) = (rules.text(tool, "file"), rules.text(tool, "function")) else {
        return;
    };
    let path = rules.tree.dir(rules.value_place(tool, "file")).join(file);
    // Unreadable files are reported elsewhere.
    let Ok(source) = rules.files.read(&path, MAX_MODULE_BYTES) else {
        return;
    };
    let source = String::from_utf8_lossy(&source);
    // `a.b` names an attribute.
    let last = function.rsplit('.').next().unwrap_or(function);
    if may_define(&source, last) || rules.is_substituted(tool, "function") {
        return;
    }
    let shown = if rules.is_substituted(tool, "file") {
        "the file".to_owned()
    } else {
        format!("`{file}`")
    };
    let message = format!(
        "`function`{} names `{function}`, which does not occur in {shown}",
        rules.owner_suffix(tool)
    );
    let mut diagnostic =
        Diagnostic::error(Code::UnknownReference, message).about(tool.path.pointer(Some("function")));
    if let Some(meant) = closest_definition(&source, last) {
        diagnostic = diagnostic.with_inline(format!("did you mean `{meant}`?"));
    } else {
        let defined: Vec<String> = definitions(&source)
            .take(5)
            .map(|name| format!("`{name}`"))
            .collect();
        diagnostic = diagnostic.with_help(if defined.is_empty() {
            format!("define it, as in `def {last}(city): …`")
        } else {
            format!("the file defines {}", defined.join(", "))
        });
    }
    let place = rules.value_place(tool, "function");
    rules.add(place, diagnostic);
}

/// Whether a Python module can define a name: it may also import it, even with `import *`.
pub(super) fn may_define(source: &str, name: &str) -> bool {
    let mut words = source.split(|c: char| !c.is_alphanumeric() && c != '_');
    let imports_all = source
        .split("import")
        .skip(1)
        .any(|rest| rest.trim_start().starts_with('*'));
    imports_all || words.any(|word| word == name)
}

/// The function of a Python module with the most similar name.
pub(super) fn closest_definition<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    closest(name, definitions(source))
}

/// The functions that a Python module defines at its top.
fn definitions(source: &str) -> impl Iterator<Item = &str> {
    let lines = source
        .lines()
        .map(|line| line.strip_prefix("async ").unwrap_or(line));
    let names = lines.filter_map(|line| line.strip_prefix("def ")?.split('(').next());
    names.map(str::trim)
}

/// Checks a command: with a `/` it is a path, otherwise it is searched on the PATH.
pub(super) fn check_command(rules: &mut Rules<'_>, tool: &View) {
    let Some(command) = rules.text(tool, "command") else {
        return;
    };
    if command.contains('/') {
        let missing = if rules.flag(tool, "required") == Some(false) {
            Diagnostic::warning
        } else {
            Diagnostic::error
        };
        rules.check_file(tool, "command", missing);
    } else if command.trim().contains(char::is_whitespace) && !rules.is_substituted(tool, "command") {
        let message = format!(
            "`command`{} must be a program, not a command line",
            rules.owner_suffix(tool)
        );
        let diagnostic = Diagnostic::warning(Code::BadFormat, message)
            .about(tool.path.pointer(Some("command")))
            .with_help("there is no shell; put the arguments in `args`");
        let place = rules.value_place(tool, "command");
        rules.add(place, diagnostic);
    }
}

pub(super) fn check_mcp(rules: &mut Rules<'_>, tool: &View) {
    if is_mocked(rules, tool) {
        return;
    }
    let transport = if rules.has(tool, "transport") {
        rules.text(tool, "transport")
    } else {
        Some("stdio")
    };
    match transport {
        Some("stdio") if rules.has(tool, "command") => check_command(rules, tool),
        Some("stdio") => {
            let what = "the program that starts the server, as in `npx`";
            rules.report_missing(tool, "command", ": transport `stdio` requires it", what);
        }
        Some(transport) => {
            if !rules.has(tool, "url") {
                let why = format!(": transport `{transport}` requires it");
                rules.report_missing(tool, "url", &why, "the URL of the server");
            }
            check_url(rules, tool);
        }
        None => {}
    }
    check_oauth(rules, tool, transport);
    rules.check_file(tool, "env_file", Diagnostic::warning);
    let encoding = rules.text(tool, "encoding").map(str::to_ascii_lowercase);
    if !matches!(encoding.as_deref(), None | Some("utf-8" | "utf8")) {
        rules.warn_no_effect(tool, "encoding", "messages of MCP servers are UTF-8");
    }
}

fn check_oauth(rules: &mut Rules<'_>, tool: &View, transport: Option<&str>) {
    if transport == Some("stdio") {
        rules.warn_no_effect(tool, "oauth", "only servers with a `url` have logins");
    }
    if let Some(oauth) = rules.child(tool, "oauth")
        && !rules.has(&oauth, "client_id")
    {
        rules.warn_no_effect(
            &oauth,
            "client_secret",
            "it is the secret of `client_id`, which is absent",
        );
    }
}

/// Checks that the URL is encrypted, unless the server is on this machine.
fn check_url(rules: &mut Rules<'_>, tool: &View) {
    let Some(url) = rules.text(tool, "url") else {
        return;
    };
    let lower = url.to_ascii_lowercase();
    let (scheme, rest) = lower.split_once("://").unwrap_or(("", &lower));
    let host_and_port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_and_port = host_and_port.rsplit('@').next().unwrap_or_default();
    let host = match host_and_port.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host_and_port.split(':').next().unwrap_or_default(),
    };
    let is_here = matches!(host, "localhost" | "127.0.0.1" | "::1");
    let allowed = match scheme {
        "https" | "wss" | "ws" => true,
        "http" => is_here,
        _ => false,
    };
    if allowed && !host.is_empty() {
        if scheme == "ws" && !is_here {
            let message = format!(
                "`url`{} is not encrypted: headers and messages can be read on their way",
                rules.owner_suffix(tool)
            );
            let diagnostic = Diagnostic::warning(Code::BadFormat, message)
                .about(tool.path.pointer(Some("url")))
                .with_help("write `wss://` if the server has it; a login is never sent over `ws://` to another machine");
            let place = rules.value_place(tool, "url");
            rules.add(place, diagnostic);
        }
        return;
    }
    let message = format!(
        "`url`{} must begin with `https://`, `wss://` or `ws://`",
        rules.owner_suffix(tool)
    );
    let diagnostic = Diagnostic::error(Code::BadFormat, message)
        .about(tool.path.pointer(Some("url")))
        .with_help("plain `http://` is allowed only for `localhost`, `127.0.0.1` and `[::1]`");
    let place = rules.value_place(tool, "url");
    rules.add(place, diagnostic);
}

fn check_prompt(rules: &mut Rules<'_>, tool: &View, provider: Option<&str>) {
    if is_mocked(rules, tool) {
        return;
    }
    rules.check_exactly_one(tool, "template", "file");
    rules.check_file(tool, "file", Diagnostic::error);
    if let Some(model) = rules.child(tool, "model") {
        check_prompt_model(rules, &model, provider);
    }
}

/// Checks a model of another provider, which uses no settings of the agent's model.
fn check_prompt_model(rules: &mut Rules<'_>, model: &View, agent: Option<&str>) {
    let Some(own) = rules.text(model, "provider") else {
        return;
    };
    if Some(own) == agent {
        return;
    }
    if !rules.has(model, "name") {
        let why = format!(": a model of provider `{own}` needs it");
        rules.report_missing(model, "name", &why, "the model's name");
    }
    check_model(rules, model);
}
