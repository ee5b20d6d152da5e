//! Forms that people bring: the line to write where a value has the wrong form.

use holodeck_model::{Code, Diagnostic};

use crate::{
    check::naming::shorten,
    shape::{Field, Record, ShapeId, ShapeKind, Shapes},
    yaml::{Entry, NodeId, Tree},
};

/// Characters of a text that a line to paste has at most.
const LONGEST: usize = 400;

/// How deep an example goes.
const DEPTH: usize = 3;

/// A value of the wrong form, as far as the line to write depends on it.
pub(crate) struct Found<'a> {
    /// Where it is, as in `evaluations.metrics.0`.
    pub(crate) pointer: &'a str,
    /// Its text, if it is a text that may be shown.
    pub(crate) text: Option<&'a str>,
    pub(crate) is_list: bool,
    /// The `name` in it, if it is a mapping.
    pub(crate) inner_name: Option<&'a str>,
}

/// The line to write instead of a value; none if the generic example of its shape says as much.
pub(crate) fn line(found: &Found<'_>) -> Option<String> {
    let steps: Vec<&str> = found.pointer.split('.').filter(|step| !is_index(step)).collect();
    let is_item = found.pointer.rsplit('.').next().is_some_and(is_index);
    let text = found.text.map(str::trim);
    match steps.as_slice() {
        ["instructions"] => Some(match text {
            Some(text) if is_path(text) => format!("instructions: {{file: {text}}}"),
            Some(text) => format!("instructions: {{inline: \"{}\"}}", quoted(text)),
            None => "instructions: {inline: \"…\"}".to_owned(),
        }),
        [.., "model"] => Some(format!("model: {}", model(text.unwrap_or("gpt-4o")))),
        [.., "judges"] if is_item => Some(format!("- {}", model(text.unwrap_or("gpt-4o")))),
        ["evaluations"] if found.is_list => {
            Some("evaluations: {metrics: [{type: standard, metric: contains, value: \"…\"}]}".to_owned())
        }
        ["evaluations", "metrics"] | [.., "evaluations" | "conversation_evaluations"] if is_item => {
            Some(format!("- {}", metric(text)))
        }
        ["tools"] if is_item => {
            let name = name(text.unwrap_or("stock"));
            Some(format!("- {}", function(&name)))
        }
        ["tools"] => Some(format!("tools: [{}]", function("stock"))),
        ["tools", "function"] => {
            let name = name(found.inner_name.unwrap_or("stock"));
            Some(format!(
                "the fields of the function itself, without `function:` around them: `- {}`",
                function(&name)
            ))
        }
        [.., "parameters", "type" | "required" | "properties" | "additionalProperties"] => Some(
            "the arguments themselves, without `type` and `properties` around them: `parameters: {city: {type: string}}`"
                .to_owned(),
        ),
        [.., "test_cases" | "turns"] if is_item => {
            Some(format!("- {{input: \"{}\"}}", quoted(text.unwrap_or("…"))))
        }
        [.., "messages"] if is_item => {
            Some(format!("- {{role: user, content: \"{}\"}}", quoted(text.unwrap_or("…"))))
        }
        [.., "files"] if is_item => Some(format!("- {{path: {}, type: text}}", text.unwrap_or("notes.txt"))),
        _ => None,
    }
}

