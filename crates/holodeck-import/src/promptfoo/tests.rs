//! The tests of a configuration: inline, in files, from functions, and scenarios.

use std::path::Path;

use holodeck_yaml::{ForeignNode, ForeignValue};
use serde_json::{Map, Value};

use super::Importer;
use crate::{
    ImportError,
    code::{CodeRequest, Language},
    reader::{read_lines, read_node, read_rows, read_text},
    template::{javascript_text, render},
};

/// A test with what `defaultTest` and a scenario add, for one combination of its variables.
pub(super) struct Test {
    pub(super) name: Option<String>,
    pub(super) at: ForeignNode,
    pub(super) vars: Map<String, Value>,
    pub(super) assertions: Vec<ForeignNode>,
    pub(super) threshold: Option<f64>,
    /// `options` of the test over those of `defaultTest`, as far as they are known.
    pub(super) judge: Option<ForeignNode>,
    pub(super) prefix: String,
    pub(super) suffix: String,
    /// The answer that the test brings along.
    pub(super) answer: Option<ForeignNode>,
}

/// The parts of a test, of `defaultTest` and of an item of a scenario, which are merged in this order.
const TEST_KEYS: &[&str] = &[
    "description",
    "vars",
    "assert",
    "threshold",
    "options",
    "metadata",
    "providerOutput",
    "tags",
];

