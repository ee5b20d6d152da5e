//! AG-UI: a request is a message or the answers to an interrupt, the response is the stream of one AG-UI run.

use std::time::Duration;

use axum::{Extension, extract::State, response::Response};
use futures::FutureExt as _;
use holodeck_chat::{Concurrency, RunError};
use holodeck_events::{
    AgUiEvent, AgUiRequest, AgUiRun, ApprovalAnswer, Resolution, RunAgentInput, StoredEvent, Subscription,
};
use http::StatusCode;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use crate::{
    App,
    branch::{Sent, Settled, branches, settle},
    extract::Json,
    guard::User,
    idempotency::{Key, RequestKey, check_key},
    messages::{Message, Started, repeated, start},
    outlet::Outlet,
    problem::{Problem, Result},
};

/// How long a message waits for the end of a run that was stopped.
const STOP_LIMIT: Duration = Duration::from_secs(6);
/// How long a message waits for the run before it, whose client may have left a moment ago.
const NOTICE_LIMIT: Duration = Duration::from_secs(2);

/// Bytes of stored events that are translated together, unless one is larger.
const BATCH: usize = 16 << 10;

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
    Key(key): Key,
    Json(body): Json<Map<String, Value>>,
) -> Result<Response> {
    let body = Value::Object(body);
    let key = key.map(|key| RequestKey::new("awp", &user, &key, &body));
    let input = RunAgentInput::deserialize(body)
        .map_err(|error| Problem::invalid(format!("the body is not what is expected: {error}")))?;
    let request = input.request().map_err(|error| {
        Problem::invalid(error.to_string())
            .with("place", error.place)
            .with("hint", error.hint)
    })?;
    for warning in &request.warnings {
        tracing::warn!(thread = %input.thread_id, "{warning}");
    }
    if !input.run_id.is_empty() {
        check_key("runId", &input.run_id)?;
        app.refuse_secret("`runId`", &input.run_id)?;
    }
    let run = if request.answers.is_empty() {
        begin(&app, &user, &input, request, key).await?
    } else {
        resume(&app, &user, &input, request.answers).await?
    };
    let (outlet, response) = Outlet::open(&app);
    app.tasks().spawn(produce(run, outlet));
    Ok(response)
}

/// A new message, in the conversation that has the client's history.
async fn begin(
    app: &App,
    user: &str,
    input: &RunAgentInput,
    request: AgUiRequest,
    key: Option<RequestKey>,
) -> Result<Run> {
    let message = request
        .message
        .ok_or_else(|| Problem::invalid("there is no message to answer"))?;
    let thread = &input.thread_id;
    wait_for_stop(app, user, thread).await?;
    let service = &app.agent(None)?.service;
    let turn = app.threads().lock(user, thread).await;
    // A request that is sent again is the same run.
    let (id, key) = match key.map(|key| key.in_conversation()) {
        Some((id, key)) => (id, Some(key)),
        None => (input.run_id.clone(), None),
    };
    let sent = Sent {
        message: &message.text,
        id: &id,
        key: key.as_deref(),
    };
    let reading = app.reads().acquire().await;
    let Settled { session_id, run_id } =
        settle((app, service), user, thread, &sent, &request.history).await?;
    drop(reading);
    let started = if let Some(run_id) = run_id {
        repeated(app, run_id).await?
    } else {
        let mut message = Message::new(message.text);
        message.client_message_id = Some(id);
        start(app, user, Some(session_id.clone()), None, message).await?
    };
    drop(turn);
    let head = app
        .store()
        .session(&session_id)
        .await?
        .and_then(|session| session.head);
    let run = app.store().run(&started.run_id).await?;
    let before = run.map_or(head, |run| run.first_index.checked_sub(1));
    let mut projection = AgUiRun::start(thread, &input.run_id, input.options());
    projection.follow(&started.run_id);
    Ok(Run {
        projection,
        first: Vec::new(),
        events: app.subscribe(&session_id, before).await?,
        session_id,
        started: Some(started),
    })
}