fn is_index(step: &str) -> bool {
    !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text names a file rather than saying something.
fn is_path(text: &str) -> bool {
    let endings = [".md", ".txt", ".j2", ".jinja", ".prompt"];
    !text.contains(' ') && endings.iter().any(|ending| text.ends_with(ending))
}

/// A text between quotes of YAML, whole, since it is to be pasted; one that is long or has several lines is `…`.
pub(super) fn quoted(text: &str) -> String {
    let text = text.trim();
    if text.chars().count() > LONGEST || text.chars().any(char::is_control) {
        return "…".to_owned();
    }
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The line of `instructions` for the messages of a chat that begin with the system's.
pub(crate) fn prompt_of_messages(tree: &Tree, entry: &Entry) -> Option<String> {
    let is_messages = tree.key(entry) == "messages";
    let first = tree.items(entry.value)?.first().filter(|_| is_messages)?;
    let role = text_of(tree, *first, "role")?;
    let prompt = text_of(tree, *first, "content")?;
    ["system", "developer"]
        .contains(&role)
        .then(|| format!("instructions: {{inline: \"{}\"}}", quoted(prompt)))
}

/// A text as the name of a tool.
fn name(text: &str) -> String {
    let name: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if name.trim_matches('_').is_empty() {
        "stock".to_owned()
    } else {
        name
    }
}

fn function(name: &str) -> String {
    format!(
        "{{type: function, name: {name}, description: \"…\", parameters: {{city: {{type: string}}}}, file: tools.py, \
         function: {name}}}"
    )
}

fn metric(text: Option<&str>) -> String {
    let known = text.and_then(super::metric);
    known.unwrap_or_else(|| "{type: standard, metric: contains, value: \"…\"}".to_owned())
}

/// A model as one text, as in `openai:gpt-4o` or `anthropic/claude-sonnet-4-5`.
fn model(text: &str) -> String {
    let parts: Vec<&str> = text.split([':', '/']).filter(|part| !part.is_empty()).collect();
    let kinds = ["chat", "messages", "completion", "responses", "deployments"];
    let (provider, name) = match parts.as_slice() {
        [] => ("openai", "gpt-4o"),
        [name] if name.starts_with("claude") => ("anthropic", *name),
        [name] => ("openai", *name),
        [provider, kind, .., name] if kinds.contains(kind) => (*provider, *name),
        [provider, .., name] => (*provider, *name),
    };
    let ours = ["openai", "azure_openai", "anthropic", "ollama"].into_iter();
    let mut ours = ours.filter(|ours| super::normalise(ours) == super::normalise(provider));
    if let Some(provider) = ours.next() {
        return format!("{{provider: {provider}, name: {name}}}");
    }
    let known = super::ForeignProvider::named(provider);
    let (provider, endpoint) = known.map_or(("openai", "https://…/v1"), |it| (it.provider, it.endpoint));
    match endpoint {
        "" => format!("{{provider: {provider}, name: {name}}}"),
        endpoint => format!("{{provider: {provider}, name: {name}, endpoint: \"{endpoint}\"}}"),
    }
}

/// Reports a file of docker agent, which has several agents.
pub(super) fn docker_agent(tree: &Tree, root: NodeId) -> Option<Diagnostic> {
    let agents = tree.entries(tree.get(root, "agents")?.value)?;
    let is_agent = |entry: &&Entry| {
        let has = |key: &str| tree.get(entry.value, key).is_some();
        has("instruction") || has("toolsets") || has("sub_agents")
    };
    let agent = agents.iter().find(is_agent)?;
    let text = |key: &str| text_of(tree, agent.value, key);
    let lines = own_lines(
        tree.key(agent),
        text("model").unwrap_or("openai/gpt-4o"),
        text("instruction").unwrap_or("…"),
    );
    Some(
        Diagnostic::error(
            Code::UnknownField,
            "this is a configuration of docker agent, not an agent file",
        )
        .with_help(format!("an agent file has one agent: write {lines}")),
    )
}

/// Reports a file of crewAI: agents with a role and a story.
pub(super) fn crew(tree: &Tree, root: NodeId) -> Option<Diagnostic> {
    const FIELDS: [&str; 3] = ["role", "goal", "backstory"];
    let is_agent = |entry: &&Entry| {
        let fields = FIELDS.iter().filter(|key| tree.get(entry.value, key).is_some());
        fields.count() > 1
    };
    let agent = tree.entries(root)?.iter().find(is_agent)?;
    let texts = FIELDS.iter().filter_map(|key| text_of(tree, agent.value, key));
    let texts: Vec<&str> = texts.map(|text| text.trim().trim_end_matches('.')).collect();
    let text = |key: &str| text_of(tree, agent.value, key);
    let lines = own_lines(
        tree.key(agent),
        text("llm").unwrap_or("openai/gpt-4o"),
        &texts.join(". "),
    );
    Some(
        Diagnostic::error(
            Code::UnknownField,
            "this is a file of agents for crewAI, not an agent file",
        )
        .with_help(format!("an agent file has one agent: write {lines}")),
    )
}

/// The lines of an agent that another tool has.
fn own_lines(agent: &str, model_name: &str, instructions: &str) -> String {
    format!(
        "`name: {}`, `model: {}` and `instructions: {{inline: \"{}\"}}`",
        name(agent),
        model(model_name),
        quoted(instructions)
    )
}

/// The text of a field, unless it came from a variable.
pub(super) fn text_of<'t>(tree: &'t Tree, node: NodeId, key: &str) -> Option<&'t str> {
    let scalar = tree.scalar(tree.get(node, key)?.value)?;
    (!scalar.substituted).then_some(scalar.text)
}

