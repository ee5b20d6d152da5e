use holodeck_model::events::{AgentEvent, EventClass};

/// An event that is not stored yet: it has no numbers. Only a recorder makes one, only a store takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub(crate) event: AgentEvent,
    pub(crate) class: EventClass,
}

impl Draft {
    /// The event as it will be stored, without its numbers.
    pub fn event(&self) -> &AgentEvent {
        &self.event
    }

    /// How it is kept.
    pub fn class(&self) -> EventClass {
        self.class
    }
}
