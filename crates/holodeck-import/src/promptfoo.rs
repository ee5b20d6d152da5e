//! Converts a configuration of promptfoo: reads it, resolves its references, and reports its other sections.

mod assertions;
mod graders;
mod patterns;
mod prompts;
mod providers;
mod requests;
mod suite;
mod targets;
mod tests;
mod tool_models;
mod values;

use std::path::{Path, PathBuf};

use holodeck_yaml::{ForeignNode, ForeignValue};
use serde_json::Value;

use crate::{
    Import, ImportError, SourceFiles,
    code::{CodeRequest, CodeRunner, Language},
    findings::Findings,
    promptfoo::graders::GraderFiles,
    reader::{matching_files, read_node, read_text, tidy_path},
};

/// The sections of a configuration that decide no verdict.
const SILENT: &[&str] = &[
    "description",
    "tags",
    "env",
    "outputPath",
    "evaluateOptions",
    "commandLineOptions",
    "sharing",
    "writeLatestResults",
    "metadata",
    "derivedMetrics",
    "tracing",
    "redteam",
    "$schema",
    "author",
];

/// Converts a configuration of promptfoo, in YAML, JSON or (with something that runs code) JavaScript.
///
/// `back` leads from the folder of the import to that of the configuration, whose programs and functions stay where they are.
pub fn import_promptfoo<'a>(
    source: &Path,
    back: &Path,
    files: &'a dyn SourceFiles,
    code: Option<&'a mut (dyn CodeRunner + 'a)>,
) -> Result<Import, ImportError> {
    let folder = source.parent().unwrap_or(Path::new("")).to_owned();
    let mut importer = Importer {
        files,
        code,
        folder,
        back: back.to_owned(),
        findings: Findings::default(),
        graders: GraderFiles::default(),
        tool_models: Vec::new(),
    };
    let config = importer.read_config(source)?;
    let is_config = ["prompts", "providers", "targets", "tests", "scenarios"]
        .iter()
        .any(|key| config.get(key).is_some());
    if !is_config {
        return Err(ImportError::at(
            &config,
            "has neither `prompts`, `providers` nor `tests`: not a configuration of promptfoo",
        ));
    }
    importer.convert(&config)
}

/// The state of an import.
struct Importer<'a> {
    files: &'a dyn SourceFiles,
    code: Option<&'a mut (dyn CodeRunner + 'a)>,
    /// The folder of the configuration.
    folder: PathBuf,
    /// From the folder of the import to that of the configuration.
    back: PathBuf,
    findings: Findings,
    graders: GraderFiles,
    /// The files that ask models with tools.
    tool_models: Vec<String>,
}

