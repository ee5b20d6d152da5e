//! Agents and cases: every provider with every prompt, each with its tests.

use std::path::PathBuf;

use holodeck_yaml::ForeignNode;
use serde_json::{Map, Value, json};

use super::{
    Importer,
    assertions::{Checks, Subject},
    prompts::{Message, Prompt, Rendered, short},
    providers::Provider,
    tests::{Test, name_from},
};
use crate::{Import, ImportError, ImportedFile, writer::document};

/// The most agents of one prompt and provider: each system message is one.
const MOST_SYSTEMS: usize = 20;

/// Builds the files of an import.
pub(super) struct Suite<'i, 'a> {
    importer: &'i mut Importer<'a>,
    config: &'i ForeignNode,
    judge: Value,
    /// The case files so far, and their cases.
    case_files: Vec<(String, Vec<Value>)>,
    result: Import,
}

/// The tests of one system message.
struct Group {
    system: Option<String>,
    cases: Vec<Value>,
}

/// A prompt in the parts that an agent and a case have.
struct Question {
    system: Option<String>,
    history: Vec<Message>,
    input: String,
}

impl<'i, 'a> Suite<'i, 'a> {
    pub(super) fn new(importer: &'i mut Importer<'a>, config: &'i ForeignNode, judge: Value) -> Self {
        Self {
            importer,
            config,
            judge,
            case_files: Vec::new(),
            result: Import::default(),
        }
    }

    pub(super) fn build(
        mut self,
        prompts: &[Prompt],
        providers: &[Provider],
        tests: &[Test],
    ) -> Result<Import, ImportError> {
        let mut planned = Vec::new();
        for provider in providers {
            let asked = |prompt: &&Prompt| {
                provider
                    .prompts
                    .as_ref()
                    .is_none_or(|labels| labels.contains(&prompt.label))
            };
            for prompt in prompts.iter().filter(asked) {
                let groups = self.groups(provider, prompt, tests)?;
                let several = groups.len() > 1;
                for (index, group) in groups.into_iter().enumerate() {
                    let mut name = slug(&provider.label);
                    if prompts.len() > 1 {
                        name = format!("{name}-{}", slug(&prompt.label));
                    }
                    if several {
                        name = format!("{name}-{}", index + 1);
                    }
                    planned.push((provider, name, group));
                }
            }
        }
        let is_single = planned.len() == 1;
        let mut names: Vec<String> = Vec::new();
        for (provider, name, group) in planned {
            let name = unique(&names, &name, "-");
            names.push(name.clone());
            self.add_agent(provider, &name, group, is_single);
        }
        let count = self.case_files.len();
        for (path, cases) in std::mem::take(&mut self.case_files) {
            let comment = match count {
                1 => "Test cases; `holodeck import promptfoo` wrote them.".to_owned(),
                _ => "Test cases of one prompt; `holodeck import promptfoo` wrote them.".to_owned(),
            };
            self.add_file(path.into(), document(&[comment], &Value::Array(cases)));
        }
        for file in self.importer.graders.take() {
            self.add_file(file.path, file.text);
        }
        Ok(self.result)
    }

    fn groups(
        &mut self,
        provider: &Provider,
        prompt: &Prompt,
        tests: &[Test],
    ) -> Result<Vec<Group>, ImportError> {
        let mut groups: Vec<Group> = Vec::new();
        for test in tests {
            let Some((system, case)) = self.case(provider, prompt, test)? else {
                continue;
            };
            let count = groups.len();
            match groups.iter_mut().find(|group| group.system == system) {
                Some(group) => group.cases.push(case),
                None if count == MOST_SYSTEMS => {
                    self.importer.findings.left_out(
                        &prompt.at,
                        format!("more than {MOST_SYSTEMS} system messages of one prompt"),
                        "`instructions` of the agent, and what differs in `input`",
                    );
                    break;
                }
                None => groups.push(Group {
                    system,
                    cases: vec![case],
                }),
            }
        }
        for group in &mut groups {
            let mut names: Vec<String> = Vec::new();
            for case in &mut group.cases {
                let name = unique(&names, case["name"].as_str().unwrap_or_default(), " #");
                case["name"] = name.clone().into();
                names.push(name);
            }
        }
        Ok(groups)
    }

