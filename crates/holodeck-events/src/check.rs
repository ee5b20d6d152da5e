//! Checks a recording against the invariants of the event contract and names each violation.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use holodeck_model::events::{AgentEvent, EventBody, EventClass, PersistenceState};
use uuid::Uuid;

mod replay;
mod run;

pub use replay::replay_violations;
use run::Run;

/// An invariant of every recorded session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// The person's message is the first event of its run.
    Inv1,
    /// Within a turn no reasoning is streamed after text.
    Inv2,
    /// Each tool call has one result, after it, in its run.
    Inv3,
    /// Stored content has a sequence number.
    Inv4,
    /// Each run ends with one `complete` or `error`, and nothing follows.
    Inv5,
    /// Sequence numbers are 0, 1, 2, … in stored order.
    Inv6,
    /// Nothing but stored content has a sequence number.
    Inv7,
    /// Tool calls have the provider's ids.
    Inv8,
    /// Indices strictly increase and ids are unique.
    Hd1,
    /// A replay equals the first delivery, byte by byte.
    Hd2,
    /// The chunks of a message add up to the message.
    Hd3,
    /// Each approval is resolved once, before its tool's result.
    Hd4,
    /// Runs of a session do not overlap.
    Hd5,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Inv1,
        Self::Inv2,
        Self::Inv3,
        Self::Inv4,
        Self::Inv5,
        Self::Inv6,
        Self::Inv7,
        Self::Inv8,
        Self::Hd1,
        Self::Hd2,
        Self::Hd3,
        Self::Hd4,
        Self::Hd5,
    ];

    /// The name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inv1 => "INV-1",
            Self::Inv2 => "INV-2",
            Self::Inv3 => "INV-3",
            Self::Inv4 => "INV-4",
            Self::Inv5 => "INV-5",
            Self::Inv6 => "INV-6",
            Self::Inv7 => "INV-7",
            Self::Inv8 => "INV-8",
            Self::Hd1 => "HD-1",
            Self::Hd2 => "HD-2",
            Self::Hd3 => "HD-3",
            Self::Hd4 => "HD-4",
            Self::Hd5 => "HD-5",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An invariant that a recording breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// The event where it occurs, counted from 0; `None` for the end.
    pub at: Option<usize>,
    /// The problem.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at event {at}: {}", self.invariant, self.detail),
            None => write!(f, "{} at the end: {}", self.invariant, self.detail),
        }
    }
}

/// Which events a recording contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Everything that was delivered.
    Live,
    /// The events that remain when chunks are pruned.
    Replay,
}

/// Checks the invariants of one session's events, in their order.
#[derive(Debug)]
pub struct StreamChecker {
    view: View,
    position: usize,
    last_index: Option<u64>,
    ids: HashSet<Uuid>,
    numbers: Numbers,
    runs: HashMap<String, Run>,
    /// The runs in the order they began.
    order: Vec<String>,
    /// The run of events that name none.
    current: Option<String>,
    tool_ids: Option<HashSet<String>>,
    findings: Findings,
}

/// Sequence numbers so far.
#[derive(Debug, Default)]
struct Numbers {
    /// The next one; `None` before the first, if that may be any.
    next: Option<u64>,
    /// How many numbers events have that should have none, or lack that should have one.
    slack: u64,
}

/// The violations so far, and the position in the stream.
#[derive(Debug, Default)]
struct Findings {
    at: Option<usize>,
    all: Vec<Violation>,
}

impl Findings {
    fn add(&mut self, invariant: Invariant, detail: impl Into<String>) {
        self.all.push(Violation {
            invariant,
            at: self.at,
            detail: detail.into(),
        });
    }
}

impl StreamChecker {
    /// A checker of a whole session.
    pub fn new(view: View) -> Self {
        Self {
            view,
            position: 0,
            last_index: None,
            ids: HashSet::new(),
            numbers: Numbers {
                next: Some(0),
                slack: 0,
            },
            runs: HashMap::new(),
            order: Vec::new(),
            current: None,
            tool_ids: None,
            findings: Findings::default(),
        }
    }

    /// A checker of a single run, whose numbers may begin anywhere.
    pub fn of_run(view: View) -> Self {
        Self {
            numbers: Numbers::default(),
            ..Self::new(view)
        }
    }

    /// Sets the ids that the provider sent, which makes INV-8 exact. Without them an id is only compared with those that
    /// frameworks and this crate create.
    pub fn with_tool_ids(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.tool_ids = Some(ids.into_iter().collect());
        self
    }

