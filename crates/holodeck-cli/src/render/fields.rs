//! The fields of files and events, read out of their JSON Schema: the description of one, or a page of all.

mod metrics;
#[cfg(debug_assertions)]
mod page;

pub(crate) use metrics::explain_metric;
#[cfg(debug_assertions)]
pub(crate) use metrics::metric_page;
#[cfg(debug_assertions)]
pub(crate) use page::{event_page, field_page, run_file_page};

use holodeck::model::closest;
use serde_json::{Map, Value};

/// A JSON Schema with its definitions.
pub(crate) struct Schema<'a> {
    root: &'a Value,
}

/// The fields of a mapping; several of them for one whose `type` decides which it has.
struct Record<'a> {
    /// The `type` that the mapping has, where that decides its fields.
    variant: Option<&'a str>,
    properties: &'a Map<String, Value>,
    required: Vec<&'a str>,
}

/// A field and where it stands.
pub(crate) struct Field<'a> {
    /// Without the marks of lists: `tools.url`.
    path: String,
    /// As it is written in texts: `tools[].url`.
    shown: String,
    variants: Vec<&'a str>,
    required: bool,
    schema: &'a Value,
}

/// The words for a value that is true or false.
const SWITCH: &str = "`true` or `false`";

/// Deeper than the language: a definition may contain itself.
const MAX_DEPTH: usize = 12;

