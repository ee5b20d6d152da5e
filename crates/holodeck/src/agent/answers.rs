//! The source of a run's answers: the live endpoint, a recording, or the endpoint while a recording is made.
//!
//! Everything that reaches a model goes through [`Answers`], so that a replay needs neither keys nor programs. The key
//! of a recorded turn is made in `turn_key`.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use holodeck_backend_api::{
    Adaptations, AgentBackend, BackendError, ModelCalls, TextSimilarity, ToolFilter, ToolHost,
};
use holodeck_cassette::{
    AgentContext, Cassette, CassetteError, RecordMode, RecordedAgent, RecordedChoices, RecordedSimilarity,
    RecordedTools, Recorder, ReplayedAgent, ReplayedChoices, ReplayedSimilarity, ReplayedTools, Replayer,
    Tape, ToolSet,
};
use holodeck_model::{AnswersFrom, Env, ModelConfig, Redactor, Replayed, ResolvedAgent};
use holodeck_yaml::LoadedAgent;
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::agent::{adapted_calls::AdaptedCalls, secrets::redactor};

/// The requested source of answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnswerSource {
    /// As the YAML configures: its recording if it names one, else the endpoint.
    #[default]
    AsConfigured,
    /// The endpoint, regardless of the YAML.
    Live,
    /// This recording.
    Replay(PathBuf),
}

/// The open source of answers: the endpoint, a recording, or the endpoint while recording.
#[derive(Clone)]
pub struct Answers {
    kind: Kind,
    redactor: Arc<Redactor>,
    shared_calls: Arc<Mutex<Vec<SharedCalls>>>,
    adaptations: Adaptations,
}

/// A connection to a model that all its users share, so that their requests per minute are counted together.
struct SharedCalls {
    model: ModelConfig,
    fallback: Option<String>,
    calls: Arc<dyn ModelCalls>,
}

impl SharedCalls {
    fn is_for(&self, agent: &ResolvedAgent, model: &ModelConfig) -> bool {
        let (own, other) = (&self.model, model);
        let key = |model: &ModelConfig| model.api_key.as_ref().map(|key| key.expose_secret().to_owned());
        own.provider == other.provider
            && own.name == other.name
            && own.endpoint == other.endpoint
            && own.api_version == other.api_version
            && own.rpm == other.rpm
            && self.fallback == fallback(agent)
            && key(own) == key(other)
    }
}

