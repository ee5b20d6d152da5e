//! Runs that answer requests of OpenAI clients: no person can be asked, and the answer belongs to one request.

use std::sync::Arc;

use holodeck_chat::{RunError, RunHandle, RunRequest};
use holodeck_events::{EventStore, MemoryStore, StoreError, Subscription};
use holodeck_model::events::{AgentExecutionResult, EventBody, StopFamily, StopReason};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    App, ServedAgent,
    app::{Place, Unattended},
    idempotency::{KeyedPlace, RequestKey, stop_of},
    messages::wait_for_end,
    problem::{Problem, Result},
    run_events::end_of,
};

/// A run whose answer a client waits for.
pub(crate) struct Answering {
    pub(crate) session_id: String,
    pub(crate) run_id: String,
    app: App,
    /// Where its events are.
    pub(crate) store: Arc<dyn EventStore>,
    end: End,
}

enum End {
    /// This process runs it for this request.
    Here {
        ended: oneshot::Receiver<Ended>,
        /// Cancels it when the client leaves, unless the answer is kept for another try.
        stop: Option<DropGuard>,
    },
    /// It answered the same request before, or still does.
    Elsewhere,
}

/// An answer that has an end.
pub(crate) struct Finished {
    pub(crate) result: AgentExecutionResult,
    /// Why the answer ended.
    family: Option<StopFamily>,
}

type Ended = Result<Finished>;

/// Whether an answer is kept after its client left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// It ends with its client.
    Nothing,
    /// It continues: the same request gets it.
    Answer,
}

impl Answering {
    /// Begins an answer of which nothing is stored.
    pub(crate) async fn unstored(app: &App, agent: &ServedAgent, request: RunRequest) -> Result<Self> {
        let place = app.admit(agent)?;
        let service = app.unattended(agent, Arc::new(MemoryStore::new()));
        let run = service.service.start(request, None).await?;
        Ok(Self::follow(app, run, service, place, Keeping::Nothing))
    }

    /// Begins an answer in a conversation that is stored.
    pub(crate) async fn stored(
        app: &App,
        agent: &ServedAgent,
        place: Place,
        request: RunRequest,
        keeping: Keeping,
    ) -> Result<Self, RunError> {
        let service = app.unattended(agent, Arc::clone(app.store()));
        let run = service.service.start(request, None).await?;
        Ok(Self::follow(app, run, service, place, keeping))
    }

    /// The answer to a request with this key: that of the first one, or a new one.
    pub(crate) async fn keyed(
        app: &App,
        agent: &ServedAgent,
        user: &str,
        key: &RequestKey,
        request: RunRequest,
    ) -> Result<Self> {
        let (mut skip, mut busy) = (0, Busy::default());
        loop {
            let (session_id, number) = match key.place(&**app.store(), agent, user, skip).await? {
                KeyedPlace::New { session_id, number } => (session_id, number),
                KeyedPlace::Answered { session_id, run_id } => {
                    return Ok(Self::elsewhere(app, session_id, run_id));
                }
            };
            let place = app.admit(agent)?;
            let request = RunRequest {
                session_id: Some(session_id.clone()),
                user_id: Some(user.to_owned()),
                client_message_id: Some(key.message_id.clone()),
                ..request.clone()
            };
            match Self::stored(app, agent, place, request, Keeping::Answer).await {
                Ok(answering) => return Ok(answering),
                Err(RunError::Store(StoreError::AlreadySent { run_id })) => {
                    return Ok(Self::elsewhere(app, session_id, run_id));
                }
                Err(RunError::Store(StoreError::SessionDeleted { .. })) => {
                    wait_for_runs(app, &session_id).await;
                    skip = number + 1;
                }
                Err(error) => busy.allow(error, &session_id)?,
            }
        }
    }

    /// The events of its conversation after this index, or all.
    pub(crate) async fn subscribe(&self, after: Option<u64>) -> Result<Subscription, StoreError> {
        let events = self.store.subscribe(&self.session_id, after).await?;
        Ok(events.with_reads(self.app.reads()))
    }

    /// The answer of a run that is stored.
    pub(crate) fn elsewhere(app: &App, session_id: String, run_id: String) -> Self {
        Self {
            session_id,
            run_id,
            app: app.clone(),
            store: Arc::clone(app.store()),
            end: End::Elsewhere,
        }
    }

