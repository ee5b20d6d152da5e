//! A chat service over a scripted backend and an event store in memory, with waits for events.

use std::sync::{Arc, Mutex};

use holodeck_chat::{
    AgentRunService, RunRequest, ServiceOptions,
    api::HistoryItem,
    events::{EventStore, MemoryStore, StoredEvent, StreamChecker, View},
};
use holodeck_testkit::{Asked, ScriptedBackend, ScriptedTurn};
use tokio::task::yield_now;

/// A service with what its backend was asked.
pub(crate) struct World {
    pub(crate) service: AgentRunService,
    pub(crate) store: Arc<dyn EventStore>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl World {
    pub(crate) fn new(script: impl Fn(&Asked) -> ScriptedTurn + Send + Sync + 'static) -> Self {
        Self::with(Arc::new(MemoryStore::new()), ServiceOptions::default(), script)
    }

    pub(crate) fn with(
        store: Arc<dyn EventStore>,
        options: ServiceOptions,
        script: impl Fn(&Asked) -> ScriptedTurn + Send + Sync + 'static,
    ) -> Self {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let backend = ScriptedBackend::answering(move |question| {
            seen.lock().unwrap().push(question.clone());
            script(question)
        });
        Self {
            service: AgentRunService::new(Arc::new(backend), Arc::clone(&store), options),
            store,
            asked,
        }
    }

    /// Sends a message and waits for the answer.
    pub(crate) async fn say(&self, message: &str) -> String {
        let result = self.service.run_graph(RunRequest::new("s", message), None).await;
        result.unwrap().response
    }

    /// The texts of the conversation that the backend got with its latest question.
    pub(crate) fn history(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let latest = asked.last().unwrap();
        latest.history.iter().map(describe).collect()
    }

    /// The images of the latest question.
    pub(crate) fn images(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.last().unwrap().images.len()
    }

    pub(crate) fn questions(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The events of the session, which break no invariant.
    pub(crate) async fn events(&self) -> Vec<StoredEvent> {
        let events = self.store.read_after("s", None).await.unwrap();
        let mut checker = StreamChecker::new(View::Live);
        for event in &events {
            checker.observe(event.event());
        }
        assert!(checker.is_clean(), "{checker:?}");
        events
    }

    /// The types of the events, without pieces of text.
    pub(crate) async fn kinds(&self) -> Vec<String> {
        let events = self.events().await;
        let kinds = events.iter().map(|event| event.event().body.kind().to_owned());
        kinds.filter(|kind| !kind.ends_with("_chunk")).collect()
    }

    /// Waits until the session has an event of this type; returns it.
    pub(crate) async fn wait_for(&self, kind: &str) -> StoredEvent {
        loop {
            let events = self.store.read_after("s", None).await.unwrap_or_default();
            if let Some(event) = events
                .into_iter()
                .rev()
                .find(|event| event.event().body.kind() == kind)
            {
                return event;
            }
            yield_now().await;
        }
    }
}

fn describe(item: &HistoryItem) -> String {
    match item {
        HistoryItem::User { text } => format!("user: {text}"),
        HistoryItem::Assistant { text } => format!("agent: {text}"),
        HistoryItem::Partial { text } => format!("stopped: {text}"),
        HistoryItem::Call(call) => format!("call: {}", call.name),
        HistoryItem::Result(result) => format!("result: {}", result.result),
        other => panic!("{other:?}"),
    }
}
