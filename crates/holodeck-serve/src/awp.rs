//! AG-UI: a request is a message or the answers to an interrupt, the response is the stream of one AG-UI run.

use axum::{Extension, extract::State, response::Response};
use bytes::Bytes;
use futures::FutureExt as _;
use holodeck_chat::RunError;
use holodeck_events::{
    AgUiEvent, AgUiRequest, AgUiRun, ApprovalAnswer, Resolution, RunAgentInput, StoreError, StoredEvent,
    Subscription,
};
use http::StatusCode;
use tokio::{
    sync::mpsc::{self, Sender},
    time::sleep,
};

use crate::{
    App,
    extract::Json,
    guard::User,
    messages::{Message, Started, start},
    problem::{Problem, Result},
    stream::{HEARTBEAT, frames, send},
};

/// An AG-UI run, its first events, and what follows them.
struct Run {
    session_id: String,
    projection: AgUiRun,
    first: Vec<AgUiEvent>,
    events: Subscription,
    started: Option<Started>,
}

pub(crate) async fn run(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Json(input): Json<RunAgentInput>,
) -> Result<Response> {
    let request = input.request().map_err(|error| {
        Problem::invalid(error.to_string())
            .with("place", error.place)
            .with("hint", error.hint)
    })?;
    for warning in &request.warnings {
        tracing::warn!(thread = %input.thread_id, "{warning}");
    }
    let run = if request.answers.is_empty() {
        begin(&app, &user, &input, request).await?
    } else {
        resume(&app, &user, &input, request.answers).await?
    };
    let (sender, receiver) = mpsc::channel(2);
    app.tasks().spawn(produce(app.clone(), run, sender));
    Ok(frames(receiver))
}

/// A new message. A known thread continues from the log, an unknown one from what the client sent.
async fn begin(app: &App, user: &str, input: &RunAgentInput, request: AgUiRequest) -> Result<Run> {
    let message = request
        .message
        .ok_or_else(|| Problem::invalid("there is no message to answer"))?;
    let thread = &input.thread_id;
    if !request.history.is_empty() && app.store().session(thread).await?.is_none() {
        let service = &app.agent(None)?.service;
        match service.import(thread, Some(user), request.history).await {
            // Another request was faster.
            Ok(()) | Err(RunError::Store(StoreError::SessionExists { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut message = Message::new(message.text);
    // A request that is sent again is the same run.
    message.client_message_id = Some(input.run_id.clone()).filter(|id| !id.is_empty());
    let started = start(app, user, Some(thread.clone()), None, message).await?;
    let head = app
        .store()
        .session(thread)
        .await?
        .and_then(|session| session.head);
    let run = app.store().run(&started.run_id).await?;
    let before = run.map_or(head, |run| run.first_index.checked_sub(1));
    let mut projection = AgUiRun::start(thread, &input.run_id, input.options());
    projection.follow(&started.run_id);
    Ok(Run {
        session_id: thread.clone(),
        projection,
        first: Vec::new(),
        events: app.store().subscribe(thread, before).await?,
        started: Some(started),
    })
}

/// The answers to an interrupt: the run behind it continues in a new AG-UI run.
async fn resume(app: &App, user: &str, input: &RunAgentInput, answers: Vec<ApprovalAnswer>) -> Result<Run> {
    let thread = &input.thread_id;
    app.session(thread, user).await?;
    for answer in &answers {
        match app.answer(answer.clone().by(Some(user))).await {
            Ok(_) => {}
            // A client must answer each interrupt, also one that was answered elsewhere or has expired. Its refusal changes
            // nothing then; anything else it wants is an error.
            Err(problem) if answer.decision == Resolution::Reject && problem.is_resolved() => {}
            Err(problem) => return Err(problem),
        }
    }
    let recorded = app.store().read_after(thread, None).await?;
    let last = recorded.last().map(StoredEvent::index);
    let events = recorded.iter().map(StoredEvent::event);
    let resumed = AgUiRun::resume(thread, &input.run_id, input.options(), events, &answers);
    let (projection, first) = resumed.ok_or_else(|| {
        let detail = "there is no run that waits for these answers";
        Problem::new(StatusCode::CONFLICT, "NOT_INTERRUPTED", detail)
    })?;
    Ok(Run {
        session_id: thread.clone(),
        projection,
        first,
        events: app.store().subscribe(thread, last).await?,
        started: None,
    })
}

async fn produce(app: App, mut run: Run, sender: Sender<Bytes>) {
    // The last client that leaves may end the run.
    let _follower = app.follow(&run.session_id);
    let mut events = std::mem::take(&mut run.first);
    loop {
        for event in events {
            let Ok(json) = serde_json::to_string(&event) else {
                return;
            };
            if !send(&app, &sender, format!("data: {json}\n\n").into()).await {
                return;
            }
        }
        if run.projection.is_over() {
            return;
        }
        events = tokio::select! {
            biased;
            () = sender.closed() => return,
            events = next(&app, &mut run) => events,
            () = sleep(app.options().heartbeat) => {
                if !send(&app, &sender, HEARTBEAT).await {
                    return;
                }
                Vec::new()
            }
        };
    }
}

/// The translation of the next events; those that are available together are translated together.
async fn next(app: &App, run: &mut Run) -> Vec<AgUiEvent> {
    let ended = async {
        match run.started.as_mut().and_then(|started| started.handle.as_mut()) {
            Some(handle) => handle.finish().await.err(),
            None => std::future::pending().await,
        }
    };
    let first = tokio::select! {
        biased;
        event = run.events.next() => event,
        () = app.closing().cancelled() => {
            return run.projection.fail("the server is stopping", "CLOSING");
        }
        error = ended => {
            run.started = None;
            return match error {
                // Its end is an event.
                None | Some(RunError::Execution(_)) => Vec::new(),
                Some(error) => {
                    let problem = Problem::from(error);
                    run.projection.fail(problem.detail(), problem.code())
                }
            };
        }
    };
    let mut batch = match first {
        Ok(Some(event)) => vec![event],
        Ok(None) => {
            return run
                .projection
                .fail("the conversation was deleted", "SESSION_DELETED");
        }
        Err(error) => {
            let problem = Problem::from(error);
            return run.projection.fail(problem.detail(), problem.code());
        }
    };
    while let Some(Ok(Some(event))) = run.events.next().now_or_never() {
        batch.push(event);
    }
    run.projection.project_all(batch.iter().map(StoredEvent::event))
}
