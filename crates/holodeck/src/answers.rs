use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use holodeck_backend_api::{AgentBackend, ModelCalls, ToolFilter, ToolHost};
use holodeck_cassette::{
    AgentSeen, Cassette, CassetteError, RecordMode, RecordedAgent, RecordedChoices, RecordedTools, Recorder,
    ReplayedAgent, ReplayedChoices, ReplayedTools, Replayer, Tape, ToolSet,
};
use holodeck_mcp_bridge::env_file_variables;
use holodeck_model::{
    Env, LoadedAgent, ModelConfig, Provider, Redactor, Replayed, ToolConfig,
    env::{ANTHROPIC_API_KEY, AZURE_OPENAI_API_KEY, OPENAI_API_KEY},
    variable_secrets,
};
use holodeck_validators::ClaudeEnv;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

/// Where answers come from, as asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnswerSource {
    /// As the YAML says: its recording if it names one, else the endpoint.
    #[default]
    AsConfigured,
    /// The endpoint, whatever the YAML says.
    Live,
    /// This recording.
    Replay(PathBuf),
}

/// Where answers come from, opened: the endpoint, a recording, or the endpoint while recording.
#[derive(Clone)]
pub struct Answers {
    kind: Kind,
    redactor: Arc<Redactor>,
    reached: Arc<Mutex<Vec<Reached>>>,
}

/// A model that is asked over the network, once for all who ask it: requests a minute are counted together.
struct Reached {
    model: ModelConfig,
    fallback: Option<String>,
    calls: Arc<dyn ModelCalls>,
}

impl Reached {
    fn is_for(&self, agent: &LoadedAgent) -> bool {
        let (one, other) = (&self.model, &agent.config.model);
        let key = |model: &ModelConfig| model.api_key.as_ref().map(|key| key.expose_secret().to_owned());
        one.provider == other.provider
            && one.name == other.name
            && one.endpoint == other.endpoint
            && one.api_version == other.api_version
            && one.rpm == other.rpm
            && self.fallback == fallback(agent)
            && key(one) == key(other)
    }
}

fn fallback(agent: &LoadedAgent) -> Option<String> {
    agent.config.openai.as_ref()?.fallback_model.clone()
}

#[derive(Clone)]
enum Kind {
    Live,
    Record {
        path: PathBuf,
        tape: Arc<Mutex<Option<Arc<Tape>>>>,
    },
    Replay(Arc<Cassette>),
}

/// Why answers can't come from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The recording can't be used.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    /// A replayed run has nothing to record.
    #[error("`--record` needs the endpoint: it can't be used with `--replay`")]
    RecordWhileReplaying,
}

impl Answers {
    /// Opens where answers come from. Recording means live answers, whatever the YAML says.
    pub fn open(
        source: &AnswerSource,
        record: Option<&Path>,
        agent: &LoadedAgent,
        env: &Env,
    ) -> Result<Self, AnswerError> {
        let redactor = redactor(agent, env);
        let kind = match (source, record) {
            (AnswerSource::Replay(_), Some(_)) => return Err(AnswerError::RecordWhileReplaying),
            (_, Some(path)) => Kind::Record {
                path: path.to_owned(),
                tape: Arc::default(),
            },
            (AnswerSource::Live, None) => Kind::Live,
            (AnswerSource::Replay(path), None) => Kind::Replay(Arc::new(Cassette::open(path)?)),
            (AnswerSource::AsConfigured, None) => match &agent.execution.replay.value {
                Some(path) => Kind::Replay(Arc::new(Cassette::open(path)?)),
                None => Kind::Live,
            },
        };
        Ok(Self {
            kind,
            redactor,
            reached: Arc::default(),
        })
    }

    /// Whether nothing is recorded or replayed.
    pub(crate) fn are_live(&self) -> bool {
        matches!(self.kind, Kind::Live)
    }

    /// What every report of a replayed run says; `None` when answers are live.
    pub fn replayed(&self) -> Option<Replayed> {
        let Kind::Replay(cassette) = &self.kind else {
            return None;
        };
        let recorded = cassette.recorded();
        Some(Replayed {
            recorded: recorded.at.strftime("%Y-%m-%d").to_string(),
            model: recorded.models.join(", "),
            cassette: cassette.path().display().to_string(),
        })
    }