    /// A test as a case; nothing if it cannot be asked, which is then found.
    fn case(
        &mut self,
        provider: &Provider,
        prompt: &Prompt,
        test: &Test,
    ) -> Result<Option<(Option<String>, Value)>, ImportError> {
        if let Some(answer) = &test.answer {
            self.importer.findings.left_out(
                answer,
                "`providerOutput`: an answer that exists",
                "`target: {type: answers}`",
            );
            return Ok(None);
        }
        let Some(mut rendered) = self.importer.render_prompt(prompt, &test.vars) else {
            return Ok(None);
        };
        if !test.prefix.is_empty() || !test.suffix.is_empty() {
            if rendered.messages.is_some() {
                self.importer
                    .findings
                    .left_out(&test.at, "`options.prefix` of a prompt of messages", "");
                return Ok(None);
            }
            rendered.text = format!("{}{}{}", test.prefix, rendered.text, test.suffix);
        }
        let question = match question(&rendered, provider.is_model) {
            Ok(question) => question,
            Err(reason) => {
                self.importer.findings.left_out(
                    &prompt.at,
                    format!("the prompt `{}`: {reason}", short(&prompt.label)),
                    "",
                );
                return Ok(None);
            }
        };
        let mut question = question;
        let vars = self.vars_for(provider, test, &mut question.input);
        let name = test.name.clone().unwrap_or_else(|| short(&name_from(&test.vars)));
        let name = if name.trim().is_empty() {
            "test".to_owned()
        } else {
            name
        };
        let checks = self.checks(provider, test, &rendered)?;
        let mut case = Map::new();
        let mut put = |key: &str, value: Value| case.insert(key.to_owned(), value);
        put("name", name.into());
        if !question.history.is_empty() {
            let messages = question
                .history
                .iter()
                .map(|message| json!({"role": message.role, "content": message.content}));
            put("messages", messages.collect());
        }
        put("input", question.input.into());
        if !vars.is_empty() {
            put("vars", Value::Object(vars));
        }
        if let Some(text) = checks.ground_truth {
            put("ground_truth", text.into());
        }
        if let Some(passages) = checks.retrieval_context {
            put("retrieval_context", passages.into());
        }
        if let Some(threshold) = test.threshold {
            put("min_score", json!(threshold));
        }
        put("evaluations", Value::Array(checks.metrics));
        Ok(Some((question.system, Value::Object(case))))
    }

    /// The variables that the code of a provider gets. With them, the question is a template, so that braces in it are marked
    /// as text.
    fn vars_for(&mut self, provider: &Provider, test: &Test, input: &mut String) -> Map<String, Value> {
        let mut vars = Map::new();
        if !provider.takes_vars {
            return vars;
        }
        let mut lost: Vec<String> = Vec::new();
        for (name, value) in &test.vars {
            if is_name(name) {
                vars.insert(name.clone(), value.clone());
            } else {
                lost.push(format!("`{name}`"));
            }
        }
        let has_braces = ["{{", "{%", "{#"].iter().any(|mark| input.contains(mark));
        if has_braces && !vars.is_empty() {
            if input.contains("endraw") {
                lost.extend(vars.keys().map(|name| format!("`{name}`")));
                vars.clear();
            } else {
                *input = format!("{{% raw %}}{input}{{% endraw %}}");
            }
        }
        if !lost.is_empty() {
            self.importer.findings.left_out(
                &test.at,
                format!("the variables {} for the code of the provider", lost.join(", ")),
                "`vars` with names of letters, digits and `_`",
            );
        }
        vars
    }

    fn checks(&mut self, provider: &Provider, test: &Test, prompt: &Rendered) -> Result<Checks, ImportError> {
        let mut checks = Checks::default();
        let subject = Subject {
            vars: &test.vars,
            prompt,
            is_scored: test.threshold.is_some(),
            tools: provider.tools.as_ref(),
            judge: test.judge.as_ref(),
        };
        if test
            .threshold
            .is_some_and(|threshold| !(0.0..=1.0).contains(&threshold))
        {
            self.importer
                .findings
                .left_out(&test.at, "a `threshold` that is not from 0 to 1", "`min_score`");
        }
        for assertion in &test.assertions {
            self.importer
                .add_assertion(assertion, &subject, 1.0, &mut checks)?;
        }
        if test.assertions.is_empty() {
            // promptfoo lets a test without assertions pass with any answer.
            checks
                .metrics
                .push(json!({"metric": "regex", "value": r"^[\s\S]*$"}));
            self.importer.findings.differs(
                &test.at,
                "a test without `assert`: it passes with any answer, as in promptfoo",
            );
        }
        Ok(checks)
    }