impl Importer<'_> {
    pub(super) fn tests(&mut self, config: &ForeignNode) -> Result<Vec<Test>, ImportError> {
        let default = match config.get("defaultTest") {
            Some(node) => match node.text() {
                Some(reference) => Some(self.read_data(reference)?),
                None => Some(node.clone()),
            },
            None => None,
        };
        let layers: Vec<ForeignNode> = default.into_iter().collect();
        for layer in &layers {
            self.check_keys(layer);
        }
        let left_out = self.findings.left_out_count();
        let mut tests = Vec::new();
        if let Some(nodes) = config.get("tests") {
            for node in self.test_nodes(nodes)? {
                self.add_test(&layers, &node, &mut tests)?;
            }
        }
        let scenarios = config
            .get("scenarios")
            .and_then(ForeignNode::items)
            .unwrap_or_default();
        for scenario in scenarios {
            self.add_scenario(&layers, scenario, &mut tests)?;
        }
        let is_known = self.findings.left_out_count() == left_out;
        if tests.is_empty() && is_known && config.get("scenarios").is_none() {
            // promptfoo then sends each prompt once, without variables.
            let node = ForeignNode::new(config.path.clone(), config.line, ForeignValue::Map(Vec::new()));
            self.add_test(&layers, &node, &mut tests)?;
        }
        Ok(tests)
    }

    fn add_scenario(
        &mut self,
        layers: &[ForeignNode],
        scenario: &ForeignNode,
        tests: &mut Vec<Test>,
    ) -> Result<(), ImportError> {
        let (Some(configs), Some(nodes)) = (scenario.get("config"), scenario.get("tests")) else {
            self.findings
                .left_out(scenario, "a scenario without `config` and `tests`", "");
            return Ok(());
        };
        let nodes = self.test_nodes(nodes)?;
        for config in self.test_nodes(configs)? {
            self.check_keys(&config);
            let layers: Vec<ForeignNode> = layers.iter().cloned().chain([config]).collect();
            for node in &nodes {
                self.add_test(&layers, node, tests)?;
            }
        }
        Ok(())
    }

    /// The tests that a value names: a list of them, a file, or a list of files.
    fn test_nodes(&mut self, node: &ForeignNode) -> Result<Vec<ForeignNode>, ImportError> {
        let mut nodes = Vec::new();
        match &node.value {
            ForeignValue::List(items) => {
                for item in items {
                    if item.text().is_some() {
                        nodes.extend(self.test_nodes(item)?);
                    } else {
                        nodes.push(item.clone());
                    }
                }
            }
            ForeignValue::Text(reference) => {
                if reference.contains("://") && !reference.starts_with("file://") {
                    self.findings.left_out(
                        node,
                        format!("tests from `{reference}`, which is not fetched"),
                        "a file beside the configuration",
                    );
                } else if let Some((language, file, function)) = Language::of(reference) {
                    nodes.extend(self.generated_tests(language, file, function, node));
                } else {
                    for path in self.matching(reference)? {
                        nodes.extend(self.test_file(&path, node)?);
                    }
                }
            }
            _ => self
                .findings
                .left_out(node, "`tests` in an unknown form", "a list or `file://`"),
        }
        Ok(nodes)
    }

    fn generated_tests(
        &mut self,
        language: Language,
        file: &str,
        function: Option<&str>,
        node: &ForeignNode,
    ) -> Vec<ForeignNode> {
        let request = CodeRequest {
            language,
            file: self.source_path(file),
            function: function
                .map(str::to_owned)
                .or((language == Language::Python).then(|| "generate_tests".to_owned())),
            arguments: Some(Vec::new()),
        };
        match self.run(&request, node) {
            Ok(Value::Array(items)) => items
                .iter()
                .map(|item| ForeignNode::from_json(item, node))
                .collect(),
            Ok(_) => {
                self.findings
                    .left_out(node, "tests of a function that returned no list", "");
                Vec::new()
            }
            Err(reason) => {
                self.findings.left_out(
                    node,
                    format!("the tests of `{file}`: {reason}"),
                    "`--run-code`, or a file of tests",
                );
                Vec::new()
            }
        }
    }

    fn test_file(&mut self, path: &Path, at: &ForeignNode) -> Result<Vec<ForeignNode>, ImportError> {
        let extension = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match extension.as_str() {
            "csv" => Ok(read_rows(self.files, path)?.iter().map(row_test).collect()),
            "jsonl" => read_lines(self.files, path),
            "json" | "yaml" | "yml" => {
                let node = read_node(self.files, path)?;
                let node = super::resolve_references(&node, &node, 0);
                match node.value {
                    ForeignValue::List(items) => Ok(items),
                    ForeignValue::Map(_) => Ok(vec![node]),
                    _ => Err(ImportError::at(&node, "holds no tests")),
                }
            }
            other => {
                self.findings.left_out(
                    at,
                    format!("tests in a file `.{other}`"),
                    "CSV, JSON, JSON Lines or YAML",
                );
                Ok(Vec::new())
            }
        }
    }

    /// A data file as a value.
    fn read_data(&mut self, reference: &str) -> Result<ForeignNode, ImportError> {
        read_node(self.files, &self.source_path(reference))
    }

    fn check_keys(&mut self, node: &ForeignNode) {
        for (key, value) in node.entries() {
            if !TEST_KEYS.contains(&key.as_str()) {
                self.findings.left_out(
                    value,
                    format!("`{key}` of a test"),
                    match key.as_str() {
                        "provider" | "providers" => "an agent file for each model",
                        "assertScoringFunction" => "`min_score` with `weight`, or a code grader",
                        _ => "",
                    },
                );
            }
        }
        for (key, value) in node.get("options").map(ForeignNode::entries).unwrap_or_default() {
            let nearest = match key.as_str() {
                "provider" | "prefix" | "suffix" | "disableVarExpansion" => continue,
                "transform" | "postprocess" => "a code grader, which gets the whole answer",
                "rubricPrompt" => "`custom_prompt` of `geval`",
                "storeOutputAs" => "`turns` of a case",
                _ => "",
            };
            self.findings
                .left_out(value, format!("`options.{key}` of a test"), nearest);
        }
    }

    fn add_test(
        &mut self,
        layers: &[ForeignNode],
        node: &ForeignNode,
        tests: &mut Vec<Test>,
    ) -> Result<(), ImportError> {
        self.check_keys(node);
        let all: Vec<&ForeignNode> = layers.iter().chain([node]).collect();
        let mut vars: Vec<(String, ForeignNode)> = Vec::new();
        for layer in &all {
            for (name, value) in self.variables(layer)? {
                vars.retain(|(known, _)| *known != name);
                vars.push((name, value));
            }
        }
        let last = |key: &str| all.iter().rev().find_map(|layer| layer.get(key)).cloned();
        let option = |key: &str| {
            all.iter()
                .rev()
                .find_map(|layer| layer.get("options")?.get(key))
                .cloned()
        };
        let text = |node: Option<ForeignNode>| {
            node.and_then(|node| node.text().map(str::to_owned))
                .unwrap_or_default()
        };
        let mut assertions = Vec::new();
        for layer in &all {
            if let Some(list) = layer.get("assert") {
                match list.text() {
                    Some(reference) => {
                        let read = self.read_data(reference)?;
                        assertions.extend(read.items().unwrap_or_default().to_vec());
                    }
                    None => assertions.extend(list.items().unwrap_or_default().to_vec()),
                }
            }
        }
        let threshold = last("threshold");
        let no_expansion =
            option("disableVarExpansion").is_some_and(|node| matches!(node.value, ForeignValue::Bool(true)));
        for vars in self.combinations(&vars, no_expansion)? {
            tests.push(Test {
                name: node
                    .get("description")
                    .and_then(ForeignNode::text)
                    .map(str::to_owned),
                at: node.clone(),
                vars,
                assertions: assertions.clone(),
                threshold: threshold.as_ref().and_then(ForeignNode::number),
                judge: option("provider"),
                prefix: text(option("prefix")),
                suffix: text(option("suffix")),
                answer: last("providerOutput"),
            });
        }
        Ok(())
    }

    fn variables(&mut self, layer: &ForeignNode) -> Result<Vec<(String, ForeignNode)>, ImportError> {
        let Some(vars) = layer.get("vars") else {
            return Ok(Vec::new());
        };
        match vars.text() {
            Some(reference) => Ok(self.read_data(reference)?.entries().to_vec()),
            None => Ok(vars.entries().to_vec()),
        }
    }

    /// Every combination of the values of list variables, with files read and templates in values rendered.
    fn combinations(
        &mut self,
        nodes: &[(String, ForeignNode)],
        no_expansion: bool,
    ) -> Result<Vec<Map<String, Value>>, ImportError> {
        const MOST: usize = 10_000;
        let mut all: Vec<Map<String, Value>> = vec![Map::new()];
        for (name, node) in nodes {
            let values = match (&node.value, no_expansion) {
                (ForeignValue::List(items), false) => {
                    let values: Result<Vec<_>, _> = items.iter().map(|item| self.variable(item)).collect();
                    values?
                }
                _ => vec![self.variable(node)?],
            };
            if all.len() * values.len() > MOST {
                return Err(ImportError::at(
                    node,
                    format!("more than {MOST} combinations of variables"),
                ));
            }
            let with = |known: &Map<String, Value>, value: &Value| {
                let mut vars = known.clone();
                vars.insert(name.clone(), value.clone());
                vars
            };
            all = all
                .iter()
                .flat_map(|known| values.iter().map(|value| with(known, value)).collect::<Vec<_>>())
                .collect();
        }
        for vars in &mut all {
            self.render_values(vars, nodes);
        }
        Ok(all)
    }

    /// Renders the templates in the values of variables: a value may name other variables.
    fn render_values(&mut self, vars: &mut Map<String, Value>, nodes: &[(String, ForeignNode)]) {
        let before = vars.clone();
        for (name, value) in vars.iter_mut() {
            let Value::String(text) = value else { continue };
            if let Some(shorter) = text.strip_suffix('\n') {
                *text = shorter.to_owned();
            }
            match render(text, &before) {
                Ok(rendered) => *text = rendered,
                Err(error) => {
                    if let Some((_, node)) = nodes.iter().find(|(known, _)| known == name) {
                        self.findings
                            .left_out(node, format!("the variable `{name}`: {}", error.0), "");
                    }
                }
            }
        }
    }

    fn variable(&mut self, node: &ForeignNode) -> Result<Value, ImportError> {
        let Some(reference) = node.text().filter(|text| text.starts_with("file://")) else {
            if node.text().is_some_and(|text| text.starts_with("package:")) {
                self.findings.left_out(node, "a variable from a package", "");
            }
            return Ok(node.to_json());
        };
        if let Some((language, file, function)) = Language::of(reference) {
            let request = CodeRequest {
                language,
                file: self.source_path(file),
                function: Some(function.unwrap_or("get_var").to_owned()),
                arguments: Some(vec![Value::from(""), Value::from(""), Value::Object(Map::new())]),
            };
            return Ok(match self.run(&request, node) {
                Ok(value) => value.get("output").cloned().unwrap_or(Value::Null),
                Err(reason) => {
                    self.findings.left_out(
                        node,
                        format!("the variable of `{file}`: {reason}"),
                        "`--run-code`, or a text",
                    );
                    Value::Null
                }
            });
        }
        let path = self.source_path(reference);
        let extension = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match extension.as_str() {
            "yaml" | "yml" => Ok(Value::String(read_node(self.files, &path)?.to_json().to_string())),
            "pdf" | "png" | "jpg" | "jpeg" | "gif" | "webp" | "mp3" | "wav" | "mp4" => {
                self.findings.left_out(
                    node,
                    format!("a variable from a file `.{extension}`"),
                    "`files` of a case",
                );
                Ok(Value::Null)
            }
            _ => Ok(Value::String(read_text(self.files, &path)?.trim().to_owned())),
        }
    }
}

