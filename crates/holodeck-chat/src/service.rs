//! Answers messages in stored conversations: one run at a time in each, with queueing, cancellation and recovery.
//!
//! The only way in which `chat`, `serve` and stored runs execute a message. Start reading at [`AgentRunService`].

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, Approver, BackendEvent, EventStream, HistoryItem, Spending, TurnRequest,
};
use holodeck_events::{
    ApprovalAnswer, Clock, EventSink, EventStore, Ids, NewRun, RandomIds, Recording, Resolution, StoreError,
    StoredEvent, SystemClock,
};
use holodeck_model::{
    OnApprovalTimeout, Redactor,
    events::{AgentExecutionResult, Attachment, EventBody, SessionStart},
};
use holodeck_turn::{TurnInput, TurnRunner};
use serde_json::Value;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Concurrency, Patience, RunError, RunHandle, RunRequest,
    approvals::RunQuestions,
    files::{Attachments, FileVault, StoredFile, TextEmbedder, index_file},
    import::{PastTurn, answered, exchanges, replayed},
    live::{LiveSessions, Slot, Turn},
    masking::mask_events,
    request::{SESSION_ID_FORM, is_id},
    run::{RunOutcome, RunSink, Seen},
};

/// Messages that may wait in one conversation.
const MAX_WAITING: usize = 16;

/// Knows which arguments tools accept.
pub trait CheckArguments: Send + Sync {
    /// Says why a tool does not accept these arguments.
    fn check(&self, tool: &str, arguments: &Value) -> Result<(), String>;

    /// Says why an answer to the question of a server does not match its schema.
    fn check_answer(&self, schema: &Value, answer: &Value) -> Result<(), String> {
        let _ = (schema, answer);
        Ok(())
    }
}

/// How a service runs its agent.
#[derive(Clone)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers construct it as a literal with `..Default::default()`"
)]
pub struct ServiceOptions {
    /// How new sessions begin.
    pub session: SessionStart,
    /// Files, prices, and the time limit of a turn.
    pub turns: Option<TurnRunner>,
    /// Decides about tool calls; what it leaves open, a person decides.
    pub policy: Option<Arc<dyn Approver>>,
    /// Checks the arguments that a person changed.
    pub tools: Option<Arc<dyn CheckArguments>>,
    /// The files of users; without it, only files of this machine can be attached.
    pub files: Option<FileVault>,
    /// Finds the files that match a message.
    pub embedder: Option<Arc<dyn TextEmbedder>>,
    /// How long a person has to decide.
    pub patience: Patience,
    /// How to handle a message while another one is answered.
    pub concurrency: Concurrency,
    /// Masks secrets before anything is stored or delivered.
    pub redactor: Option<Arc<Redactor>>,
    /// How long pieces of text are collected before they are stored and delivered together.
    pub chunk_interval: Duration,
    /// Conversations that the backend keeps open between turns.
    pub live_sessions: usize,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New ids.
    pub ids: Arc<dyn Ids>,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            session: SessionStart::default(),
            turns: None,
            policy: None,
            tools: None,
            files: None,
            embedder: None,
            patience: Patience {
                limit: None,
                then: OnApprovalTimeout::Reject,
            },
            concurrency: Concurrency::default(),
            redactor: None,
            chunk_interval: Duration::ZERO,
            live_sessions: 4,
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
        }
    }
}

/// Answers messages in conversations, and records every event in a store. Cheap to clone.
///
/// A run continues without a listener: its events are in the store, and [`EventStore::subscribe`] delivers
/// them.
#[derive(Clone)]
pub struct AgentRunService(Arc<Inner>);

struct Inner {
    store: Arc<dyn EventStore>,
    live: Arc<LiveSessions>,
    options: ServiceOptions,
    runs: Mutex<HashMap<String, RunHandle>>,
    /// The order of the messages of a conversation.
    queues: Mutex<HashMap<String, Queue>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    /// Events that the backend or the store delivered and that break the event contract.
    contract_violations: AtomicU64,
}

type Queue = Arc<tokio::sync::Mutex<()>>;

/// Answers one message, in a service of its own.
pub async fn run_graph(
    backend: Arc<dyn AgentBackend>,
    store: Arc<dyn EventStore>,
    options: ServiceOptions,
    request: RunRequest,
    sink: Option<Arc<dyn EventSink>>,
) -> Result<AgentExecutionResult, RunError> {
    let service = AgentRunService::new(backend, store, options);
    let result = service.run_graph(request, sink).await;
    service.close().await;
    result
}