fn fallback(agent: &ResolvedAgent) -> Option<String> {
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

/// Why a source of answers can't be used.
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
    /// Opens the source of answers. Recording uses live answers, regardless of the YAML.
    pub fn open(
        source: &AnswerSource,
        record: Option<&Path>,
        agent: &ResolvedAgent,
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
            shared_calls: Arc::default(),
            adaptations: Adaptations::default(),
        })
    }

    /// Whether answers are neither recorded nor replayed.
    pub(crate) fn are_live(&self) -> bool {
        matches!(self.kind, Kind::Live)
    }

    /// The recording that every report of a replayed run names; `None` when answers are live.
    pub fn replayed(&self) -> Option<Replayed> {
        let Kind::Replay(cassette) = &self.kind else {
            return None;
        };
        let recorded = cassette.info();
        Some(Replayed {
            recorded: recorded.at.strftime("%Y-%m-%d").to_string(),
            model: recorded.models.join(", "),
            cassette: cassette.path().display().to_string(),
        })
    }

    /// Masks the keys that this agent may use, and texts that look like keys.
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.redactor)
    }

    /// The boundary to the model. `live` is called only when the endpoint is needed, so that a replay needs no key.
    pub(crate) fn model_calls<E: From<CassetteError>>(
        &self,
        live: impl FnOnce() -> Result<Arc<dyn ModelCalls>, E>,
    ) -> Result<Arc<dyn ModelCalls>, E> {
        let inner: Arc<dyn ModelCalls> = match &self.kind {
            Kind::Live => live()?,
            Kind::Replay(cassette) => {
                Arc::new(Replayer::new(Arc::clone(cassette), Arc::clone(&self.redactor)))
            }
            Kind::Record { path, tape } => {
                let live = live()?;
                Arc::new(Recorder::with_tape(self.tape(path, tape)?, live))
            }
        };
        Ok(Arc::new(AdaptedCalls {
            inner,
            adaptations: self.adaptations.clone(),
        }))
    }

    /// The parts of requests to all models that are adapted, in this run or in the recorded one.
    pub(crate) fn adaptations(&self) -> Adaptations {
        self.adaptations.clone()
    }

    /// The boundary to an agent that calls its model itself: its turns. `live` is awaited only when the agent is
    /// needed, so that a replay needs neither its program nor a key.
    pub(crate) async fn agent<E: From<CassetteError>>(
        &self,
        key: impl FnOnce() -> Result<AgentContext, E>,
        live: impl Future<Output = Result<Arc<dyn AgentBackend>, E>>,
    ) -> Result<Arc<dyn AgentBackend>, E> {
        match &self.kind {
            Kind::Live => live.await,
            Kind::Replay(cassette) => Ok(Arc::new(ReplayedAgent::new(
                Arc::clone(cassette),
                Arc::clone(&self.redactor),
                key()?,
            ))),
            Kind::Record { path, tape } => {
                // Computed before the tools run, because they may change files.
                let key = key()?;
                let live = live.await?;
                Ok(Arc::new(RecordedAgent::new(live, self.tape(path, tape)?, key)))
            }
        }
    }

    /// The connection to the `model` of `agent`: the existing one if there is one, else the result of `create`.
    pub(crate) fn share_calls<E>(
        &self,
        agent: &ResolvedAgent,
        model: &ModelConfig,
        create: impl FnOnce() -> Result<Arc<dyn ModelCalls>, E>,
    ) -> Result<Arc<dyn ModelCalls>, E> {
        let mut shared_calls = self.shared_calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = shared_calls.iter().find(|shared| shared.is_for(agent, model)) {
            return Ok(Arc::clone(&shared.calls));
        }
        let calls = create()?;
        shared_calls.push(SharedCalls {
            model: model.clone(),
            fallback: fallback(agent),
            calls: Arc::clone(&calls),
        });
        Ok(calls)
    }

    /// Returns an error if the recording was made with other models than the agent's: then it answers nothing that this is
    /// asked. What answers in place of the agent may have models of its own, and of a
    /// matrix other combinations may have been recorded.
    pub(crate) fn check_model(&self, agent: &LoadedAgent, source: &AnswerSource) -> Result<(), BackendError> {
        let (Kind::Replay(cassette), Some(AnswersFrom::Model(model)), None, None) = (
            &self.kind,
            agent.config.answers_from(),
            &agent.config.routing,
            &agent.combination,
        ) else {
            return Ok(());
        };
        let own = (
            model.provider.as_str(),
            self.redactor.text(&model.name).into_owned(),
        );
        let mut asked = cassette.asked().iter();
        if asked.any(|(provider, name)| (provider.as_str(), name) == (own.0, &own.1)) {
            return Ok(());
        }
        let recorded: Vec<String> = cassette
            .asked()
            .iter()
            .map(|(provider, name)| format!("{provider} {name}"))
            .collect();
        let is_configured = *source == AnswerSource::AsConfigured;
        let place = agent.locate("execution.replay").filter(|_| is_configured);
        let hint = match place {
            Some(place) => format!(
                "remove `execution.replay` ({place}), or run with `--live`; `--live --record FILE` records it again"
            ),
            None => "`--live --record FILE` records it again".to_owned(),
        };
        let miss = BackendError::replay_miss(format!(
            "the recording `{}` was made with {}, and the agent now uses {} {}",
            cassette.path().display(),
            recorded.join(", "),
            own.0,
            own.1
        ));
        Err(miss.with_hint(hint))
    }

    /// Returns an error if the recording was made with different files of these tools.
    pub(crate) fn check_files(&self, set: &ToolSet) -> Result<(), BackendError> {
        let Kind::Replay(cassette) = &self.kind else {
            return Ok(());
        };
        match ReplayedTools::changed_files(cassette, &self.redactor, set) {
            changed if changed.is_empty() => Ok(()),
            changed => Err(BackendError::replay_miss(format!(
                "`{}` was recorded with different tool files\n{}",
                cassette.path().display(),
                changed.join("\n")
            ))),
        }
    }

    /// Whether the recording contains the tools and their answers, so that no tool has to be prepared.
    pub(crate) fn can_replay_tools(&self, set: &ToolSet) -> bool {
        match &self.kind {
            Kind::Replay(cassette) => ReplayedTools::has_tool_list(cassette, &self.redactor, set),
            Kind::Live | Kind::Record { .. } => false,
        }
    }

    /// The tools of `host` as this run uses them: directly, recorded, or replayed. An older recording contains no
    /// answers of tools; then the tools run.
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

    /// The filter that chooses the tools of a message `among` some, as this run uses it: directly, recorded, or
    /// replayed. `older` is the filter for a recording without choices.
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

    /// How similar texts are by the model `name`, as this run uses it: directly, recorded, or replayed.
    pub(crate) fn similarity<E: From<CassetteError>>(
        &self,
        name: &str,
        live: impl FnOnce() -> Result<Arc<dyn TextSimilarity>, E>,
    ) -> Result<Arc<dyn TextSimilarity>, E> {
        match &self.kind {
            Kind::Live => live(),
            Kind::Record { path, tape } => {
                let tape = self.tape(path, tape)?;
                Ok(Arc::new(RecordedSimilarity::new(live()?, tape)))
            }
            Kind::Replay(cassette) => {
                let (cassette, redactor) = (Arc::clone(cassette), Arc::clone(&self.redactor));
                Ok(Arc::new(ReplayedSimilarity::new(
                    cassette,
                    redactor,
                    name.to_owned(),
                )))
            }
        }
    }

    /// The one recording of this run.
    fn tape(&self, path: &Path, tape: &Mutex<Option<Arc<Tape>>>) -> Result<Arc<Tape>, CassetteError> {
        let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tape) = &*tape {
            return Ok(Arc::clone(tape));
        }
        let new = Tape::create(path, Arc::clone(&self.redactor))?;
        *tape = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Moves a new recording to its path and returns its number of calls. Does nothing if this run does not record.
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