/// A row of a table as a test: `__expected…` are assertions, other names with two underscores are options, the rest variables.
fn row_test(row: &ForeignNode) -> ForeignNode {
    let node = |value: ForeignValue| ForeignNode::new(row.path.clone(), row.line, value);
    let mut vars = Vec::new();
    let mut assertions = Vec::new();
    let mut options = Vec::new();
    let mut test = Vec::new();
    for (name, cell) in row.entries() {
        let text = cell.text().unwrap_or_default();
        if name.starts_with("__expected") {
            if !text.trim().is_empty() {
                assertions.push(cell_assertion(text.trim(), &node));
            }
        } else if let Some(option) = ["prefix", "suffix"]
            .iter()
            .find(|option| *name == format!("__{option}"))
        {
            options.push(((*option).to_owned(), cell.clone()));
        } else if name == "__description" {
            test.push(("description".to_owned(), cell.clone()));
        } else if name == "__threshold" {
            if let Some(number) = finite(text) {
                test.push(("threshold".to_owned(), node(number_value(number))));
            }
        } else if name == "__providerOutput" {
            if !text.is_empty() {
                test.push(("providerOutput".to_owned(), cell.clone()));
            }
        } else if name == "__metric" || name.starts_with("__metadata") {
        } else if name.starts_with("__config:") {
            test.push((name.clone(), cell.clone()));
        } else {
            vars.push((name.clone(), cell.clone()));
        }
    }
    test.push(("vars".to_owned(), node(ForeignValue::Map(vars))));
    test.push(("assert".to_owned(), node(ForeignValue::List(assertions))));
    if !options.is_empty() {
        test.push(("options".to_owned(), node(ForeignValue::Map(options))));
    }
    node(ForeignValue::Map(test))
}

fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

fn number_value(number: f64) -> ForeignValue {
    serde_json::Number::from_f64(number).map_or(ForeignValue::Null, ForeignValue::Number)
}

/// An assertion as a cell writes it: `contains: x`, `similar(0.8): x`, `fn: code`, or a text that is to be equal.
fn cell_assertion(cell: &str, node: &impl Fn(ForeignValue) -> ForeignNode) -> ForeignNode {
    let text = |text: &str| node(ForeignValue::Text(text.to_owned()));
    let make = |kind: &str, value: ForeignNode, threshold: Option<f64>| {
        let mut entries = vec![("type".to_owned(), text(kind)), ("value".to_owned(), value)];
        if let Some(threshold) = threshold {
            entries.push(("threshold".to_owned(), node(number_value(threshold))));
        }
        node(ForeignValue::Map(entries))
    };
    for prefix in ["javascript:", "fn:", "eval:"] {
        if let Some(code) = cell.strip_prefix(prefix) {
            return make("javascript", text(code.trim()), None);
        }
    }
    for prefix in ["grade:", "llm-rubric:"] {
        if let Some(rubric) = cell.strip_prefix(prefix) {
            return make("llm-rubric", text(rubric), None);
        }
    }
    if let Some(code) = cell.strip_prefix("python:") {
        return make("python", text(code.trim()), None);
    }
    if cell.starts_with("file://") {
        match Language::of(cell) {
            Some((Language::Python, ..)) => return make("python", text(cell), None),
            Some((Language::JavaScript, ..)) => return make("javascript", text(cell), None),
            None => {}
        }
    }
    let (head, value) = match cell.split_once(':') {
        Some((head, value)) => (head, value),
        None => (cell, ""),
    };
    let (kind, threshold) = match head.strip_suffix(')').and_then(|head| head.split_once('(')) {
        Some((kind, number)) => match finite(number) {
            Some(number) => (kind, Some(number)),
            None => return make("equals", text(cell), None),
        },
        None => (head, None),
    };
    let base = kind.strip_prefix("not-").unwrap_or(kind);
    if !super::assertions::is_assertion(base) || kind.contains(' ') {
        return make("equals", text(cell), None);
    }
    let scored = [
        "answer-relevance",
        "classifier",
        "context-faithfulness",
        "context-recall",
        "context-relevance",
        "cost",
        "latency",
        "levenshtein",
        "perplexity-score",
        "perplexity",
        "rouge-n",
        "similar",
        "starts-with",
    ];
    if base.contains("contains-all") || base.contains("contains-any") {
        let items = super::values::comma_separated(value);
        let items = items.iter().map(|item| text(item)).collect();
        return make(kind, node(ForeignValue::List(items)), None);
    }
    if scored.contains(&base) {
        return make(kind, text(value.trim()), Some(threshold.unwrap_or(0.75)));
    }
    if value.trim().is_empty() {
        return node(ForeignValue::Map(vec![("type".to_owned(), text(kind))]));
    }
    make(kind, text(value.trim()), None)
}

/// A name for a test without a description: the value of its first variable.
pub(super) fn name_from(vars: &Map<String, Value>) -> String {
    vars.values().next().map(javascript_text).unwrap_or_default()
}