impl AgentRunService {
    /// A service for one agent.
    pub fn new(backend: Arc<dyn AgentBackend>, store: Arc<dyn EventStore>, options: ServiceOptions) -> Self {
        let files = attachments(&options);
        let live = Arc::new(LiveSessions::new(backend, options.live_sessions, files));
        Self(Arc::new(Inner {
            store,
            live,
            options,
            runs: Mutex::default(),
            queues: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            contract_violations: AtomicU64::new(0),
        }))
    }

    /// Events of the backend that were not recorded because they would break an invariant, and events of the store that
    /// break the event contract, in all runs so far.
    pub fn contract_violations(&self) -> u64 {
        self.0.contract_violations.load(Ordering::Relaxed)
    }

    /// The store of all events.
    pub fn store(&self) -> &Arc<dyn EventStore> {
        &self.0.store
    }

    /// Answers a message and waits for the result. Each event of the run is delivered to `sink` once it is stored; the
    /// run is recorded in the same way without a sink.
    pub async fn run_graph(
        &self,
        request: RunRequest,
        sink: Option<Arc<dyn EventSink>>,
    ) -> Result<AgentExecutionResult, RunError> {
        self.start(request, sink).await?.finish().await
    }

    /// Begins a conversation without a message; returns its id.
    pub async fn open_session(
        &self,
        session_id: Option<String>,
        user: Option<&str>,
    ) -> Result<String, RunError> {
        let session_id = self.new_session_id(session_id)?;
        if let Some(known) = self.0.store.session(&session_id).await? {
            let session_id = known.session_id;
            return Err(RunError::Store(if known.owner.as_deref() == user {
                StoreError::SessionExists { session_id }
            } else {
                StoreError::SessionNotFound { session_id }
            }));
        }
        let options = &self.0.options;
        let recording = Recording::new(&*self.0.store, &options.clock, &options.ids);
        recording
            .session(&session_id, user, options.session.clone())
            .await?;
        Ok(session_id)
    }

    /// Records messages of a conversation that was held elsewhere, as a new conversation. Only texts are kept.
    pub async fn import(
        &self,
        session_id: &str,
        user: Option<&str>,
        history: Vec<HistoryItem>,
    ) -> Result<(), RunError> {
        let runs = exchanges(history).into_iter();
        let runs = runs.map(|(message, answer)| (message, answered(answer)));
        self.record_past(session_id, user, runs.collect()).await
    }

    /// Records turns of a conversation that was held elsewhere, with their calls and results, as a new conversation.
    pub async fn import_turns(
        &self,
        session_id: &str,
        user: Option<&str>,
        turns: Vec<PastTurn>,
    ) -> Result<(), RunError> {
        let runs = turns.into_iter();
        let runs = runs.map(|turn| (turn.message, replayed(turn.result)));
        self.record_past(session_id, user, runs.collect()).await
    }

