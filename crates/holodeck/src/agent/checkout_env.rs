//! Says what the `.env` beside an agent decides: where keys of the user go, how servers are reached and which programs
//! run. It is said before anything is sent or started, and refuses nothing.

use std::collections::BTreeSet;

use holodeck_http::HttpUrl;
use holodeck_model::{
    Code, Diagnostic, Env, ModelConfig, ModelEndpoint, Provider, SettingSource,
    env::{
        ANTHROPIC_API_KEY, EFFECTS, HOLODECK_CLAUDE_CLI, OPENAI_BASE_URL, VariableEffect, variable_effect,
    },
    printable, shown_path,
};
use holodeck_process::BASE_VARIABLES;
use holodeck_validators::ClaudeEnv;
use holodeck_yaml::{Load, LoadedAgent, VariableUse};

use crate::agent::{
    claude::MACHINE,
    inventory::{Inventory, ModelRole, OWN_MODEL, UsedModel},
};

/// The folder with the settings of the CLI's user.
const CLAUDE_CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

/// The variables that our own requests read, in capitals.
const OF_HTTP: [&str; 5] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
];

/// Ends of the names of fields that name a server.
const SERVERS: [&str; 7] = [
    "connection_string",
    "dsn",
    "endpoint",
    "host",
    "server",
    "uri",
    "url",
];

/// Fields that name a program.
const PROGRAMS: [&str; 2] = ["cli_path", "command"];

/// Warns of everything that the `.env` beside the agent decides.
pub(crate) fn check(load: &mut Load, env: &Env) {
    let Some(agent) = &load.agent else { return };
    if env.of_checkout().next().is_none() {
        return;
    }
    let inventory = Inventory::new(agent, None);
    let mut finder = Finder {
        agent,
        env,
        models: inventory.models(),
        uses: agent.places.variables(),
        found: Vec::new(),
    };
    finder.add_programs_and_connections();
    finder.add_servers_of_models();
    finder.add_collector();
    finder.add_fields();
    // First, so that none is among those that are too many to show.
    let found = finder.found;
    load.diagnostics.splice(0..0, found);
}

struct Finder<'a> {
    agent: &'a LoadedAgent,
    env: &'a Env,
    models: &'a [UsedModel],
    /// The values of the YAML that contain variables.
    uses: Vec<VariableUse>,
    found: Vec<Diagnostic>,
}

