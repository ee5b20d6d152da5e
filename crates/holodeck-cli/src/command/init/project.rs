//! Renders every file of a new project from templates and the chosen options. Writes nothing.

use std::path::{Path, PathBuf};

use holodeck::yaml;

use super::choices::{Eval, Provider, Server, Store, Template};

/// The content of a project before it is written.
pub(super) struct Plan {
    pub(super) dir: PathBuf,
    pub(super) name: String,
    pub(super) template: Template,
    pub(super) provider: Provider,
    pub(super) model: String,
    pub(super) endpoint: Option<String>,
    pub(super) description: Option<String>,
    pub(super) author: Option<String>,
    pub(super) store: Store,
    pub(super) evals: Vec<Eval>,
    pub(super) servers: Vec<Server>,
}

/// A file of a project.
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: String,
    /// The file may serve more than the agent, so an existing one is not overwritten.
    pub(super) is_shared: bool,
}

pub(super) type Files = Vec<File>;

const README: &str = include_str!("../../../templates/README.md");
const ABOUT_RECORDING: &str = include_str!("../../../templates/recording.md");
const GITIGNORE: &str = include_str!("../../../templates/gitignore");
const ENV_EXAMPLE: &str = include_str!("../../../templates/env.example");

/// Path of the recording in a project.
const RECORDING: &str = "recordings/examples.jsonl";

/// The parts that differ between templates.
struct Parts {
    agent: &'static str,
    description: &'static str,
    recording: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Rows of the README's table of files.
    rows: &'static [&'static str],
}

macro_rules! template {
    ($name:literal, $file:literal) => {
        include_str!(concat!("../../../templates/", $name, "/", $file))
    };
}

fn parts(template: Template) -> Parts {
    match template {
        Template::Conversational => Parts {
            agent: template!("conversational", "agent.yaml"),
            description: "Answers short questions",
            recording: template!("conversational", "recording.jsonl"),
            files: &[(
                "instructions/system-prompt.md",
                template!("conversational", "instructions/system-prompt.md"),
            )],
            rows: &[],
        },
        Template::Research => Parts {
            agent: template!("research", "agent.yaml"),
            description: "Answers questions from a library of documents",
            recording: template!("research", "recording.jsonl"),
            files: &[
                (
                    "instructions/system-prompt.md",
                    template!("research", "instructions/system-prompt.md"),
                ),
                ("data/history.md", template!("research", "data/history.md")),
                (
                    "data/instruments.md",
                    template!("research", "data/instruments.md"),
                ),
                ("data/records.md", template!("research", "data/records.md")),
            ],
            rows: &["| `data` | the documents that the tool `library` searches |"],
        },
        Template::CustomerSupport => Parts {
            agent: template!("customer-support", "agent.yaml"),
            description: "Answers the customers of a shop",
            recording: template!("customer-support", "recording.jsonl"),
            files: &[
                (
                    "instructions/system-prompt.md",
                    template!("customer-support", "instructions/system-prompt.md"),
                ),
                (
                    "tools/orders.py",
                    template!("customer-support", "tools/orders.py"),
                ),
            ],
            rows: &["| `tools/orders.py` | the tool `get_order`; asking a model needs Python 3 |"],
        },
    }
}

impl Plan {
    /// The recording matches only the requests of the default options.
    pub(super) fn has_recording(&self) -> bool {
        self.provider == Provider::Ollama
            && self.model == Provider::Ollama.default_model()
            && self.endpoint.is_none()
            && self.store == Store::InMemory
            && self.evals.is_empty()
            && self.servers.is_empty()
    }

    /// Explains that the chosen metrics lack passages: only one template retrieves some.
    pub(super) fn needs_passages(&self) -> Option<String> {
        let metrics: Vec<String> = self
            .evals
            .iter()
            .filter(|eval| eval.needs_passages())
            .map(|eval| format!("`{}`", eval.metric()))
            .collect();
        if metrics.is_empty() || self.template == Template::Research {
            return None;
        }
        Some(format!(
            "nothing retrieves passages for {}: add `retrieval_context` to the test cases or a `vectorstore` tool, or \
             start from `--template research`",
            metrics.join(", ")
        ))
    }

    /// The path of a file relative to the current folder.
    pub(super) fn display_path(&self, file: &str) -> String {
        let path = if self.dir == Path::new(".") {
            PathBuf::from(file)
        } else {
            self.dir.join(file)
        };
        path.display().to_string()
    }

    pub(super) fn files(&self) -> Files {
        let parts = parts(self.template);
        let own = |path, text: &str| File {
            path,
            text: text.to_owned(),
            is_shared: false,
        };
        let shared = |path, text| File {
            path,
            text,
            is_shared: true,
        };
        let mut files = vec![own("agent.yaml", &self.agent(&parts))];
        files.extend(parts.files.iter().map(|(path, text)| own(path, text)));
        if self.has_recording() {
            files.push(own(RECORDING, parts.recording));
        }
        if self.servers.contains(&Server::Filesystem) && self.template != Template::Research {
            files.push(own(
                "data/README.md",
                "Files that the agent may read and write.\n",
            ));
        }
        files.push(own(
            "schemas/agent.schema.json",
            &format!("{:#}\n", yaml::json_schema()),
        ));
        files.push(own(
            ".env.example",
            &ENV_EXAMPLE.replace("{{keys}}", &self.keys().join("\n")),
        ));
        files.push(shared(".gitignore", GITIGNORE.to_owned()));
        files.push(shared("README.md", self.readme(&parts)));
        files
    }