    /// Records messages whose answers are known as a new conversation.
    async fn record_past(
        &self,
        session_id: &str,
        user: Option<&str>,
        runs: Vec<(String, EventStream<'_>)>,
    ) -> Result<(), RunError> {
        let session_id = self.open_session(Some(session_id.to_owned()), user).await?;
        let options = &self.0.options;
        let recording = Recording::new(&*self.0.store, &options.clock, &options.ids);
        for (message, events) in runs {
            let run = NewRun {
                session_id: session_id.clone(),
                message: self.masked(&message),
                run_id: None,
                user_id: user.map(ToOwned::to_owned),
                approval_timeout: None,
                ..NewRun::default()
            };
            let events = match &options.redactor {
                Some(redactor) => mask_events(events, redactor),
                None => events,
            };
            recording.record(run, events).await?;
        }
        Ok(())
    }

    /// The id of a new conversation: this one, or any.
    fn new_session_id(&self, session_id: Option<String>) -> Result<String, RunError> {
        match session_id {
            Some(id) if is_id(&id) => Ok(id),
            Some(_) => Err(RunError::refused(SESSION_ID_FORM)),
            None => Ok(self.0.options.ids.next().to_string()),
        }
    }

    /// Begins to answer a message. Returns once the message is stored, or once it waits for its turn.
    pub async fn start(
        &self,
        request: RunRequest,
        sink: Option<Arc<dyn EventSink>>,
    ) -> Result<RunHandle, RunError> {
        request.check()?;
        if self.0.closing.is_cancelled() {
            return Err(RunError::Closing);
        }
        let cancel = self.0.closing.child_token();
        let (turn, attachments, warnings) = self.prepare(&request, &cancel).await?;
        let new_id = || self.0.options.ids.next().to_string();
        let session_id = request.session_id.clone().unwrap_or_else(new_id);
        let (outcome, ended) = watch::channel(None);
        let handle = RunHandle {
            session_id: session_id.clone(),
            run_id: new_id(),
            cancel,
            outcome: ended,
        };
        let place = self.wait_for_place(&session_id).await?;
        let waits = matches!(place, Place::Waiting(_));
        let run = NewRun {
            session_id,
            message: self.masked(&request.message),
            run_id: Some(handle.run_id.clone()),
            user_id: request.user_id,
            client_message_id: request.client_message_id,
            attachments,
            approval_timeout: self.0.options.patience.limit,
        };
        let (begun, mut has_begun) = watch::channel(false);
        self.runs().insert(handle.run_id.clone(), handle.clone());
        let (inner, task) = (Arc::clone(&self.0), handle.clone());
        self.0.tasks.spawn(async move {
            let question = Question { turn, warnings };
            let result = inner.run(&task, place, run, question, begun, sink).await;
            inner.forget(&task);
            outcome.send_replace(Some(result));
        });
        if !waits {
            // A run that could not begin drops the sender.
            let begun = has_begun.wait_for(|begun| *begun).await.is_ok();
            if !begun {
                let mut handle = handle;
                return Err(handle.finish().await.err().unwrap_or(RunError::Closing));
            }
        }
        Ok(handle)
    }

    /// The run, if this service runs it at present.
    pub fn run(&self, run_id: &str) -> Option<RunHandle> {
        self.runs().get(run_id).cloned()
    }

    /// The runs of a conversation that this service runs at present.
    pub fn runs_of(&self, session_id: &str) -> Vec<RunHandle> {
        let runs = self.runs();
        runs.values()
            .filter(|run| run.session_id == session_id)
            .cloned()
            .collect()
    }

    /// Answers a question to a person. Changed arguments that the tool does not accept are refused, and the question
    /// stays open.
    pub async fn answer(&self, answer: ApprovalAnswer) -> Result<StoredEvent, RunError> {
        if let (Resolution::Modify(_) | Resolution::Approve, Some(tools)) =
            (&answer.decision, &self.0.options.tools)
            && let Some(asked) = self.0.store.approval(&answer.approval_id).await?
            && asked.owner == answer.user
        {
            let checked = match (&answer.decision, &asked.request.answer_schema) {
                (Resolution::Modify(given), Some(schema)) => tools.check_answer(schema, given),
                (_, Some(schema)) => {
                    let blank = asked.request.args.clone().unwrap_or_default();
                    tools.check_answer(schema, &blank)
                }
                (Resolution::Modify(given), None) => tools.check(&asked.request.tool_name, given),
                _ => Ok(()),
            };
            checked.map_err(RunError::refused)?;
        }
        Ok(self.0.store.resolve_approval(answer).await?)
    }

    /// Refuses further messages, stops all runs and waits until they are stored.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.drain().await;
        self.0.live.close().await;
    }

    /// Waits for the end of all runs.
    pub async fn drain(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.tasks.reopen();
    }

    /// The request to the backend with the attached files, what is stored about them, and warnings.
    async fn prepare(
        &self,
        request: &RunRequest,
        cancel: &CancellationToken,
    ) -> Result<(TurnRequest, Vec<Attachment>, Vec<String>), RunError> {
        let attached = if request.reads_stored_files() {
            let files = attachments(&self.0.options)
                .ok_or_else(|| RunError::refused("this service keeps no files of users"))?;
            if request.search.is_some() && files.embedder.is_none() {
                return Err(RunError::refused(
                    "`enableAutoSemanticSearch` needs `embedding_provider` in the agent's YAML",
                ));
            }
            Some(files.attach(request, cancel).await?)
        } else {
            None
        };
        let message = attached.as_ref().map_or(&request.message, |files| &files.message);
        let mut turn = match &self.0.options.turns {
            Some(turns) => {
                let input = TurnInput {
                    input: message,
                    files: &request.files,
                    ..TurnInput::default()
                };
                let prepared = turns.prepare_request(input, cancel).await;
                let (turn, _) = prepared.map_err(|record| {
                    let problems = record.failures.iter().map(|failure| failure.text.as_str());
                    RunError::refused(problems.collect::<Vec<_>>().join("\n"))
                })?;
                turn
            }
            None if request.files.is_empty() => TurnRequest::new(message),
            None => return Err(RunError::refused("this service reads no files")),
        };
        turn.cancel = cancel.clone();
        turn.thinking = request.thinking;
        turn.may_forget = true;
        let Some(attached) = attached else {
            return Ok((turn, Vec::new(), Vec::new()));
        };
        turn.images.extend(attached.images);
        let mut attachments = attached.attachments;
        for file in &mut attachments {
            file.name = self.masked(&file.name);
        }
        Ok((turn, attachments, attached.warnings))
    }

