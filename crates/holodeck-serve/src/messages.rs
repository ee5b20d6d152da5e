//! Handlers that start an answer to a message and wait for its end.

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use holodeck_chat::{FileSearch, RunError, RunHandle, RunRequest, Thinking};
use holodeck_events::{StoreError, StoredEvent, agent_execution_result};
use holodeck_model::events::AgentExecutionResult;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::{
    App,
    extract::{Json, Params, Segment},
    guard::User,
    idempotency::{Key, check_key},
    problem::{Problem, Result},
    run_events::read_run,
    runs,
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Message {
    #[serde(rename = "message")]
    text: String,
    pub(crate) client_message_id: Option<String>,
    enable_thinking: Option<bool>,
    thinking_budget: Option<u32>,
    #[serde(default)]
    attachments: Vec<String>,
    #[serde(default)]
    enable_auto_semantic_search: bool,
    semantic_threshold: Option<f64>,
    max_semantic_files: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answering {
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    wait: bool,
}

/// The tokens of a client that asks for reasoning and names no budget.
const THINKING_BUDGET: u32 = 10_000;

pub(crate) async fn send(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(session_id): Segment,
    Params(answering): Params<Answering>,
    Key(key): Key,
    Json(mut message): Json<Message>,
) -> Result<Response> {
    if answering.stream && answering.wait {
        return Err(Problem::invalid("`stream` and `wait` exclude each other"));
    }
    message.take_key(key)?;
    let session_id = app.stored_id(&session_id, &user).await?;
    let started = start(&app, &user, Some(session_id), None, message).await?;
    let (session_id, run_id) = (started.session_id.clone(), started.run_id.clone());
    let mut response = if answering.stream {
        runs::stream(&app, &session_id, &run_id, started.handle, None).await?
    } else if answering.wait {
        // A client that leaves may end the run.
        let _follower = app.follow(&session_id);
        axum::Json(started.finish(&app).await?).into_response()
    } else {
        let status = if started.handle.is_some() {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        };
        (
            status,
            axum::Json(json!({ "runId": run_id, "sessionId": session_id })),
        )
            .into_response()
    };
    for (name, value) in [("x-run-id", run_id), ("x-session-id", session_id)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

/// A run that answers a message.
pub(crate) struct Started {
    pub(crate) session_id: String,
    pub(crate) run_id: String,
    /// Absent for a message that was sent before.
    pub(crate) handle: Option<RunHandle>,
}

/// Begins to answer a message, in a new conversation if it is the first one.
pub(crate) async fn start(
    app: &App,
    user: &str,
    session_id: Option<String>,
    agent: Option<&str>,
    message: Message,
) -> Result<Started> {
    let known = match &session_id {
        Some(id) => app.store().session(id).await?,
        None => None,
    };
    if let Some(known) = &known
        && known.owner.as_deref() != Some(user)
    {
        return Err(Problem::session_not_found(&known.session_id));
    }
    let agent = match (&known, agent) {
        (Some(known), named) => {
            let own = app.agent_of(known)?;
            if named.is_some_and(|named| named != own.name) {
                let detail = format!(
                    "session `{}` is a conversation with `{}`",
                    known.session_id, own.name
                );
                return Err(Problem::new(StatusCode::CONFLICT, "OTHER_AGENT", detail));
            }
            own
        }
        (None, named) => app.agent(named)?,
    };
    if let Some(id) = &message.client_message_id {
        app.refuse_secret("`clientMessageId`", id)?;
    }
    let request = message.into_request(session_id, user)?;
    let place = app.admit(agent)?;
    let handle = match agent.service.start(request, None).await {
        Ok(handle) => handle,
        Err(RunError::Store(StoreError::AlreadySent { run_id })) => return repeated(app, run_id).await,
        Err(error) => return Err(error.into()),
    };
    app.metrics().count_started();
    let (mut ended, metrics) = (handle.clone(), app.clone());
    app.tasks().spawn(async move {
        let result = ended.finish().await;
        metrics.metrics().count_ended(result.is_ok());
        drop(place);
    });
    Ok(Started {
        session_id: handle.session_id().to_owned(),
        run_id: handle.run_id().to_owned(),
        handle: Some(handle),
    })
}

/// The run of a message that was sent before.
pub(crate) async fn repeated(app: &App, run_id: String) -> Result<Started> {
    // One that waits for its turn is not stored yet.
    let handle = app.run(&run_id);
    let run = app.store().run(&run_id).await?;
    let (session_id, handle) = match (run, handle) {
        (Some(run), _) => (run.session_id, None),
        (None, Some(handle)) => (handle.session_id().to_owned(), Some(handle)),
        (None, None) => return Err(Problem::run_not_found(&run_id)),
    };
    Ok(Started {
        session_id,
        run_id,
        handle,
    })
}

impl Started {
    /// The result, once the run is over.
    pub(crate) async fn finish(self, app: &App) -> Result<AgentExecutionResult> {
        let result = match self.handle {
            Some(mut handle) => match handle.finish().await {
                Ok(result) => result,
                Err(RunError::Execution(result)) => *result,
                Err(error) => return Err(error.into()),
            },
            None => wait_for_end(app, &self.session_id, &self.run_id).await?,
        };
        if result.success {
            Ok(result)
        } else {
            Err(RunError::Execution(Box::new(result)).into())
        }
    }
}

/// The result of a run of a stored conversation that any process runs.
pub(crate) async fn wait_for_end(app: &App, session_id: &str, run_id: &str) -> Result<AgentExecutionResult> {
    let gone = || Problem::run_not_found(run_id);
    let is_of_run = |event: &StoredEvent| event.event().meta.run_id.as_deref() == Some(run_id);
    let mut run = app.store().run(run_id).await?.ok_or_else(gone)?;
    if run.last_index.is_none() {
        let before = run.first_index.checked_sub(1);
        let mut events = app.subscribe(session_id, before).await?;
        loop {
            let event = events.next().await?.ok_or_else(gone)?;
            if is_of_run(&event) && event.event().body.is_terminal() {
                run.last_index = Some(event.index());
                break;
            }
            drop(event);
            events.release();
        }
    }
    // Few at a time: it is as large as the answer.
    let _reading = app.reads().acquire().await;
    let mut of_run = Vec::new();
    read_run(app.store().as_ref(), &run, |event| of_run.push(event)).await?;
    agent_execution_result(of_run.iter().map(StoredEvent::event)).ok_or_else(gone)
}

impl Message {
    /// A message without options.
    pub(crate) fn new(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// With files of the user.
    pub(crate) fn with_attachments(self, attachments: Vec<String>) -> Self {
        Self { attachments, ..self }
    }

    /// Takes the client's id of the message from the header that is made for it.
    fn take_key(&mut self, key: Option<String>) -> Result<()> {
        let Some(key) = key else { return Ok(()) };
        match &self.client_message_id {
            Some(id) if *id != key => Err(Problem::invalid(
                "`Idempotency-Key` and `clientMessageId` name different messages",
            )),
            _ => {
                self.client_message_id = Some(key);
                Ok(())
            }
        }
    }

    fn into_request(self, session_id: Option<String>, user: &str) -> Result<RunRequest> {
        if let Some(id) = &self.client_message_id {
            check_key("clientMessageId", id)?;
        }
        let search = match (
            self.enable_auto_semantic_search,
            self.semantic_threshold,
            self.max_semantic_files,
        ) {
            (true, threshold, max_files) => {
                let defaults = FileSearch::default();
                Some(FileSearch {
                    threshold: threshold.unwrap_or(defaults.threshold),
                    max_files: max_files.unwrap_or(defaults.max_files),
                })
            }
            (false, None, None) => None,
            (false, ..) => {
                return Err(Problem::invalid(
                    "`semanticThreshold` and `maxSemanticFiles` need `enableAutoSemanticSearch`",
                ));
            }
        };
        let thinking = match (self.enable_thinking, self.thinking_budget) {
            (Some(true), budget) => Some(Thinking::Budget(budget.unwrap_or(THINKING_BUDGET))),
            (Some(false), _) => Some(Thinking::Off),
            (None, Some(_)) => return Err(Problem::invalid("`thinkingBudget` needs `enableThinking`")),
            (None, None) => None,
        };
        Ok(RunRequest {
            session_id,
            message: self.text,
            user_id: Some(user.to_owned()),
            client_message_id: self.client_message_id,
            attachments: self.attachments,
            search,
            thinking,
            ..RunRequest::default()
        })
    }
}
