//! Answers messages in stored conversations: one run at a time in each, with queueing, cancellation and recovery.
//!
//! The only way in which `chat`, `serve` and stored runs execute a message. Start reading at [`AgentRunService`].

mod run;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use holodeck_backend_api::{AgentBackend, EventStream, HistoryItem, TurnRequest};
use holodeck_events::{
    ApprovalAnswer, EventSink, EventStore, NewRun, Recording, Resolution, StoreError, StoredEvent,
};
use holodeck_model::{
    events::{AgentExecutionResult, ApprovalRequested, ApprovalScope, Attachment, EventBody},
    remembered_approval,
};
use holodeck_turn::TurnInput;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::run::{Place, Question};
use crate::{
    Concurrency, RunError, RunHandle, RunRequest, ServiceOptions,
    files::{Attachments, FileVault, StoredFile, index_file},
    import::{PastTurn, answered, exchanges, replayed},
    live::LiveSessions,
    masking::mask_events,
    request::{SESSION_ID_FORM, is_id, named_command},
};

/// Messages that may wait in one conversation.
const MAX_WAITING: usize = 16;

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
    /// The number of the next message.
    next_message: AtomicU64,
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
            next_message: AtomicU64::new(0),
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
        let message = self.masked(&request.message);
        let handle = RunHandle {
            session_id: session_id.clone(),
            run_id: new_id(),
            message: message.as_str().into(),
            client_message_id: request.client_message_id.as_deref().map(Into::into),
            number: self.0.next_message.fetch_add(1, Ordering::Relaxed),
            cancel,
            outcome: ended,
        };
        let place = self.wait_for_place(&session_id).await?;
        let waits = matches!(place, Place::Waiting(_));
        let run = NewRun {
            session_id,
            message,
            run_id: Some(handle.run_id.clone()),
            user_id: request.user_id,
            client_message_id: request.client_message_id,
            attachments,
            approval_timeout: self.0.options.patience.limit,
        };
        let (begun, mut has_begun) = watch::channel(false);
        self.runs().insert(handle.run_id.clone(), handle.clone());
        let question = Question {
            turn,
            warnings,
            opening: request.opening,
        };
        let (inner, task) = (Arc::clone(&self.0), handle.clone());
        self.0.tasks.spawn(async move {
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

    /// The runs of a conversation that this service runs at present or that wait for their turn, in the order of their
    /// messages.
    pub fn runs_of(&self, session_id: &str) -> Vec<RunHandle> {
        let mut runs: Vec<RunHandle> = {
            let runs = self.runs();
            let of_session = runs.values().filter(|run| run.session_id == session_id);
            of_session.cloned().collect()
        };
        runs.sort_by_key(|run| run.number);
        runs
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
        let stored = self.0.store.resolve_approval(answer.clone()).await?;
        if let EventBody::ApprovalResolved(resolved) = &stored.event().body
            && resolved.approved
            && resolved.scope.is_some()
        {
            self.approve_alike(&answer).await?;
        }
        Ok(stored)
    }

    /// Approves what else is asked about the tool in the conversation: an approval for longer than one call counts for
    /// these calls, too.
    async fn approve_alike(&self, answer: &ApprovalAnswer) -> Result<(), RunError> {
        let store = &self.0.store;
        let Some(known) = store.approval(&answer.approval_id).await? else {
            return Ok(());
        };
        let covered = |asked: &ApprovalRequested| {
            remembered_approval(&asked.tool_name, &asked.paths, asked.tool_digest.as_deref())
        };
        for other in store.approvals(Some(&known.session_id), None).await? {
            // A question of a server is about its answer.
            if other.request.answer_schema.is_some() || covered(&other.request) != covered(&known.request) {
                continue;
            }
            let mut alike = answer.clone();
            alike.approval_id = other.request.approval_id;
            alike.scope = ApprovalScope::Once;
            match store.resolve_approval(alike).await {
                // A person who answers it at the same moment has decided.
                Ok(_) | Err(StoreError::AlreadyResolved { .. } | StoreError::Expired { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
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
        let named = named_command(&request.message, &self.0.options.commands);
        let named = named.map(|(command, question)| (command.to_owned(), question.to_owned()));
        let asked = named.as_ref().map(|(_, question)| RunRequest {
            message: question.clone(),
            ..request.clone()
        });
        let request = asked.as_ref().unwrap_or(request);
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
        if turn.message != request.message {
            turn.command.task = Some(request.message.clone());
        }
        turn.command.name = named.map(|(command, _)| command);
        turn.cancel = cancel.clone();
        turn.thinking = request.thinking;
        turn.may_forget = true;
        turn.wishes = request.wishes.clone();
        turn.images.extend(request.images.iter().cloned());
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

    /// The commands that a message can name with its first word.
    pub fn commands(&self) -> &[String] {
        &self.0.options.commands
    }

    /// How it handles a message while the conversation's last one is being answered.
    pub fn concurrency(&self) -> Concurrency {
        self.0.options.concurrency
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

    /// The text as it is stored: without secrets.
    pub fn masked(&self, text: &str) -> String {
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

impl Inner {
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