impl Finder<'_> {
    /// Adds a warning about a variable once.
    fn add(&mut self, name: &str, message: String, field: Option<&VariableUse>) {
        let mut warning = Diagnostic::warning(Code::EnvFileDecides, message).with_help(format!(
            "if that is right, export `{name}` in the shell; else remove it from the file"
        ));
        if let Some(field) = field {
            warning = warning.at(field.location.clone()).about(&field.pointer);
        }
        let is_known =
            |known: &Diagnostic| known.message == warning.message && known.primary == warning.primary;
        if !self.found.iter().any(is_known) {
            self.found.push(warning);
        }
    }

    /// The file beside the agent that set a variable, if it says something.
    fn file(&self, name: &str) -> Option<String> {
        self.env.non_blank(name)?;
        let file = shown_path(self.env.file_of(name)?);
        Some(printable(&file.display().to_string()).into_owned())
    }

    fn is_of_user(&self, name: &str) -> bool {
        self.env.non_blank(name).is_some() && self.env.file_of(name).is_none()
    }

    fn uses_claude(&self) -> bool {
        let mut models = self.models.iter();
        models.any(|used| used.config.provider == Provider::Anthropic)
    }

    fn add_program(&mut self, name: &str) {
        if let Some(file) = self.file(name) {
            let message = format!("`{file}` decides which programs run: it sets `{name}`");
            self.add(name, message, None);
        }
    }

    fn add_connection(&mut self, name: &str) {
        if let Some(file) = self.file(name) {
            let message = format!("`{file}` decides how servers are reached: it sets `{name}`");
            self.add(name, message, None);
        }
    }

    /// Adds what holds for every program and every connection, whichever model is asked.
    fn add_programs_and_connections(&mut self) {
        let claude = self.agent.config.claude.as_ref();
        let mut sources = claude.iter().flat_map(|claude| &claude.setting_sources);
        let reads_user = sources.any(|source| [SettingSource::User, SettingSource::All].contains(source));
        let uses_claude = self.uses_claude();
        for (name, effect) in EFFECTS {
            let is_used = BASE_VARIABLES.contains(name)
                || OF_HTTP.contains(&name.to_ascii_uppercase().as_str())
                || uses_claude && (MACHINE.contains(name) || *name == HOLODECK_CLAUDE_CLI)
                || uses_claude && reads_user && *name == CLAUDE_CONFIG_DIR;
            match effect {
                VariableEffect::Program if is_used => self.add_program(name),
                VariableEffect::Connections if is_used => self.add_connection(name),
                _ => {}
            }
        }
    }

    /// Adds the variables that name the collector of telemetry if the YAML names none, and those that decide who is taken for
    /// it.
    fn add_collector(&mut self) {
        let observability = self.agent.config.observability.as_ref();
        let observability = observability.filter(|observability| observability.enabled);
        let exporters = observability.and_then(|observability| observability.exporters.as_ref());
        let otlp = exporters.and_then(|exporters| exporters.otlp.as_ref());
        let Some(otlp) = otlp.filter(|otlp| otlp.enabled) else {
            return;
        };
        for (name, effect) in EFFECTS.iter().filter(|(name, _)| name.starts_with("OTEL_")) {
            let what = match effect {
                VariableEffect::Server if otlp.endpoint.is_none() => "where telemetry goes",
                VariableEffect::Connections => "which collector of telemetry is trusted",
                _ => continue,
            };
            if let Some(file) = self.file(name) {
                let message = format!("`{file}` decides {what}: it sets `{name}`");
                self.add(name, message, None);
            }
        }
    }

    /// Adds the variables that name the servers of models whose YAML names none.
    fn add_servers_of_models(&mut self) {
        // A reranker has its server and its key in the YAML.
        let models = self.models.iter();
        for used in models.filter(|used| used.role != ModelRole::RerankServer) {
            let keys = self.keys_of(&used.pointer);
            if used.config.provider == Provider::Anthropic {
                self.add_claude(used, &keys);
            } else if used.config.provider == Provider::Openai && used.config.endpoint.is_none() {
                self.add_server(OPENAI_BASE_URL, &keys);
            }
        }
    }

    /// Adds what the CLI gets for this model.
    fn add_claude(&mut self, used: &UsedModel, keys: &[String]) {
        let Ok(made) = ClaudeEnv::for_model(&used.config, self.env) else {
            return;
        };
        for (name, _) in &made.vars {
            match variable_effect(name) {
                // The endpoint of the YAML takes the place of the variable.
                Some(VariableEffect::Server)
                    if used.config.endpoint.is_some() && name.ends_with("_BASE_URL") => {}
                Some(VariableEffect::Server) => self.add_server(name, keys),
                Some(VariableEffect::ServerPart) if !self.is_plain_word(name) => self.add_server(name, keys),
                Some(VariableEffect::Program) => self.add_program(name),
                Some(VariableEffect::Connections) => self.add_connection(name),
                Some(VariableEffect::ServerPart) | None => {}
            }
        }
    }

    fn is_plain_word(&self, name: &str) -> bool {
        let value = self.env.get(name).unwrap_or_default().trim();
        value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    }

    fn add_server(&mut self, name: &str, keys: &[String]) {
        let Some(file) = self.file(name) else { return };
        if keys.is_empty() {
            return;
        }
        let url = HttpUrl::parse(self.env.get(name).unwrap_or_default());
        let to = url.map_or_else(|_| String::new(), |url| format!(", to `{}`", url.origin()));
        let message = format!(
            "`{file}` decides where {} of the user {}{to}: it sets `{name}`",
            keys.join(", "),
            go(keys)
        );
        self.add(name, message, None);
    }

    /// Adds the fields of the YAML whose variables the file sets.
    fn add_fields(&mut self) {
        let uses = std::mem::take(&mut self.uses);
        self.uses.clone_from(&uses);
        for field in &uses {
            let (block, last) = field.pointer.rsplit_once('.').unwrap_or(("", &field.pointer));
            let lower = last.to_ascii_lowercase();
            let is_server = SERVERS.iter().any(|end| lower.ends_with(end));
            // The first of a list is the program, the others are its arguments.
            let program = field.pointer.strip_suffix(".0").unwrap_or(&field.pointer);
            let is_program = PROGRAMS.iter().any(|name| {
                let block = program.strip_suffix(name);
                block.is_some_and(|block| block.is_empty() || block.ends_with('.'))
            });
            let names = field.names.iter();
            for name in names.filter(|_| is_server || is_program) {
                let Some(file) = self.file(name) else { continue };
                let pointer = &field.pointer;
                if is_program {
                    let message =
                        format!("`{file}` decides which program runs: `{pointer}` is `${{{name}}}`");
                    self.add(name, message, Some(field));
                    continue;
                }
                let keys = self.keys_of(block);
                if !keys.is_empty() {
                    let message = format!(
                        "`{file}` decides where {} of the user {}: it sets `{name}` in `{pointer}`",
                        keys.join(", "),
                        go(&keys)
                    );
                    self.add(name, message, Some(field));
                }
            }
        }
    }

    /// The variables of the user whose values the server of a block of the YAML gets, as they are shown.
    fn keys_of(&self, block: &str) -> Vec<String> {
        let mut keys: BTreeSet<String> = self.names_in(block).collect();
        for used in self.models.iter().filter(|used| used.pointer == block) {
            if used.role == ModelRole::PromptTool {
                // Its key may be that of the agent's model.
                keys.extend(self.names_in(OWN_MODEL));
            }
            if used.role != ModelRole::RerankServer {
                keys.extend(self.default_keys(&used.config));
            }
        }
        keys.into_iter().collect()
    }

    /// The variables of the user in the values of a block.
    fn names_in(&self, block: &str) -> impl Iterator<Item = String> {
        let is_inside = move |field: &&VariableUse| {
            let rest = field.pointer.strip_prefix(block);
            rest.is_some_and(|rest| block.is_empty() || rest.starts_with('.'))
        };
        let names = self.uses.iter().filter(is_inside).flat_map(|field| &field.names);
        names
            .filter(|name| self.is_of_user(name))
            .map(|name| quoted(name.as_str()))
    }

    /// The keys of a model that are not in the YAML.
    fn default_keys(&self, model: &ModelConfig) -> Vec<String> {
        if model.provider != Provider::Anthropic {
            let key = ModelEndpoint::key_variable(model.provider).filter(|_| model.api_key.is_none());
            let key = key.filter(|key| self.is_of_user(key));
            return key.into_iter().map(quoted).collect();
        }
        let Ok(made) = ClaudeEnv::for_model(model, self.env) else {
            return Vec::new();
        };
        if made.secret_names.is_empty() {
            return vec!["the identity of this machine".to_owned()];
        }
        // A file of the user's home is in no variable; the key of the YAML is not the user's.
        let is_of_user = |name: &&&str| match self.env.non_blank(name) {
            Some(_) => self.is_of_user(name),
            None => **name != ANTHROPIC_API_KEY,
        };
        let names = made.secret_names.iter().filter(is_of_user);
        names.map(|name| quoted(name)).collect()
    }
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}

fn go(keys: &[String]) -> &'static str {
    if keys.len() == 1 { "goes" } else { "go" }
}

#[cfg(test)]
mod tests;