/// The arguments in a JSON Schema, in our form: `{sku: {type: string}}`.
pub(crate) fn arguments_of_schema(tree: &Tree, schema: NodeId) -> Option<String> {
    let is_object = text_of(tree, schema, "type") == Some("object");
    let properties = tree.entries(tree.get(schema, "properties")?.value)?;
    if !is_object {
        return None;
    }
    let shown = properties.iter().take(3).map(|entry| {
        let kind = text_of(tree, entry.value, "type").unwrap_or("string");
        format!("{}: {{type: {}}}", shorten(tree.key(entry)), shorten(kind))
    });
    let shown: Vec<String> = shown.collect();
    Some(format!("{{{}}}", shown.join(", ")))
}

/// A value of this kind, in one line.
pub(crate) fn example(shapes: &Shapes, kind: &ShapeKind) -> String {
    example_of(shapes, kind, DEPTH)
}

fn example_of(shapes: &Shapes, kind: &ShapeKind, depth: usize) -> String {
    let inner = |id: &ShapeId| example_of(shapes, &shapes.get(*id).kind, depth.saturating_sub(1));
    match kind {
        ShapeKind::Any | ShapeKind::Text(_) => "\"…\"".to_owned(),
        ShapeKind::Bool => "true".to_owned(),
        ShapeKind::Integer { min, max } => (*min).max(1).min(*max).to_string(),
        ShapeKind::Number { min, .. } => min.filter(|min| *min > 0.5).unwrap_or(0.5).to_string(),
        ShapeKind::Choice(choices) => choices.first().cloned().unwrap_or_default(),
        ShapeKind::List { items, .. } => format!("[{}]", inner(items)),
        ShapeKind::Table { values, .. } => format!("{{name: {}}}", inner(values)),
        ShapeKind::Record(record) => format!("{{{}}}", fields_of(shapes, record, depth, &[])),
        ShapeKind::Tagged { variants, .. } => match variants.first() {
            Some((tag, record)) => {
                let tag = format!("type: {tag}");
                format!("{{{}}}", fields_of(shapes, record, depth, &[tag]))
            }
            None => "{type: \"…\"}".to_owned(),
        },
        ShapeKind::Either(alternatives) => {
            // A mapping says most.
            let is_mapping = |id: &&ShapeId| {
                matches!(
                    shapes.get(**id).kind,
                    ShapeKind::Record(_) | ShapeKind::Table { .. } | ShapeKind::Tagged { .. }
                )
            };
            let chosen = alternatives.iter().find(is_mapping).or(alternatives.first());
            chosen.map_or_else(|| "\"…\"".to_owned(), inner)
        }
    }
}

/// The required fields, else the first one that has an effect.
fn fields_of(shapes: &Shapes, record: &Record, depth: usize, before: &[String]) -> String {
    let mut shown: Vec<(&String, &Field)> =
        record.fields.iter().filter(|(_, field)| field.required).collect();
    if shown.is_empty() {
        shown.extend(record.fields.iter().find(|(_, field)| field.no_effect.is_none()));
    }
    let mut parts = before.to_vec();
    parts.extend(shown.into_iter().map(|(name, field)| {
        let value = if depth == 0 {
            "…".to_owned()
        } else {
            example_of(shapes, &shapes.get(field.shape).kind, depth - 1)
        };
        format!("{name}: {value}")
    }));
    parts.join(", ")
}