    fn agent(&self, parts: &Parts) -> String {
        let endpoint = match &self.endpoint {
            Some(endpoint) => format!("  endpoint: {}\n", scalar(endpoint)),
            None => self.provider.default_endpoint().to_owned(),
        };
        let author = self
            .author
            .as_deref()
            .map(|author| format!("author: {}\n", scalar(author)));
        let description = self.description.as_deref().map(scalar);
        let replay = if self.has_recording() {
            format!(
                "\n# Example answers, so that the tests run without a model. `--live` asks the model; see README.md.\n\
                 execution:\n  replay: {RECORDING}\n"
            )
        } else {
            String::new()
        };
        // Values given by the user come last, so that placeholders in them are not replaced.
        parts
            .agent
            .replace("{{endpoint}}\n", &endpoint)
            .replace("{{database}}\n", self.store.yaml())
            .replace("{{tools}}\n", &self.tools())
            .replace("{{evals}}\n", &self.metrics())
            .replace("{{replay}}\n", &replay)
            .replace("{{provider}}", self.provider.as_str())
            .replace("{{name}}", &self.name)
            .replace("{{author}}\n", &author.unwrap_or_default())
            .replace("{{model}}", &scalar(&self.model))
            .replace(
                "{{description}}",
                description.as_deref().unwrap_or(parts.description),
            )
    }

    /// The servers, as tools of the file.
    fn tools(&self) -> String {
        let mut text = String::new();
        if self.template == Template::Conversational && !self.servers.is_empty() {
            text.push_str("\ntools:");
        }
        for server in &self.servers {
            let entry = server.entry();
            let argument = entry
                .argument
                .map(|argument| format!(", {argument}"))
                .unwrap_or_default();
            let tool = format!(
                "\n  - type: mcp\n    name: {}\n    description: {}\n    command: npx\n    args: [\"-y\", \"{}\"{argument}]\n",
                entry.name, entry.description, entry.package
            );
            let env = entry
                .variable
                .map(|variable| format!("    env: {{{variable}: \"${{{variable}}}\"}}\n"));
            text.push_str(&tool);
            text.push_str(&env.unwrap_or_default());
        }
        text
    }

    fn metrics(&self) -> String {
        let metrics = self.evals.iter().map(|eval| {
            let metric = eval.metric();
            let needs = match metric {
                "answer_relevancy" => "",
                _ => "; needs `retrieval_context` in a case, or a search",
            };
            format!(
                "    - {{type: rag, metric_type: {metric}, threshold: 0.7}}   # judged by a model{needs}\n"
            )
        });
        metrics.collect()
    }

    fn keys(&self) -> Vec<String> {
        let mut keys = vec![self.provider.key().to_owned()];
        let variables = self.servers.iter().filter_map(|server| server.entry().variable);
        for variable in variables.chain(self.store.variable()) {
            let key = format!("{variable}=");
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    fn readme(&self, parts: &Parts) -> String {
        let mut commands = String::new();
        let mut recording = String::new();
        let mut rows = parts.rows.to_vec();
        let live = if self.has_recording() {
            commands
                .push_str("holodeck test          # replays example answers: no model and no key needed\n");
            recording = ABOUT_RECORDING.replace("{{model}}", &self.model);
            rows.push("| `recordings/examples.jsonl` | example answers; see below |");
            "holodeck test --live   #"
        } else {
            "holodeck test          #"
        };
        commands.push_str(live);
        commands.push_str(" asks the model and checks its answers\n");
        commands.push_str("holodeck run \"Hello\"   # asks one question\n");
        commands.push_str("holodeck doctor        # shows what is missing");
        let rows: String = rows.into_iter().flat_map(|row| [row, "\n"]).collect();
        README
            .replace("{{name}}", &self.name)
            .replace("{{commands}}", &commands)
            .replace("{{rows}}\n", &rows)
            .replace("{{recording}}\n", &recording)
    }
}

/// A string as a YAML value: plain if that is certain to be read as the same string, otherwise quoted.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c))
        && !text.ends_with(':')
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if plain {
        text.to_owned()
    } else {
        // A JSON string is also a YAML string.
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn values_are_read_back_unchanged() {
        assert_eq!(scalar("gpt-oss:20b"), "gpt-oss:20b");
        assert_eq!(scalar("http://localhost:8000/v1"), "http://localhost:8000/v1");
        assert_eq!(scalar("no"), "\"no\"");
        assert_eq!(scalar("4: \"x\" # y"), "\"4: \\\"x\\\" # y\"");
        assert_eq!(scalar("${ENDPOINT}"), "\"${ENDPOINT}\"");
    }
}