impl<'a> Schema<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        Self { root }
    }

    /// The name of the definition that a schema points to.
    fn name(schema: &Value) -> Option<&str> {
        schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
    }

    /// The schema behind references and behind "or null".
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        if let Some(name) = Self::name(schema) {
            let target = self.root.get("$defs").and_then(|all| all.get(name));
            return target.map_or(schema, |target| self.resolve(target));
        }
        let choices = choices(schema);
        match choices.as_slice() {
            [only] => self.resolve(only),
            _ => schema,
        }
    }

    /// The mappings that a value may be, itself or as an item.
    fn records(&self, schema: &'a Value) -> Vec<Record<'a>> {
        let schema = self.resolve(schema);
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let kind = properties.get("type").and_then(|kind| kind.get("const"));
            let required = schema.get("required").and_then(Value::as_array);
            return vec![Record {
                variant: kind.and_then(Value::as_str),
                properties,
                required: required.into_iter().flatten().filter_map(Value::as_str).collect(),
            }];
        }
        if let Some(items) = schema.get("items") {
            return self.records(items);
        }
        if let Some(values) = schema.get("additionalProperties").filter(|it| it.is_object()) {
            return self.records(values);
        }
        choices(schema)
            .into_iter()
            .flat_map(|choice| self.records(choice))
            .collect()
    }

    /// The marks that follow the name of a field whose items or values are mappings.
    fn mark(&self, schema: &'a Value) -> &'static str {
        let schema = self.resolve(schema);
        let is_list = |schema: &Value| schema.get("items").is_some();
        if is_list(schema) || choices(schema).iter().any(|choice| is_list(self.resolve(choice))) {
            "[]"
        } else if schema.get("additionalProperties").is_some_and(Value::is_object) {
            ".NAME"
        } else {
            ""
        }
    }

    /// Every field, depth first, in the order of the schema.
    pub(crate) fn fields(&self) -> Vec<Field<'a>> {
        let mut found = Vec::new();
        self.collect(self.root, "", "", &[], &mut found);
        found
    }

    fn collect(
        &self,
        schema: &'a Value,
        path: &str,
        shown: &str,
        variants: &[&'a str],
        found: &mut Vec<Field<'a>>,
    ) {
        if path.split('.').count() > MAX_DEPTH {
            return;
        }
        for record in self.records(schema) {
            let mut variants = variants.to_vec();
            variants.extend(record.variant);
            for (name, schema) in record.properties {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                let shown = if shown.is_empty() {
                    name.clone()
                } else {
                    format!("{shown}.{name}")
                };
                let below = format!("{shown}{}", self.mark(schema));
                // The same judges, turns and metrics stand in several places, one inside the other.
                let again = path.split('.').filter(|part| part == name).count() > 1;
                found.push(Field {
                    path: path.clone(),
                    shown,
                    variants: variants.clone(),
                    required: record.required.contains(&name.as_str()),
                    schema,
                });
                if !again {
                    self.collect(schema, &path, &below, &variants, found);
                }
            }
        }
    }

    /// The type of a value, in words: `integer from 1 to 3`.
    fn words(&self, schema: &'a Value) -> String {
        let schema = self.resolve(schema);
        if let Some(values) = constants(schema) {
            let values: Vec<_> = values.iter().map(|(value, _)| format!("`{value}`")).collect();
            return values.join(", ");
        }
        let choices = choices(schema);
        if !choices.is_empty() {
            let mut words: Vec<String> = choices.iter().map(|choice| self.words(choice)).collect();
            words.dedup();
            return words.join(" or ");
        }
        let kinds: Vec<&str> = match schema.get("type") {
            Some(Value::String(kind)) => vec![kind.as_str()],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut words: Vec<String> = Vec::new();
        for kind in kinds.into_iter().filter(|kind| *kind != "null") {
            words.push(match kind {
                "array" => match schema.get("items").filter(|items| items.is_object()) {
                    Some(items) => format!("list of {}", self.plural(items)),
                    None => "list".to_owned(),
                },
                "object" => match schema.get("additionalProperties").filter(|it| it.is_object()) {
                    Some(values) => format!("fields of any name, each {}", self.words(values)),
                    None => "fields".to_owned(),
                },
                "boolean" => SWITCH.to_owned(),
                "integer" | "number" => format!("{kind}{}", range(schema)),
                "string" => "text".to_owned(),
                kind => kind.to_owned(),
            });
        }
        if words.is_empty() {
            "any value".to_owned()
        } else {
            words.join(" or ")
        }
    }

    fn plural(&self, items: &'a Value) -> String {
        match self.words(items).as_str() {
            "text" => "texts".to_owned(),
            "fields" => "entries with fields".to_owned(),
            words if words.starts_with("integer") || words.starts_with("number") => words
                .replacen("integer", "integers", 1)
                .replacen("number", "numbers", 1),
            words => words.to_owned(),
        }
    }
}

/// The schemas of which a value follows one, without "null".
fn choices(schema: &Value) -> Vec<&Value> {
    let is_null = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("null");
    let all = ["anyOf", "oneOf"]
        .iter()
        .filter_map(|key| schema.get(key)?.as_array());
    all.flatten().filter(|choice| !is_null(choice)).collect()
}

/// The texts of which a value is one, with their meanings.
fn constants(schema: &Value) -> Option<Vec<(&str, &str)>> {
    if let Some(value) = schema.get("const").and_then(Value::as_str) {
        return Some(vec![(value, description(schema))]);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(
            values
                .iter()
                .filter_map(Value::as_str)
                .map(|value| (value, ""))
                .collect(),
        );
    }
    let choices = choices(schema);
    if choices.is_empty() || choices.iter().any(|choice| choice.get("properties").is_some()) {
        return None;
    }
    let each: Option<Vec<_>> = choices.into_iter().map(constants).collect();
    Some(each?.concat())
}

fn description(schema: &Value) -> &str {
    schema
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// ` from 1 to 3`, ` from 0`, or nothing.
fn range(schema: &Value) -> String {
    let bound = |key: &str| {
        let number = schema.get(key)?.as_f64()?;
        Some(format!("{number}"))
    };
    let least = bound("minimum").map(|least| format!(" from {least}"));
    let above = bound("exclusiveMinimum").map(|least| format!(" above {least}"));
    let most = bound("maximum").map(|most| format!(" to {most}"));
    let below = bound("exclusiveMaximum").map(|most| format!(" below {most}"));
    [least, above, most, below].into_iter().flatten().collect()
}

/// The default as it is written in YAML; the absence of a value says nothing.
fn default(schema: &Value) -> Option<String> {
    match schema.get("default")? {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(fields) if fields.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// The example of a field, as YAML in one line.
fn example(schema: &Value) -> Option<String> {
    match schema.pointer("/examples/0")? {
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// The description of the field at a path, or of all fields whose path ends like this; else names that are similar.
pub(crate) fn explain_field(schema: &Value, path: &str) -> Result<String, Option<String>> {
    let wanted: Vec<&str> = path
        .split(['.', '[', ']'])
        .filter(|part| !part.is_empty() && *part != "NAME")
        .collect();
    let wanted = wanted.join(".");
    let tree = Schema::new(schema);
    let fields = tree.fields();
    let found = find(&fields, &wanted);
    if found.is_empty() {
        let near = closest(&wanted, fields.iter().map(|field| field.path.as_str()));
        let last = wanted.rsplit('.').next().unwrap_or_default();
        let names = || fields.iter().filter_map(|field| field.path.rsplit('.').next());
        return Err(near.or_else(|| closest(last, names())).map(str::to_owned));
    }
    let mut text = String::new();
    let mut before: Vec<String> = Vec::new();
    for field in found {
        let lines = tree.explain(field);
        // A field that every kind of tool or metric has is explained once.
        if before.contains(&lines) {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&field.title());
        text.push('\n');
        text.push_str(&lines);
        before.push(lines);
    }
    Ok(text)
}

/// The fields at a path, else those whose path ends like it.
fn find<'f, 'a>(fields: &'f [Field<'a>], wanted: &str) -> Vec<&'f Field<'a>> {
    let found: Vec<_> = fields.iter().filter(|field| field.is_at(wanted)).collect();
    if !found.is_empty() {
        return found;
    }
    let end = format!(".{wanted}");
    fields.iter().filter(|field| field.path.ends_with(&end)).collect()
}

impl Field<'_> {
    /// Whether the field is at the path; the `type` of a list's entry may stand in it, as in `tools.mcp.url`.
    fn is_at(&self, wanted: &str) -> bool {
        if self.path == wanted {
            return true;
        }
        let own: Vec<&str> = self.path.split('.').collect();
        let mut own = own.into_iter().peekable();
        let mut variants = self.variants.iter().copied().peekable();
        for part in wanted.split('.') {
            if own.peek() == Some(&part) {
                own.next();
            } else if variants.any(|variant| variant == part) {
            } else {
                return false;
            }
        }
        own.next().is_none()
    }

    fn title(&self) -> String {
        let Some(variant) = self.variants.last() else {
            return self.shown.clone();
        };
        format!("{} (type: {variant})", self.shown)
    }
}

impl<'a> Schema<'a> {
    /// The lines below the name of a field.
    fn explain(&self, field: &Field<'a>) -> String {
        let mut text = format!("  {}\n", own_description(self, field.schema).replace('\n', " "));
        let resolved = self.resolve(field.schema);
        let values =
            constants(resolved).filter(|values| values.iter().any(|(_, meaning)| !meaning.is_empty()));
        if values.is_none() {
            text.push_str(&format!("  type      {}\n", self.words(field.schema)));
        }
        if let Some(default) = default(field.schema) {
            text.push_str(&format!("  default   {default}\n"));
        }
        if let Some(example) = example(field.schema) {
            text.push_str(&format!("  example   {example}\n"));
        }
        if field.required {
            text.push_str("  required\n");
        }
        let values = values.unwrap_or_default();
        let width = values.iter().map(|(value, _)| value.len()).max().unwrap_or(0);
        for (value, meaning) in values {
            text.push_str(&format!("    {value:width$}  {}\n", meaning.replace('\n', " ")));
        }
        for record in self.records(field.schema) {
            let names: Vec<&str> = record.properties.keys().map(String::as_str).collect();
            let kind = record
                .variant
                .map_or_else(String::new, |kind| format!(" of type {kind}"));
            text.push_str(&format!("  fields{kind}: {}\n", names.join(", ")));
        }
        text
    }
}

/// The description of a field, or of the definition that it points to.
fn own_description<'a>(tree: &Schema<'a>, schema: &'a Value) -> &'a str {
    match description(schema) {
        "" => description(tree.resolve(schema)),
        own => own,
    }
}

#[cfg(test)]
mod tests {
    use holodeck::yaml;

    use super::*;

    #[test]
    fn every_field_is_explained_at_its_path_and_at_the_path_with_its_type() {
        for schema in [yaml::json_schema(), yaml::config_json_schema()] {
            let tree = Schema::new(&schema);
            let fields = tree.fields();
            assert!(fields.len() > 50, "{}", fields.len());
            for field in &fields {
                let found = find(&fields, &field.path);
                assert!(
                    found.iter().any(|found| found.shown == field.shown),
                    "{}",
                    field.path
                );
                let text = tree.explain(field);
                let is_type = field.path.rsplit('.').next() == Some("type");
                let about = text.lines().next().unwrap_or_default().trim();
                assert!(
                    !about.is_empty() || is_type,
                    "`{}` has no description",
                    field.path
                );
            }
        }
    }

    #[test]
    fn a_type_in_the_path_selects_the_field_of_that_type() {
        let schema = yaml::json_schema();
        let text = explain_field(&schema, "tools.hierarchical_document.top_k").unwrap();
        assert!(
            text.starts_with("tools[].top_k (type: hierarchical_document)\n"),
            "{text}"
        );
        assert!(!text.contains("vectorstore"), "{text}");
        assert!(text.contains("  default   10\n"), "{text}");
        let all = explain_field(&schema, "tools[].top_k").unwrap();
        assert!(
            all.contains("(type: vectorstore)") && all.contains("(type: hierarchical_document)"),
            "{all}"
        );
    }

    #[test]
    fn a_name_that_is_unknown_brings_the_nearest_one() {
        let schema = yaml::json_schema();
        assert_eq!(
            explain_field(&schema, "modle.name"),
            Err(Some("model.name".to_owned()))
        );
        assert_eq!(explain_field(&schema, "qqqqqqqqqqqq"), Err(None));
    }

    #[test]
    fn ranges_of_numbers_are_written_out() {
        let tree = serde_json::json!({});
        let schema = Schema::new(&tree);
        for (json, words) in [
            (
                serde_json::json!({"type": ["integer", "null"], "minimum": 1, "maximum": 3}),
                "integer from 1 to 3",
            ),
            (
                serde_json::json!({"type": "number", "exclusiveMinimum": 0}),
                "number above 0",
            ),
            (
                serde_json::json!({"type": "array", "items": {"type": "string"}}),
                "list of texts",
            ),
            (
                serde_json::json!({"anyOf": [{"type": "string"}, {"type": "boolean"}]}),
                "text or `true` or `false`",
            ),
            (serde_json::json!({}), "any value"),
        ] {
            assert_eq!(schema.words(&json), words);
        }
    }
}