    /// The files of users.
    pub fn files(&self) -> Option<&FileVault> {
        self.0.options.files.as_ref()
    }

    /// Stores a file of a user, and prepares it for searches. If that fails, the first search does it.
    pub async fn add_file(&self, user: &str, name: &str, bytes: Vec<u8>) -> Result<StoredFile, RunError> {
        let files = attachments(&self.0.options)
            .ok_or_else(|| RunError::refused("this service keeps no files of users"))?;
        let file = files.vault.put(user, name, bytes).await?;
        if files.embedder.is_some() {
            // A search reports the failure.
            let _ = index_file(&files, user, &file, &self.0.closing).await;
        }
        Ok(file)
    }

    /// Waits for the conversation, or refuses or cancels, as its `Concurrency` says.
    async fn wait_for_place(&self, session_id: &str) -> Result<Place, RunError> {
        match self.0.options.concurrency {
            Concurrency::Reject => Ok(Place::Any),
            Concurrency::Interrupt => {
                for mut run in self.runs_of(session_id) {
                    run.cancel();
                    // However it ended, the conversation is free.
                    let _ = run.finish().await;
                }
                Ok(Place::Any)
            }
            Concurrency::Enqueue => {
                let queue = {
                    let mut queues = self.0.queues();
                    Arc::clone(queues.entry(session_id.to_owned()).or_default())
                };
                if let Ok(place) = Arc::clone(&queue).try_lock_owned() {
                    return Ok(Place::Taken(place));
                }
                // Those that wait, the one that runs, the map, and this.
                let waiting = Arc::strong_count(&queue).saturating_sub(3);
                if waiting >= MAX_WAITING {
                    return Err(RunError::QueueFull {
                        session_id: session_id.to_owned(),
                        waiting,
                    });
                }
                Ok(Place::Waiting(queue))
            }
        }
    }