    fn add_agent(&mut self, provider: &Provider, name: &str, group: Group, is_single: bool) {
        let mut agent = Map::new();
        agent.insert("name".to_owned(), name.into());
        if let Some(text) = self.config.get("description").and_then(ForeignNode::text) {
            agent.insert("description".to_owned(), text.into());
        }
        agent.extend(provider.fields.clone());
        if provider.is_model {
            let instructions = group
                .system
                .map_or_else(|| Value::from("none"), |text| json!({"inline": text}));
            agent.insert("instructions".to_owned(), instructions);
        }
        let needs_judge = group
            .cases
            .iter()
            .flat_map(|case| case["evaluations"].as_array().into_iter().flatten());
        let needs_judge = needs_judge
            .filter(|metric| {
                metric
                    .get("type")
                    .is_some_and(|kind| kind == "geval" || kind == "rag")
            })
            .any(|metric| metric.get("model").is_none());
        if needs_judge {
            agent.insert("evaluations".to_owned(), json!({"model": self.judge}));
        }
        self.result.cases += group.cases.len();
        let cases = self.case_file(group.cases);
        agent.insert("test_cases_file".to_owned(), cases.into());
        let path = if is_single {
            "agent.yaml".to_owned()
        } else {
            format!("{name}.yaml")
        };
        let source = self.config.path.file_name().unwrap_or_default().to_string_lossy();
        let comment = format!(
            "`{}` of `{source}`; `holodeck import promptfoo` wrote this file.",
            provider.label.replace('\n', " ")
        );
        self.result.agents.push(path.clone().into());
        self.add_file(path.into(), document(&[comment], &Value::Object(agent)));
        for file in &provider.files {
            self.add_file(file.path.clone(), file.text.clone());
        }
    }

    /// The file of these cases: agents with the same cases share one.
    fn case_file(&mut self, cases: Vec<Value>) -> String {
        if let Some((path, _)) = self.case_files.iter().find(|(_, known)| *known == cases) {
            return path.clone();
        }
        let path = match self.case_files.len() {
            0 => "cases.yaml".to_owned(),
            count => format!("cases-{}.yaml", count + 1),
        };
        self.case_files.push((path.clone(), cases));
        path
    }

    fn add_file(&mut self, path: PathBuf, text: String) {
        if !self.result.files.iter().any(|file| file.path == path) {
            self.result.files.push(ImportedFile { path, text });
        }
    }
}

/// The parts of a prompt; the reason if a case cannot have them.
fn question(rendered: &Rendered, is_model: bool) -> Result<Question, String> {
    let messages = match &rendered.messages {
        Some(messages) if is_model => messages.as_slice(),
        _ => {
            if rendered.text.trim().is_empty() {
                return Err("it is empty".to_owned());
            }
            return Ok(Question {
                system: None,
                history: Vec::new(),
                input: rendered.text.clone(),
            });
        }
    };
    let is_system = |message: &Message| message.role == "system" || message.role == "developer";
    let (system, rest) = match messages {
        [first, rest @ ..] if is_system(first) => (Some(first.content.clone()), rest),
        all => (None, all),
    };
    let Some((last, history)) = rest.split_last() else {
        return Err("it has no message of the user".to_owned());
    };
    if last.role != "user" || last.content.trim().is_empty() {
        return Err("its last message is not a text of the user".to_owned());
    }
    let alternates = history
        .iter()
        .enumerate()
        .all(|(index, message)| message.role == if index % 2 == 0 { "user" } else { "assistant" });
    if !alternates || history.len() % 2 == 1 {
        return Err("its messages are not by turns of the user and the assistant".to_owned());
    }
    Ok(Question {
        system,
        history: history.to_vec(),
        input: last.content.clone(),
    })
}

/// Whether a variable can have this name here.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// A name for an agent and its file.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for letter in text.chars().flat_map(char::to_lowercase) {
        if letter.is_ascii_alphanumeric() || letter == '.' {
            slug.push(letter);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug: String = slug.trim_matches(['-', '.']).chars().take(40).collect();
    match slug.trim_matches(['-', '.']) {
        "" => "agent".to_owned(),
        slug if slug.starts_with(|c: char| c.is_ascii_digit()) => format!("agent-{slug}"),
        slug => slug.to_owned(),
    }
}

/// The name, with a number if it is taken.
fn unique(names: &[String], name: &str, separator: &str) -> String {
    let mut candidate = name.to_owned();
    let mut number = 1;
    while names.contains(&candidate) {
        number += 1;
        candidate = format!("{name}{separator}{number}");
    }
    candidate
}