    /// Knows the keys this agent may use, and the shapes of others.
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.redactor)
    }

    /// The boundary to the model: `live` is asked for only when the endpoint is needed, so that a replay needs no
    /// key.
    pub(crate) fn model_calls<E: From<CassetteError>>(
        &self,
        live: impl FnOnce() -> Result<Arc<dyn ModelCalls>, E>,
    ) -> Result<Arc<dyn ModelCalls>, E> {
        match &self.kind {
            Kind::Live => live(),
            Kind::Replay(cassette) => Ok(Arc::new(Replayer::new(
                Arc::clone(cassette),
                Arc::clone(&self.redactor),
            ))),
            Kind::Record { path, tape } => {
                let live = live()?;
                Ok(Arc::new(Recorder::on(self.tape(path, tape)?, live)))
            }
        }
    }

    /// The boundary to an agent that calls its model itself: its turns. `live` is asked for only when the agent is
    /// needed, so that a replay needs neither its program nor a key.
    pub(crate) async fn agent<E: From<CassetteError>>(
        &self,
        seen: impl FnOnce() -> AgentSeen,
        live: impl Future<Output = Result<Arc<dyn AgentBackend>, E>>,
    ) -> Result<Arc<dyn AgentBackend>, E> {
        match &self.kind {
            Kind::Live => live.await,
            Kind::Replay(cassette) => Ok(Arc::new(ReplayedAgent::new(
                Arc::clone(cassette),
                Arc::clone(&self.redactor),
                seen(),
            ))),
            Kind::Record { path, tape } => {
                // What is seen is what the tools were made of, not what they changed since.
                let seen = seen();
                let live = live.await?;
                Ok(Arc::new(RecordedAgent::new(live, self.tape(path, tape)?, seen)))
            }
        }
    }

    /// The way to the model of `agent`: the one that is there for another who asks it, or the one that `make` makes.
    pub(crate) fn reach<E>(
        &self,
        agent: &LoadedAgent,
        make: impl FnOnce() -> Result<Arc<dyn ModelCalls>, E>,
    ) -> Result<Arc<dyn ModelCalls>, E> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reached) = reached.iter().find(|reached| reached.is_for(agent)) {
            return Ok(Arc::clone(&reached.calls));
        }
        let calls = make()?;
        reached.push(Reached {
            model: agent.config.model.clone(),
            fallback: fallback(agent),
            calls: Arc::clone(&calls),
        });
        Ok(calls)
    }

    /// Whether the recording tells which tools there are and what they answer, so that none need be made ready.
    pub(crate) fn know_tools(&self, set: &ToolSet) -> bool {
        match &self.kind {
            Kind::Replay(cassette) => ReplayedTools::knows(cassette, &self.redactor, set),
            Kind::Live | Kind::Record { .. } => false,
        }
    }

    /// The tools of `host` as this run uses them: themselves, recorded, or answered by the recording. An older
    /// recording has no answers of tools; then they run.
    pub(crate) fn tools(
        &self,
        host: Arc<dyn ToolHost>,
        set: ToolSet,
    ) -> Result<Arc<dyn ToolHost>, CassetteError> {
        match &self.kind {
            Kind::Replay(cassette) if cassette.has_tools() => {
                let (cassette, redactor) = (Arc::clone(cassette), Arc::clone(&self.redactor));
                Ok(Arc::new(ReplayedTools::new(cassette, redactor, host, set)))
            }
            Kind::Record { path, tape } if !host.specs().is_empty() => {
                Ok(Arc::new(RecordedTools::new(host, self.tape(path, tape)?, set)))
            }
            Kind::Live | Kind::Record { .. } | Kind::Replay(_) => Ok(host),
        }
    }

    /// What chooses the tools of a message `among` some, as this run uses it: itself, recorded, or the recording. An
    /// `older` recording tells no choices.
    pub(crate) fn choices<E: From<CassetteError>>(
        &self,
        among: Value,
        live: impl FnOnce() -> Result<Arc<dyn ToolFilter>, E>,
        older: impl FnOnce() -> Arc<dyn ToolFilter>,
    ) -> Result<Arc<dyn ToolFilter>, E> {
        match &self.kind {
            Kind::Live => live(),
            Kind::Record { path, tape } => {
                let tape = self.tape(path, tape)?;
                Ok(Arc::new(RecordedChoices::new(live()?, tape, among)))
            }
            Kind::Replay(cassette) if cassette.has_choices() => {
                let (cassette, redactor) = (Arc::clone(cassette), Arc::clone(&self.redactor));
                Ok(Arc::new(ReplayedChoices::new(cassette, redactor, among)))
            }
            Kind::Replay(_) => Ok(older()),
        }
    }

    /// The one recording of this run.
    fn tape(&self, path: &Path, tape: &Mutex<Option<Arc<Tape>>>) -> Result<Arc<Tape>, CassetteError> {
        let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tape) = &*tape {
            return Ok(Arc::clone(tape));
        }
        let made = Tape::create(path, Arc::clone(&self.redactor))?;
        *tape = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Puts a recording in its place; tells how many calls it holds. Nothing to do otherwise.
    pub fn finish(&self, mode: RecordMode) -> Result<Option<usize>, CassetteError> {
        match &self.kind {
            Kind::Record { tape, .. } => {
                let tape = tape.lock().unwrap_or_else(PoisonError::into_inner).clone();
                tape.map(|tape| tape.finish(mode)).transpose()
            }
            Kind::Live | Kind::Replay(_) => Ok(None),
        }
    }
}

/// Takes out of texts what an agent must not show: the keys it may use, and the secrets that its files name.
pub fn redactor(agent: &LoadedAgent, env: &Env) -> Arc<Redactor> {
    let claude = match agent.config.model.provider {
        Provider::Anthropic => ClaudeEnv::for_agent(agent, env).unwrap_or_default(),
        _ => ClaudeEnv::default(),
    };
    let exposed = |secret: &SecretString| secret.expose_secret().to_owned();
    let signing_in = claude.secret_names.iter().filter_map(|name| claude.get(name));
    let named = [OPENAI_API_KEY, AZURE_OPENAI_API_KEY, ANTHROPIC_API_KEY]
        .into_iter()
        .filter_map(|name| env.non_blank(name).map(str::to_owned));
    let own = agent.secrets().iter().map(exposed);
    let of_servers = agent.config.tools.iter().filter_map(|tool| match tool {
        ToolConfig::Mcp(tool) => Some(env_file_variables(tool, env)),
        _ => None,
    });
    let of_servers = of_servers
        .flatten()
        .flat_map(|(name, value)| variable_secrets(&name, value.expose_secret()));
    let all = named.chain(own).chain(signing_in.map(exposed)).chain(of_servers);
    Arc::new(Redactor::new(all))
}
