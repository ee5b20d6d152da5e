//! How the Claude Code CLI authenticates: the related part of its environment.

mod bedrock;
mod cloud;
mod foundry;
mod vertex;

use std::path::{Path, PathBuf};

use holodeck_model::{
    AuthProvider, Code, Diagnostic, Env, ModelConfig,
    env::{ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL},
    hint_for_missing_key,
};
use holodeck_yaml::LoadedAgent;
use secrecy::{ExposeSecret as _, SecretString};

use cloud::Cloud;

const ANTHROPIC_AUTH_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
const CLAUDE_CODE_OAUTH_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";

/// The variables the CLI needs to reach its model, and no others.
#[derive(Clone, Debug, Default)]
pub struct ClaudeEnv {
    /// The variables.
    pub vars: Vec<(String, SecretString)>,
    /// Variables that are credentials or name a credential file: children of the CLI must not see them.
    pub secret_names: Vec<&'static str>,
    /// Folders of the user's home where the CLI looks for credentials: a private home needs links to them. Each is a
    /// path below the home and the real folder.
    pub home_links: Vec<(&'static str, PathBuf)>,
    /// The credentials that were found, without values.
    pub found: String,
}

impl ClaudeEnv {
    /// The environment for `model.auth_provider`, from `env`. An error names the missing variables.
    pub fn for_agent(agent: &LoadedAgent, env: &Env) -> Result<Self, Box<Diagnostic>> {
        let Some(model) = &agent.config.model else {
            return Ok(Self::default());
        };
        Self::for_model(model, env).map_err(|error| {
            let place = agent
                .locate("model.auth_provider")
                .or_else(|| agent.locate("model.provider"));
            Box::new(error.at(place))
        })
    }

    /// As [`for_model`](Self::for_model), without a place for diagnostics.
    pub fn for_model(model: &ModelConfig, env: &Env) -> Result<Self, Box<Diagnostic>> {
        Self::on(Cloud::of_this_machine(env), model, env)
    }

    fn on(cloud: Cloud, model: &ModelConfig, env: &Env) -> Result<Self, Box<Diagnostic>> {
        let builder = Builder {
            env,
            endpoint: model.endpoint.as_deref(),
            cloud,
            made: Self::default(),
        };
        match model.auth_provider.unwrap_or(AuthProvider::ApiKey) {
            AuthProvider::ApiKey => builder.api_key(model.api_key.as_ref()),
            AuthProvider::OauthToken => builder.token(CLAUDE_CODE_OAUTH_TOKEN),
            AuthProvider::Custom => builder.token(ANTHROPIC_AUTH_TOKEN),
            AuthProvider::Bedrock => builder.bedrock(),
            AuthProvider::Vertex => builder.vertex(),
            AuthProvider::Foundry => builder.foundry(),
        }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&SecretString> {
        self.vars
            .iter()
            .find_map(|(known, value)| (known == name).then_some(value))
    }
}

struct Builder<'a> {
    env: &'a Env,
    endpoint: Option<&'a str>,
    cloud: Cloud,
    made: ClaudeEnv,
}

impl Builder<'_> {
    /// The variable takes precedence over `model.api_key`.
    fn api_key(mut self, written: Option<&SecretString>) -> Result<ClaudeEnv, Box<Diagnostic>> {
        if !self.pass_secret(ANTHROPIC_API_KEY) {
            let Some(written) = written.filter(|key| !key.expose_secret().trim().is_empty()) else {
                return Err(Box::new(not_set(ANTHROPIC_API_KEY).with_note(
                    "`model.auth_provider` names other ways to sign in: `oauth_token`, `bedrock`, `vertex`, `foundry`, `custom`",
                )));
            };
            self.made
                .vars
                .push((ANTHROPIC_API_KEY.to_owned(), written.clone()));
            self.made.secret_names.push(ANTHROPIC_API_KEY);
            "`model.api_key` is set".clone_into(&mut self.made.found);
        }
        self.base_url(ANTHROPIC_BASE_URL);
        Ok(self.made)
    }

    fn token(mut self, name: &'static str) -> Result<ClaudeEnv, Box<Diagnostic>> {
        if !self.pass_secret(name) {
            return Err(Box::new(not_set(name)));
        }
        self.base_url(ANTHROPIC_BASE_URL);
        Ok(self.made)
    }

    /// Uses `model.endpoint`, else the inherited variable; returns whether there is one.
    fn base_url(&mut self, name: &str) -> bool {
        let url = self.endpoint.or_else(|| self.env.non_blank(name));
        if let Some(url) = url {
            self.set(name, url.to_owned());
        }
        url.is_some()
    }

    fn set(&mut self, name: &str, value: impl Into<SecretString>) {
        self.made.vars.push((name.to_owned(), value.into()));
    }

    /// Passes on variables that are set.
    fn pass(&mut self, names: &[&str]) {
        for name in names {
            if let Some(value) = self.env.non_blank(name) {
                self.set(name, value.to_owned());
            }
        }
    }

    /// Passes on a credential variable; returns whether it is set. The last one found is reported.
    fn pass_secret(&mut self, name: &'static str) -> bool {
        let Some(value) = self.env.non_blank(name) else {
            return false;
        };
        self.set(name, value.to_owned());
        self.made.secret_names.push(name);
        self.made.found = format!("`{name}` is set");
        true
    }

    /// Passes on a credential path: from the variable, else below the user's home, since the CLI gets another home.
    /// Returns whether it exists.
    fn pass_place(&mut self, name: &'static str, below_home: &str) -> bool {
        let place = match (self.env.non_blank(name), self.env.home()) {
            // The CLI runs in another folder, so the path must be absolute.
            (Some(named), _) => std::path::absolute(named).unwrap_or_else(|_| PathBuf::from(named)),
            (None, Some(home)) => home.join(below_home),
            (None, None) => return false,
        };
        let exists = place.exists();
        if exists || self.env.non_blank(name).is_some() {
            self.set(name, place.display().to_string());
            self.made.secret_names.push(name);
        }
        if exists {
            self.made.found = format!("`{}` is there", place.display());
        }
        exists
    }

    fn link_home(&mut self, below_home: &'static str) {
        let folder = self.env.home().map(|home| Path::join(home, below_home));
        if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
            self.made.home_links.push((below_home, folder));
        }
    }

    fn done(self, provider: &str, lacking: &[&str]) -> Result<ClaudeEnv, Box<Diagnostic>> {
        if lacking.is_empty() {
            return Ok(self.made);
        }
        let last = lacking.len() - 1;
        let (firsts, last) = lacking.split_at(last);
        let mut message = format!("`auth_provider: {provider}` lacks {}", firsts.join(", "));
        if !firsts.is_empty() {
            message.push_str(" and ");
        }
        message.push_str(&last.concat());
        Err(Box::new(
            Diagnostic::error(Code::MissingCredential, message)
                .with_help("set what is missing in `.env` beside the agent file, or export it"),
        ))
    }
}

fn not_set(name: &str) -> Diagnostic {
    Diagnostic::error(Code::MissingCredential, format!("`{name}` is not set"))
        .with_help(hint_for_missing_key(name))
}

#[cfg(test)]
mod tests;