/// Waits for the end of a run whose client has stopped it, so that its next message is not refused. That the client left
/// may become known only after its next request.
async fn wait_for_stop(app: &App, user: &str, thread: &str) -> Result<()> {
    let Some(session_id) = branches(app, user, thread).await?.pop() else {
        return Ok(());
    };
    let Ok(session) = app.stored_session(&session_id, user).await else {
        return Ok(());
    };
    let service = &app.agent_of(&session)?.service;
    if service.concurrency() != Concurrency::Reject {
        return Ok(());
    }
    for mut run in service.runs_of(&session_id) {
        let waits_for_person = !app.store().approvals(Some(&session_id), None).await?.is_empty();
        let limit = match (run.is_stopping(), waits_for_person) {
            (true, _) => STOP_LIMIT,
            (false, true) => continue,
            (false, false) => NOTICE_LIMIT,
        };
        // However it ended, the thread is free.
        let _ = timeout(limit, run.finish()).await;
    }
    Ok(())
}

/// The answers to an interrupt: the run behind it continues in a new AG-UI run.
async fn resume(app: &App, user: &str, input: &RunAgentInput, answers: Vec<ApprovalAnswer>) -> Result<Run> {
    let thread = &input.thread_id;
    let session_id = branches(app, user, thread).await?.pop();
    let session_id = session_id.ok_or_else(|| Problem::session_not_found(thread))?;
    for answer in &answers {
        let mut own = answer.clone().by(Some(user));
        own.session_id = Some(session_id.clone());
        match app.answer(own).await {
            Ok(_) => {}
            // A client must answer each interrupt, also one that was answered elsewhere or has expired. Its refusal changes
            // nothing then; anything else it wants is an error.
            Err(problem) if answer.decision == Resolution::Reject && problem.is_resolved() => {}
            Err(problem) => return Err(problem),
        }
    }
    let reading = app.reads().acquire().await;
    let recorded = app.store().read_after(&session_id, None).await?;
    let last = recorded.last().map(StoredEvent::index);
    let events = recorded.iter().map(StoredEvent::event);
    let resumed = AgUiRun::resume(thread, &input.run_id, input.options(), events, &answers);
    let (projection, first) = resumed.ok_or_else(|| {
        let detail = "there is no run that waits for these answers";
        Problem::new(StatusCode::CONFLICT, "NOT_INTERRUPTED", detail)
    })?;
    drop(recorded);
    drop(reading);
    Ok(Run {
        projection,
        first,
        events: app.subscribe(&session_id, last).await?,
        session_id,
        started: None,
    })
}

/// Sends the run to its client. A client of this protocol that leaves has stopped the run: it can't come back to it.
async fn produce(mut run: Run, mut outlet: Outlet) {
    let app = outlet.app().clone();
    let follower = app.follow(&run.session_id);
    deliver(&app, &mut run, &mut outlet).await;
    drop(follower);
    if !run.projection.is_over() && !app.is_followed(&run.session_id) && !app.closing().is_cancelled() {
        for agent in app.agents() {
            for left in agent.service.runs_of(&run.session_id) {
                left.cancel();
            }
        }
    }
}

async fn deliver(app: &App, run: &mut Run, outlet: &mut Outlet) {
    let mut events = std::mem::take(&mut run.first);
    loop {
        for event in events {
            let Ok(json) = serde_json::to_string(&event) else {
                return;
            };
            if !outlet.send(format!("data: {json}\n\n").into()).await {
                return;
            }
        }
        run.events.release();
        if run.projection.is_over() {
            return;
        }
        outlet.ready().await;
        events = tokio::select! {
            biased;
            () = outlet.closed() => return,
            events = next(app, run) => events,
            () = sleep(app.options().heartbeat) => {
                if !outlet.heartbeat().await {
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
    let mut bytes = batch.iter().map(|event| event.json().len()).sum::<usize>();
    while bytes < BATCH
        && let Some(Ok(Some(event))) = run.events.next().now_or_never()
    {
        bytes += event.json().len();
        batch.push(event);
    }
    run.projection.project_all(batch.iter().map(StoredEvent::event))
}