impl Importer<'_> {
    fn convert(&mut self, config: &ForeignNode) -> Result<Import, ImportError> {
        let prompts = self.prompts(config)?;
        let providers = self.providers(config, &prompts)?;
        let tests = self.tests(config)?;
        self.report_sections(config);
        let judge = providers::default_judge(&providers);
        let suite = suite::Suite::new(self, config, judge);
        let built = suite.build(&prompts, &providers, &tests)?;
        let findings = std::mem::take(&mut self.findings).finish();
        Ok(Import { findings, ..built })
    }

    /// Reports the sections beside prompts, providers and tests.
    fn report_sections(&mut self, config: &ForeignNode) {
        for (key, value) in config.entries() {
            let known = [
                "prompts",
                "providers",
                "targets",
                "tests",
                "scenarios",
                "defaultTest",
                "assertionTemplates",
            ];
            if known.contains(&key.as_str()) {
                continue;
            }
            let nearest = match key.as_str() {
                "description" | "$schema" => continue,
                "env" => "`.env` beside the agent file",
                "evaluateOptions" => "`execution` of the agent, and `--trials`",
                "outputPath" => "`holodeck test --report`",
                "tracing" => "`observability` of the agent",
                _ => "",
            };
            if key == "evaluateOptions"
                && value
                    .get("repeat")
                    .and_then(ForeignNode::number)
                    .is_some_and(|n| n > 1.0)
            {
                self.findings.left_out(
                    value,
                    "`evaluateOptions.repeat`: each test once",
                    "`holodeck test --trials N`",
                );
            } else if SILENT.contains(&key.as_str()) {
                self.findings.ignored(value, format!("`{key}`"), nearest);
            } else {
                self.findings.left_out(value, format!("`{key}`"), nearest);
            }
        }
    }

    fn read_config(&mut self, source: &Path) -> Result<ForeignNode, ImportError> {
        let name = source.to_string_lossy();
        let Some((language, ..)) = Language::of(&name) else {
            return read_node(self.files, source).map(|node| resolve_references(&node, &node, 0));
        };
        read_text(self.files, source)?;
        let at = ForeignNode::new(source.into(), 1, ForeignValue::Null);
        if self.code.is_none() {
            return Err(ImportError::new(
                source,
                "is a program: its configuration is known only with `--run-code`",
            ));
        }
        let request = CodeRequest {
            language,
            file: source.to_owned(),
            function: None,
            arguments: None,
        };
        self.run(&request, &at)
            .map(|value| ForeignNode::from_json(&value, &at))
            .map_err(|reason| ImportError::at(&at, reason))
    }

    /// Runs code of the source; an error says why not.
    fn run(&mut self, request: &CodeRequest, _: &ForeignNode) -> Result<Value, String> {
        match &mut self.code {
            Some(code) => code.run(request),
            None => Err("is code, which runs only with `--run-code`".to_owned()),
        }
    }

    /// The path of a `file://` part, or of a name that is one.
    fn source_path(&self, reference: &str) -> PathBuf {
        let path = reference.strip_prefix("file://").unwrap_or(reference);
        tidy_path(&self.folder.join(path))
    }

    /// The path of a file of the source as the import names it.
    fn path_from_import(&self, reference: &str) -> String {
        let path = reference.strip_prefix("file://").unwrap_or(reference);
        tidy_path(&self.back.join(path)).to_string_lossy().into_owned()
    }

    fn matching(&self, reference: &str) -> Result<Vec<PathBuf>, ImportError> {
        matching_files(self.files, &self.source_path(reference))
    }
}

/// The value with every `{$ref: '#/…'}` replaced by what it names; fields beside `$ref` come first.
fn resolve_references(node: &ForeignNode, root: &ForeignNode, depth: usize) -> ForeignNode {
    const MAX_DEPTH: usize = 32;
    let resolved = |value: &ForeignNode| resolve_references(value, root, depth + 1);
    let value = match &node.value {
        _ if depth > MAX_DEPTH => ForeignValue::Null,
        ForeignValue::List(items) => ForeignValue::List(items.iter().map(resolved).collect()),
        ForeignValue::Map(entries) => {
            let target = node
                .get("$ref")
                .and_then(ForeignNode::text)
                .and_then(|path| find(root, path.strip_prefix("#/")?));
            let mut all: Vec<(String, ForeignNode)> = entries
                .iter()
                .filter(|(key, _)| key != "$ref" || target.is_none())
                .map(|(key, value)| (key.clone(), resolved(value)))
                .collect();
            if let Some(target) = target {
                let target = resolved(target);
                let more = target.entries().iter().filter(|(key, _)| node.get(key).is_none());
                all.extend(more.cloned());
            }
            ForeignValue::Map(all)
        }
        other => other.clone(),
    };
    ForeignNode::new(node.path.clone(), node.line, value)
}

fn find<'n>(root: &'n ForeignNode, path: &str) -> Option<&'n ForeignNode> {
    path.split('/').try_fold(root, |node, step| match node.items() {
        Some(items) => items.get(step.parse::<usize>().ok()?),
        None => node.get(step),
    })
}
