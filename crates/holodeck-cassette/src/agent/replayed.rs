use std::{sync::Arc, time::Duration};

use async_stream::stream;
use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, Capabilities, EventStream, ModelRequest,
    SessionControl, SessionCore, TurnRequest,
};
use holodeck_model::Redactor;

use super::{AgentSeen, Said, question};
use crate::{Cassette, entry::Entry, replayer::Reel, turn_events};

/// Answers turns from a recording: no agent, none of its tools and none of their servers runs. The n-th equal turn gets
/// the n-th recorded answer; after that the last one again.
pub struct ReplayedAgent {
    seen: Arc<AgentSeen>,
    reel: Arc<Reel>,
}

impl ReplayedAgent {
    /// Replays `cassette` for an agent whose model would see `seen`. `redactor` must be made as it was for recording.
    pub fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>, seen: AgentSeen) -> Self {
        Self {
            seen: Arc::new(seen),
            reel: Arc::new(Reel::new(cassette, redactor)),
        }
    }
}

#[async_trait]
impl AgentBackend for ReplayedAgent {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::streaming();
        capabilities.replayed = true;
        capabilities
    }

    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        let said = Said::of(&request.context);
        let asked = self.seen.request(&request, &said);
        Box::pin(stream! {
            if request.cancel.is_cancelled() {
                yield Err(BackendError::Cancelled);
                return;
            }
            match answer(&self.reel, &asked) {
                Ok(entry) => {
                    entry.response.repeat_spending(&request.spending);
                    for event in events(entry) {
                        yield Ok(event);
                    }
                }
                Err(error) => yield Err(error),
            }
        })
    }

    async fn create_session(&self) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(ReplayedSession {
            seen: Arc::clone(&self.seen),
            reel: Arc::clone(&self.reel),
            said: Said::default(),
            core: SessionCore::new(),
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

struct ReplayedSession {
    seen: Arc<AgentSeen>,
    reel: Arc<Reel>,
    said: Said,
    core: SessionCore,
}

#[async_trait]
impl AgentSession for ReplayedSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let asked = self.seen.request(&request, &self.said);
        let (reel, said) = (&self.reel, &mut self.said);
        self.core.turn(request, |request| {
            Box::pin(stream! {
                if request.cancel.is_cancelled() {
                    yield Err(BackendError::Cancelled);
                    return;
                }
                match answer(reel, &asked) {
                    Ok(entry) => {
                        entry.response.repeat_spending(&request.spending);
                        let outcome = turn_events::outcome(&entry.response.stop_reason);
                        said.add(question(&request), &entry.response.events, &outcome);
                        for event in events(entry) {
                            yield Ok(event);
                        }
                    }
                    Err(error) => yield Err(error),
                }
            })
        })
    }

    fn control(&self) -> SessionControl {
        self.core.control()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.core.close();
        Ok(())
    }
}

fn answer(reel: &Reel, asked: &ModelRequest) -> Result<Entry, BackendError> {
    reel.next(asked).map_err(|problem| reel.explain(problem))
}

/// The events of a recorded turn, its end with them.
fn events(entry: Entry) -> Vec<BackendEvent> {
    let outcome = turn_events::outcome(&entry.response.stop_reason);
    let mut events = entry.response.events;
    events.push(BackendEvent::Replayed {
        latency: Duration::from_millis(entry.latency_ms),
    });
    let result = turn_events::result(&events, outcome);
    events.push(BackendEvent::End(Box::new(result)));
    events
}
