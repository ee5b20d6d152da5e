//! The JSON Schemas of an agent: `response_format`, `parameters` of tools, and those of `json_schema` metrics.

use holodeck_model::{Code, Diagnostic, MAX_CLAUDE_SCHEMA_BYTES, MetricConfig, ToolConfig, closest};
use holodeck_yaml::LoadedAgent;
use serde_json::Value;

/// Keywords that restrict what a schema accepts.
const ASSERTIONS: &[&str] = &[
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Annotations, including those of OpenAPI.
const ANNOTATIONS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$id",
    "$recursiveAnchor",
    "$schema",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "discriminator",
    "example",
    "examples",
    "externalDocs",
    "id",
    "nullable",
    "readOnly",
    "title",
    "writeOnly",
    "xml",
];

/// The values of `format` that are checked; any other one restricts nothing.
const FORMATS: &[&str] = &[
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// Keywords whose values are mappings of schemas.
const MAPS: &[&str] = &[
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

/// Keywords whose values are a schema, or a list of schemas.
const SCHEMAS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// The schema of a gate, in messages.
const OF_METRIC: &str = "`schema` of metric `json_schema`";

/// Reports schemas that are not valid, accept everything, or have misspelt keywords.
pub fn check_schemas(agent: &LoadedAgent) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(schema) = &agent.response_format {
        check(agent, "response_format", "`response_format`", schema, &mut found);
        let is_long = schema.to_string().len() > MAX_CLAUDE_SCHEMA_BYTES;
        if is_long && agent.config.is_claude() {
            let message = format!(
                "`response_format` is longer than {} KiB, the limit of the Claude Code CLI",
                MAX_CLAUDE_SCHEMA_BYTES / 1024
            );
            let error = Diagnostic::error(Code::BadSchema, message).with_help("shorten its descriptions");
            found.push(placed(agent, "response_format", error));
        }
    }
    for (index, tool) in agent.config.tools.iter().enumerate() {
        let schema = match tool {
            ToolConfig::Function(tool) => tool.parameters_schema(),
            ToolConfig::Prompt(tool) => Some(tool.parameters_schema()),
            _ => None,
        };
        if let Some(schema) = schema {
            let what = format!("`parameters` of tool `{}`", tool.name());
            check(
                agent,
                &format!("tools.{index}.parameters"),
                &what,
                &schema,
                &mut found,
            );
        }
    }
    for (place, metric) in agent.config.metrics(None) {
        let MetricConfig::Standard(metric) = metric else {
            continue;
        };
        if let Some(schema) = metric.schema.as_ref().and_then(|schema| schema.value()) {
            let pointer = format!("{}.schema", place.pointer());
            let what = OF_METRIC;
            check(agent, &pointer, what, schema, &mut found);
            if accepts_everything(schema) {
                let message = format!("{what} accepts every JSON value");
                let error = Diagnostic::error(Code::BadSchema, message)
                    .with_help("add constraints, or use `json_valid`");
                found.push(placed(agent, &pointer, error));
            }
        }
    }
    found
}

fn check(agent: &LoadedAgent, pointer: &str, what: &str, schema: &Value, found: &mut Vec<Diagnostic>) {
    if let Err(error) = jsonschema::validator_for(schema) {
        let path = error.instance_path().to_string();
        let at = if path.is_empty() {
            String::new()
        } else {
            format!(" at `{path}`")
        };
        let message = format!("{what} is not a valid JSON Schema{at}: {error}");
        let inner = format!("{pointer}{}", path.replace('/', "."));
        let mut error = Diagnostic::error(Code::BadSchema, message);
        if schema.get("json_schema").is_some() {
            // The form of a request to OpenAI.
            error = error.with_help(format!(
                "write the schema itself, without `type: json_schema` around it: `{pointer}: {{type: object, properties: {{city: \
                 {{type: string}}}}}}`"
            ));
        }
        found.push(placed(agent, &inner, error));
    }
    warn_misspelt(agent, pointer, what, schema, found);
}

/// A schema with an unknown keyword is valid, and accepts more than it seems to.
fn warn_misspelt(
    agent: &LoadedAgent,
    pointer: &str,
    what: &str,
    schema: &Value,
    found: &mut Vec<Diagnostic>,
) {
    let Some(keywords) = schema.as_object() else {
        return;
    };
    let known = || ASSERTIONS.iter().chain(ANNOTATIONS).copied();
    for (keyword, value) in keywords {
        let inner = format!("{pointer}.{keyword}");
        if MAPS.contains(&keyword.as_str()) {
            for (name, schema) in value.as_object().into_iter().flatten() {
                warn_misspelt(agent, &format!("{inner}.{name}"), what, schema, found);
            }
        } else if SCHEMAS.contains(&keyword.as_str()) {
            warn_misspelt(agent, &inner, what, value, found);
            for (index, schema) in value.as_array().into_iter().flatten().enumerate() {
                warn_misspelt(agent, &format!("{inner}.{index}"), what, schema, found);
            }
        } else if let ("format", Some(format)) = (keyword.as_str(), value.as_str()) {
            found.extend(unknown_format(what, format).map(|warning| placed(agent, &inner, warning)));
        } else if !keyword.starts_with("x-")
            && !known().any(|known| known == keyword)
            && let Some(meant) = closest(keyword, known())
        {
            let message = format!("{what} has an unknown keyword `{keyword}`, which restricts nothing");
            let warning =
                Diagnostic::warning(Code::BadSchema, message).with_inline(format!("did you mean `{meant}`?"));
            found.push(placed(agent, &inner, warning));
        }
    }
}

/// A warning of a `format` that nothing checks. Models read the schemas of tools and answers, and know more formats.
fn unknown_format(what: &str, format: &str) -> Option<Diagnostic> {
    if FORMATS.contains(&format) {
        return None;
    }
    let meant = closest(format, FORMATS.iter().copied());
    if meant.is_none() && what != OF_METRIC {
        return None;
    }
    let message = format!("{what} has the unknown format `{format}`, which restricts nothing");
    let warning = Diagnostic::warning(Code::BadSchema, message);
    Some(match meant {
        Some(meant) => warning.with_inline(format!("did you mean `{meant}`?")),
        None => warning.with_help("use `pattern`, or a format of JSON Schema"),
    })
}

fn accepts_everything(schema: &Value) -> bool {
    match schema {
        Value::Bool(accepts) => *accepts,
        Value::Object(keywords) => !keywords
            .keys()
            .any(|keyword| ASSERTIONS.contains(&keyword.as_str())),
        _ => false,
    }
}

/// At the nearest part of the YAML: a schema may be in its own file, and `parameters` are rearranged.
fn placed(agent: &LoadedAgent, pointer: &str, diagnostic: Diagnostic) -> Diagnostic {
    let mut near = pointer;
    let place = loop {
        match (agent.locate(near), near.rsplit_once('.')) {
            (Some(place), _) => break Some(place),
            (None, Some((owner, _))) => near = owner,
            (None, None) => break None,
        }
    };
    diagnostic.at(place).about(near)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod completed_tests;
