//! The reference of metrics: each with its meaning and a complete agent file.

use holodeck::model::closest;
use serde_json::Value;

use super::{Schema, choices, constants, description};

#[cfg(debug_assertions)]
const BEFORE: &str = include_str!("before_metrics.md");

/// One case for each metric.
const EXAMPLES: &str = include_str!("metric_examples.yaml");

/// The agent of every example, up to its cases.
const AGENT: &str = "model: {provider: openai, name: gpt-4o-mini}
instructions: {inline: Answer questions about our lamps and orders.}
test_cases:
";

/// A metric as the schema describes it.
struct Metric<'a> {
    name: &'a str,
    about: &'a str,
    fields: Vec<&'a str>,
}

/// Every metric, in the order of the schema.
fn metrics(schema: &Value) -> Vec<Metric<'_>> {
    let tree = Schema::new(schema);
    let all = schema.pointer("/$defs/MetricConfig").unwrap_or(&Value::Null);
    let mut found = Vec::new();
    for record in tree.records(all) {
        let fields: Vec<&str> = record.properties.keys().map(String::as_str).collect();
        let names = ["metric", "metric_type"]
            .into_iter()
            .find_map(|key| constants(tree.resolve(record.properties.get(key)?)));
        // A type that is one metric is described itself.
        let names = names.unwrap_or_else(|| {
            let kind = record.variant.unwrap_or_default();
            let own = choices(tree.resolve(all)).into_iter().find(|choice| {
                choice.pointer("/properties/type/const").and_then(Value::as_str) == record.variant
            });
            vec![(kind, own.map(description).unwrap_or_default())]
        });
        found.extend(names.into_iter().map(|(name, about)| Metric {
            name,
            about,
            fields: fields.clone(),
        }));
    }
    found
}

/// A complete agent file with a case for the metric.
fn example(metric: &str) -> Option<String> {
    let case = EXAMPLES
        .split("## ")
        .find_map(|part| part.strip_prefix(metric)?.strip_prefix('\n'))?;
    Some(format!(
        "name: {}-example\n{AGENT}{case}",
        metric.replace('_', "-")
    ))
}

/// The meaning of a metric with an agent that uses it; else a similar name.
pub(crate) fn explain_metric(schema: &Value, wanted: &str) -> Result<String, Option<String>> {
    let metrics = metrics(schema);
    let Some(metric) = metrics.iter().find(|metric| metric.name == wanted) else {
        let near = closest(wanted, metrics.iter().map(|metric| metric.name));
        return Err(near.map(str::to_owned));
    };
    let mut text = format!("{wanted}\n  {}\n", metric.about);
    text.push_str(&format!("  fields    {}\n", metric.fields.join(", ")));
    if let Some(example) = example(wanted) {
        text.push('\n');
        text.push_str(&example);
    }
    Ok(text)
}

/// An example of every metric, in Markdown.
#[cfg(debug_assertions)]
pub(crate) fn metric_page(schema: &Value) -> String {
    let mut page = BEFORE.to_owned();
    for metric in metrics(schema) {
        let example = example(metric.name).unwrap_or_default();
        page.push_str(&format!(
            "\n## `{}`\n\n{}\n\n```yaml\n{example}```\n",
            metric.name, metric.about
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use holodeck::yaml;

    use super::*;

    #[test]
    fn every_metric_has_its_meaning_and_a_complete_example_that_uses_it() {
        let schema = yaml::json_schema();
        let metrics = metrics(&schema);
        assert!(metrics.len() > 30, "{}", metrics.len());
        for Metric { name, about, .. } in &metrics {
            assert!(!about.is_empty(), "`{name}` has no meaning");
            let text = explain_metric(&schema, name).unwrap();
            let line = text.lines().find(|line| {
                let line = line.trim_start_matches(['-', ' ', '{']);
                ["metric: ", "metric_type: ", "type: "]
                    .iter()
                    .any(|key| line.contains(&format!("{key}{name}")))
            });
            assert!(line.is_some(), "{text}");
        }
        let examples = EXAMPLES.split("\n## ").skip(1).count();
        assert_eq!(examples, metrics.len(), "an example of no metric, or two of one");
    }

    #[test]
    fn a_metric_that_is_unknown_brings_the_nearest_one() {
        assert_eq!(
            explain_metric(&yaml::json_schema(), "ruge"),
            Err(Some("rouge".to_owned()))
        );
    }
}