    /// Follows a run to its end, and closes its service then.
    fn follow(app: &App, run: RunHandle, service: Unattended, place: Place, keeping: Keeping) -> Self {
        let stop = CancellationToken::new();
        let (sender, ended) = oneshot::channel();
        let answering = Self {
            session_id: run.session_id().to_owned(),
            run_id: run.run_id().to_owned(),
            app: app.clone(),
            store: Arc::clone(service.service.store()),
            end: End::Here {
                ended,
                stop: (keeping == Keeping::Nothing).then(|| stop.clone().drop_guard()),
            },
        };
        let app = app.clone();
        app.metrics().count_started();
        app.tasks().clone().spawn(async move {
            let mut run = run;
            let ending = run.clone();
            let leave = async {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = app.closing().cancelled() => {}
                }
                ending.cancel();
            };
            let (result, ()) = tokio::join!(
                async {
                    let result = run.finish().await;
                    stop.cancel();
                    result
                },
                leave
            );
            app.metrics().count_ended(result.is_ok());
            app.metrics()
                .count_violations(service.service.contract_violations());
            let store = Arc::clone(service.service.store());
            let ended = conclude(&*store, run.run_id(), result).await;
            service.service.close().await;
            // The client may have left.
            let _ = sender.send(ended);
            drop((service, place));
        });
        answering
    }

    /// The end of the answer.
    pub(crate) async fn finish(self) -> Ended {
        let Self {
            session_id,
            run_id,
            store,
            end,
            app,
        } = self;
        match end {
            End::Here { ended, stop } => {
                let is_kept = stop.is_none();
                let ended = ended.await.unwrap_or_else(|_| Err(Problem::closing()));
                drop(stop);
                ended.map_err(|problem| if is_kept { problem.after_effect() } else { problem })
            }
            End::Elsewhere => {
                let result = wait_for_end(&app, &session_id, &run_id).await?;
                if !result.success
                    && let Some(stop) = stop_of(&*store, &run_id).await?
                {
                    return Err(stop.problem());
                }
                let result = if result.success {
                    Ok(result)
                } else {
                    Err(RunError::Execution(Box::new(result)))
                };
                let ended = conclude(&*store, &run_id, result).await;
                // Another try gets the same answer.
                ended.map_err(Problem::after_effect)
            }
        }
    }
}

/// Waits for the end of the runs of a conversation that was deleted while this process ran them.
pub(crate) async fn wait_for_runs(app: &App, session_id: &str) {
    for mut run in app.runs_of(session_id) {
        // However it ended, it is over.
        let _ = run.finish().await;
    }
}

/// The conversation of a key that was found busy.
#[derive(Debug, Default)]
pub(crate) struct Busy(Option<String>);

impl Busy {
    /// Allows one more look at a conversation that is busy: another request with the key was faster, and is found then, with
    /// its body to compare. If it is not, the run is another one, and the request is refused.
    pub(crate) fn allow(&mut self, error: impl Into<Problem>, session_id: &str) -> Result<()> {
        let problem = error.into();
        if problem.code() != "RUN_IN_PROGRESS" || self.0.as_deref() == Some(session_id) {
            return Err(problem);
        }
        self.0 = Some(session_id.to_owned());
        Ok(())
    }
}

/// An answer that the model ended by its own limit or filter is an answer.
async fn conclude(
    store: &dyn EventStore,
    run_id: &str,
    result: Result<AgentExecutionResult, RunError>,
) -> Ended {
    let end = end_of(store, run_id).await.ok().flatten();
    let family = end.as_ref().and_then(|(_, end)| match &end.event().body {
        EventBody::Complete(end) => end.stop_reason.as_ref().map(StopReason::family),
        _ => None,
    });
    match (result, family) {
        (Ok(result), family) => Ok(Finished { result, family }),
        (Err(RunError::Execution(result)), Some(StopFamily::Refusal)) => Ok(Finished {
            result: *result,
            family,
        }),
        (Err(error), _) => Err(error.into()),
    }
}

impl Finished {
    /// Why the answer ended, in the words of chat completions.
    pub(crate) fn reason(&self) -> &'static str {
        match self.family {
            Some(StopFamily::Truncated | StopFamily::Unknown) => "length",
            Some(StopFamily::Refusal) => "content_filter",
            Some(StopFamily::End | StopFamily::Calls | StopFamily::Failure) | None => "stop",
        }
    }
}