    fn masked(&self, text: &str) -> String {
        match &self.0.options.redactor {
            Some(redactor) => redactor.text(text).into_owned(),
            None => text.to_owned(),
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<String, RunHandle>> {
        self.0.runs()
    }
}

/// Creates the reader of users' files; `None` if the service keeps none.
fn attachments(options: &ServiceOptions) -> Option<Attachments> {
    Some(Attachments {
        vault: options.files.clone()?,
        reader: options.turns.as_ref()?.files.clone(),
        embedder: options.embedder.clone(),
    })
}

/// The question for the backend.
struct Question {
    turn: TurnRequest,
    /// Remarks for the person about the answer.
    warnings: Vec<String>,
}

/// The place of a message among those of its conversation.
enum Place {
    /// The store refuses it if the conversation is busy.
    Any,
    /// It is the next one.
    Taken(#[expect(dead_code, reason = "held during the run")] OwnedMutexGuard<()>),
    /// Others come first.
    Waiting(Queue),
}

impl Inner {
    async fn run(
        &self,
        handle: &RunHandle,
        place: Place,
        run: NewRun,
        question: Question,
        begun: watch::Sender<bool>,
        client: Option<Arc<dyn EventSink>>,
    ) -> RunOutcome {
        let _place = match place {
            Place::Waiting(queue) => {
                let taken = tokio::select! {
                    biased;
                    () = handle.cancel.cancelled() => {
                        return Err(RunError::refused("the message was withdrawn before it was answered"));
                    }
                    taken = queue.lock_owned() => taken,
                };
                Place::Taken(taken)
            }
            place => place,
        };
        let session_id = run.session_id.clone();
        let policy = self.options.policy.clone();
        let questions = RunQuestions::new(
            handle.run_id.clone(),
            Arc::clone(&self.store),
            policy,
            self.options.patience,
        );
        let questions = Arc::new(questions);
        let sink = RunSink {
            questions: Arc::clone(&questions),
            client,
            first: Arc::default(),
            begun,
            seen: Mutex::new(Seen::default()),
        };
        let Question { mut turn, warnings } = question;
        turn.approver = Some(Arc::clone(&questions) as Arc<dyn Approver>);
        let spending = turn.spending.clone();
        let slot = Slot::default();
        let events = Arc::clone(&self.live).turn(
            Arc::clone(&self.store),
            Turn {
                session_id: session_id.clone(),
                first: Arc::clone(&sink.first),
                request: turn,
                slot: Arc::clone(&slot),
            },
        );
        let recording = Recording::new(&*self.store, &self.options.clock, &self.options.ids)
            .with_sink(&sink)
            .with_violations(&self.contract_violations)
            .with_chunk_interval(self.options.chunk_interval);
        let recording = match self.options.turns.as_ref().and_then(|turns| turns.timeout) {
            Some(limit) => recording.with_limit(limit),
            None => recording,
        };
        let owner = run.user_id.clone();
        let start = self.options.session.clone();
        recording.session(&session_id, owner.as_deref(), start).await?;
        // Tools that are always approved count in a new session, too.
        questions.remember(self.store.remembered_approvals(&session_id).await?);
        let recorded = {
            let notices = warnings
                .into_iter()
                .map(|message| Ok(BackendEvent::Notice { message }));
            let events = Box::pin(futures::stream::iter(notices).chain(events));
            let events = self.complete(events, spending);
            let record = recording.record(run, events);
            tokio::select! {
                recorded = record => recorded,
                never = watch_answers(&*self.store, &session_id, &sink) => match never {},
            }
        };
        let ignored = recorded?.trajectory.ignored().count();
        self.contract_violations
            .fetch_add(u64::try_from(ignored).unwrap_or(u64::MAX), Ordering::Relaxed);
        let (result, head, is_remembered) = {
            let seen = sink.seen();
            (seen.result(), seen.head, seen.is_remembered())
        };
        let session = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        match session {
            Some(session) if is_remembered => self.live.park(&session_id, session, head).await,
            // It may know a message that the log leaves out; the next turn opens one from the log.
            Some(mut session) => {
                self.tasks.spawn(async move {
                    // However it closes, it is not used again.
                    let _ = session.close().await;
                });
            }
            None => {}
        }
        match result {
            Some(result) if result.success => Ok(result),
            Some(result) => Err(RunError::Execution(Box::new(result))),
            None => Err(RunError::refused("the run has no end")),
        }
    }

    /// Adds what the tools used to the result, and masks secrets.
    fn complete<'a>(&'a self, events: EventStream<'a>, spending: Spending) -> EventStream<'a> {
        let totals = self.options.turns.as_ref();
        let events: EventStream<'a> = Box::pin(events.map(move |event| match (event, totals) {
            (Ok(BackendEvent::End(mut result)), Some(turns)) => {
                turns.add_totals(&mut result, &spending.take());
                Ok(BackendEvent::End(result))
            }
            (event, _) => event,
        }));
        match &self.options.redactor {
            Some(redactor) => mask_events(events, redactor),
            None => events,
        }
    }

    /// Removes a run that is over.
    fn forget(&self, run: &RunHandle) {
        self.runs().remove(&run.run_id);
        let mut queues = self.queues();
        if queues
            .get(&run.session_id)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            queues.remove(&run.session_id);
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<String, RunHandle>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes the answers of people to the run, also those that another process stored. Never ends.
async fn watch_answers(store: &dyn EventStore, session_id: &str, sink: &RunSink) -> std::convert::Infallible {
    let questions = &sink.questions;
    questions.wait_for_question().await;
    let first = *sink.first.lock().unwrap_or_else(PoisonError::into_inner);
    let follow = async {
        let mut events = store.subscribe(session_id, first).await?;
        while let Some(event) = events.next().await? {
            questions.observe(&event);
            if let EventBody::ApprovalResolved(_) = event.event().body {
                questions.remember(store.remembered_approvals(session_id).await?);
            }
        }
        Ok::<_, StoreError>(())
    };
    // If the store fails, the run ends when its next event cannot be stored.
    let _ = follow.await;
    std::future::pending().await
}
