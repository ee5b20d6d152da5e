//! How an image serves its agent: command, port, and the variables that a container needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use holodeck_model::{
    AuthMode, Env, EventStoreKind, Provider, Redactor, ServeAuth, ServeProtocol,
    env::{ANTHROPIC_API_KEY, AZURE_OPENAI_API_KEY, HOLODECK_TOKEN, OPENAI_API_KEY, OPENAI_BASE_URL},
    variable_secrets,
};
use holodeck_yaml::LoadedAgent;
use secrecy::ExposeSecret as _;

use super::{DRAIN, DeployError};
use crate::agent::{
    inventory::{Inventory, slug},
    secrets::secrets,
};

/// The port of a container whose YAML names none.
const PORT: u32 = 8080;

/// A variable of a container, never with a secret value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    /// The container does not start without it.
    Required,
    /// The agent has a default.
    Optional,
    /// A value of `deployment.environment` that is no secret.
    Value(String),
}

/// How an image serves its agent.
#[derive(Clone, Debug)]
pub(super) struct Service {
    /// For names of objects: lowercase letters, digits and `-`.
    pub(super) name: String,
    /// The agent file in the image.
    pub(super) file: String,
    pub(super) port: u32,
    protocol: ServeProtocol,
    pub(super) variables: BTreeMap<String, Variable>,
    /// Those of them that only a server reads.
    of_server: BTreeSet<String>,
    /// The variable with the address of the database of conversations, if they are kept in one.
    pub(super) database: Option<String>,
}

impl Service {
    pub(super) fn of(agent: &LoadedAgent, env: &Env) -> Self {
        let config = &agent.config;
        let events = config.events.as_ref();
        let database = events.filter(|events| events.store == EventStoreKind::Postgres);
        let deployment = config.deployment.as_ref();
        let listen = config.serve.as_ref().and_then(|serve| serve.listen.as_deref());
        let listen = listen.and_then(|listen| listen.rsplit_once(':')?.1.parse().ok());
        let file = agent.path.file_name().unwrap_or_default().to_string_lossy();
        Self {
            name: name(&config.name),
            file: file.into_owned(),
            port: deployment.map(|it| it.port).or(listen).unwrap_or(PORT),
            protocol: deployment.map_or(ServeProtocol::Both, |it| it.protocol),
            variables: variables(agent, env),
            of_server: of_server(agent),
            database: database.map(|events| events.url_env.clone()),
        }
    }

    /// The same, if a container can serve the agent.
    pub(super) fn of_server(agent: &LoadedAgent, env: &Env) -> Result<Self, DeployError> {
        let auth = agent.config.serve.as_ref().and_then(|serve| serve.auth.as_ref());
        if auth.is_some_and(|auth| auth.mode == AuthMode::None) {
            let message =
                "`serve.auth.mode: none` works on a loopback address only, and a container listens on all";
            let hint = "remove it; clients then send the token of `HOLODECK_TOKEN`";
            return Err(DeployError::refused(message, hint).at(agent.locate("serve.auth.mode")));
        }
        Ok(Self::of(agent, env))
    }

    /// The variables that a test needs.
    pub(super) fn for_tests(&self) -> BTreeMap<String, Variable> {
        let mut variables = self.variables.clone();
        variables.retain(|name, _| !self.of_server.contains(name));
        variables
    }

    /// An address of the server in its container.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The arguments of `holodeck`.
    pub(super) fn command(&self) -> Vec<String> {
        let protocol = match self.protocol {
            ServeProtocol::Rest => "rest",
            ServeProtocol::AgUi => "ag-ui",
            ServeProtocol::Both => "both",
        };
        let (port, drain) = (self.port.to_string(), DRAIN.to_string());
        [
            "serve",
            &self.file,
            "--host",
            "0.0.0.0",
            "--port",
            &port,
            "--protocol",
            protocol,
            "--drain",
            &drain,
            "--log-format",
            "json",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

/// A name of an object of Kubernetes: it begins with a letter and leaves room for endings.
fn name(agent: &str) -> String {
    let mut name = slug(agent);
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert_str(0, "agent-");
    }
    name.truncate(40);
    name.trim_end_matches('-').to_owned()
}

/// The variables that an agent reads.
fn variables(agent: &LoadedAgent, env: &Env) -> BTreeMap<String, Variable> {
    let mut found = BTreeMap::new();
    let mut add = |name: &str, variable: Variable| {
        let known = found.entry(name.to_owned()).or_insert_with(|| variable.clone());
        if variable == Variable::Required {
            *known = variable;
        }
    };
    let user = env.user_dir();
    for used in agent.places.variables() {
        // The settings of the user are not in the image.
        if user
            .as_ref()
            .is_some_and(|user| used.location.path.starts_with(user))
        {
            continue;
        }
        let text = fs::read_to_string(&used.location.path).unwrap_or_default();
        for name in &used.names {
            let has_default = !text.contains(&format!("${{{name}}}"));
            add(
                name,
                if has_default {
                    Variable::Optional
                } else {
                    Variable::Required
                },
            );
        }
    }
    let inventory = Inventory::new(agent, None);
    for used in inventory.models() {
        let model = &used.config;
        let key = match model.provider {
            Provider::Openai => OPENAI_API_KEY,
            Provider::AzureOpenai => AZURE_OPENAI_API_KEY,
            Provider::Anthropic => ANTHROPIC_API_KEY,
            Provider::Ollama => continue,
        };
        if model.provider == Provider::Openai && model.endpoint.is_none() {
            add(OPENAI_BASE_URL, Variable::Optional);
        }
        if model.api_key.is_none() {
            // A server of one's own may need none; the CLI has other ways to sign in.
            let is_vendor = model.endpoint.is_none() && model.provider == Provider::Openai;
            let is_required = is_vendor || model.provider == Provider::AzureOpenai;
            add(
                key,
                if is_required {
                    Variable::Required
                } else {
                    Variable::Optional
                },
            );
        }
    }
    for name in of_server(agent) {
        add(&name, Variable::Required);
    }
    let redactor = Redactor::new(secrets(agent, env));
    let environment = agent.config.deployment.iter().flat_map(|it| &it.environment);
    for (name, value) in environment {
        let value = value.expose_secret();
        let is_secret = !variable_secrets(name, value).is_empty() || !redactor.find(value).is_empty();
        let variable = if is_secret {
            Variable::Required
        } else {
            Variable::Value(value.to_owned())
        };
        found.insert(name.clone(), variable);
    }
    found
}

/// The variables with the tokens of clients and the address of the database of conversations.
fn of_server(agent: &LoadedAgent) -> BTreeSet<String> {
    let auth = agent.config.serve.as_ref().and_then(|serve| serve.auth.as_ref());
    let tokens = auth.into_iter().flat_map(ServeAuth::token_variables);
    let mut names: BTreeSet<String> = tokens.map(|(_, name)| name.to_owned()).collect();
    if names.is_empty() {
        names.insert(HOLODECK_TOKEN.to_owned());
    }
    let events = agent.config.events.as_ref();
    let database = events.filter(|events| events.store == EventStoreKind::Postgres);
    names.extend(database.map(|events| events.url_env.clone()));
    names
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn names_fit_objects_of_kubernetes() {
        assert_eq!(name("Order Desk!"), "order-desk");
        assert_eq!(name("7 wonders"), "agent-7-wonders");
        assert_eq!(name(&"x".repeat(90)).len(), 40);
        assert_eq!(name(&format!("{} b", "a".repeat(39))), "a".repeat(39));
    }
}