    /// Takes in the next event.
    pub fn observe(&mut self, event: &AgentEvent) {
        self.findings.at = Some(self.position);
        self.position += 1;
        self.identity(event);
        self.sequence(event);
        if !matches!(event.body, EventBody::SessionStart(_)) {
            self.in_run(event);
        }
    }

    /// Takes in the answer to an approval that another process stored before events which were taken in already.
    pub(crate) fn observe_earlier_answer(&mut self, event: &AgentEvent) {
        let last = self.last_index.take();
        self.observe(event);
        self.last_index = last.max(self.last_index);
    }

    /// The violations in a complete session, in which each run must be over.
    pub fn finish(mut self) -> Vec<Violation> {
        self.findings.at = None;
        for id in &self.order {
            if self.runs.get(id).is_some_and(|run| !run.is_over()) {
                let detail = format!("run `{id}` has no end");
                self.findings.add(Invariant::Inv5, detail);
            }
        }
        self.findings.all
    }

    /// The violations so far, in a session that may end anywhere.
    pub fn finish_prefix(self) -> Vec<Violation> {
        self.findings.all
    }

    /// Whether there is no violation so far.
    pub fn is_clean(&self) -> bool {
        self.violations() == 0
    }

    /// How many violations there are so far.
    pub(crate) fn violations(&self) -> usize {
        self.findings.all.len()
    }

    fn identity(&mut self, event: &AgentEvent) {
        if let Some(index) = event.meta.event_index {
            if self.last_index.is_some_and(|last| index <= last) {
                let detail = format!("index {index} does not increase");
                self.findings.add(Invariant::Hd1, detail);
            }
            self.last_index = self.last_index.max(Some(index));
        }
        if !self.ids.insert(event.meta.event_id) {
            let detail = format!("id {} is used again", event.meta.event_id);
            self.findings.add(Invariant::Hd1, detail);
        }
    }

    fn sequence(&mut self, event: &AgentEvent) {
        let kind = event.body.kind();
        let persisted = event.meta.persistence_state == PersistenceState::Persisted;
        // For a type that this version does not know, the event's own state counts.
        let content = event.body.class().is_none_or(|class| class == EventClass::Stored);
        match event.meta.sequence_number {
            Some(number) if content && persisted => self.number(number),
            Some(_) => {
                let detail = format!("a `{kind}` that is not stored content has a sequence number");
                self.findings.add(Invariant::Inv7, detail);
                self.numbers.slack += 1;
            }
            None if persisted && event.body.class() == Some(EventClass::Stored) => {
                let detail = format!("a stored `{kind}` has no sequence number");
                self.findings.add(Invariant::Inv4, detail);
                self.numbers.slack += 1;
            }
            None => {}
        }
    }

    fn number(&mut self, number: u64) {
        let slack = self.numbers.slack;
        let next = self.numbers.next.unwrap_or(number);
        if number < next || number > next.saturating_add(slack) {
            let detail = format!("sequence number {number} instead of {next}");
            self.findings.add(Invariant::Inv6, detail);
        } else {
            self.numbers.slack -= number - next;
        }
        if number >= next {
            self.numbers.next = Some(number.saturating_add(1));
        }
    }

    fn in_run(&mut self, event: &AgentEvent) {
        let begins = matches!(event.body, EventBody::UserMessageConfirmed(_));
        let id = match (&event.meta.run_id, &self.current) {
            (Some(id), _) => id.clone(),
            (None, Some(current)) if !begins => current.clone(),
            (None, _) => format!("#{}", self.order.len() + 1),
        };
        if !self.runs.contains_key(&id) {
            let overlapped = self
                .order
                .iter()
                .any(|earlier| self.runs.get(earlier).is_some_and(|run| !run.is_over()));
            if overlapped {
                let detail = format!("run `{id}` begins before the one before it is over");
                self.findings.add(Invariant::Hd5, detail);
            }
            if !begins {
                let detail = format!("run `{id}` begins with `{}`", event.body.kind());
                self.findings.add(Invariant::Inv1, detail);
            }
            self.order.push(id.clone());
        } else if begins {
            let detail = format!("run `{id}` has a second message of the person");
            self.findings.add(Invariant::Inv1, detail);
        }
        self.current = Some(id.clone());
        let run = self.runs.entry(id).or_default();
        run.observe(event, self.view, self.tool_ids.as_ref(), &mut self.findings);
    }
}
