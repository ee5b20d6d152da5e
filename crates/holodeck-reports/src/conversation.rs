//! Writes the list of stored conversations, and the page of one: its transcript, as the page of a case shows that of a case.

use std::io::Write;

use askama::Template;
use holodeck_backend_api::StopReason;
use holodeck_model::{CaseState, ExecutionState};
use holodeck_runs::{Expected, TurnGrade, TurnReport};
use holodeck_turn::TurnRecord;

use crate::{
    PageLink, PageUse, ReportError, StoredTurn,
    case_page::{events, thinking},
    format,
    history::HISTORY_STYLE,
    html::{STYLE, VIEW_SCRIPT, page_policy, turn_alone},
};

/// How far the run of a turn is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a run is open or over")]
pub enum TurnState {
    /// It is over.
    #[default]
    Over,
    /// A process is executing it.
    Running,
    /// It has no end, and its process is gone.
    Orphaned,
}

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ConversationTurn {
    /// The message with the result; while the run is not over, what has arrived.
    pub record: TurnRecord,
    /// How far it is.
    pub state: TurnState,
    /// The run that answers it.
    pub run_id: String,
    /// When the message was recorded, RFC 3339.
    pub at: String,
    /// The names of the files that were sent with it.
    pub files: Vec<String>,
    /// The tools whose calls wait for a decision of a person.
    pub waiting: Vec<String>,
}

impl ConversationTurn {
    /// The question with its answer; `None` unless the turn was completed with an answer.
    pub fn answered(&self) -> Option<StoredTurn> {
        let answer = self.record.answer().filter(|answer| !answer.trim().is_empty());
        let is_completed = self.state == TurnState::Over && self.record.state == ExecutionState::Completed;
        let answer = answer.filter(|_| is_completed)?;
        Some(StoredTurn {
            question: self.record.input.clone(),
            expected: None,
            answer: Some(answer.to_owned()),
            has_files: !self.files.is_empty(),
        })
    }
}

/// A conversation in the list.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ConversationEntry {
    /// Its page, if it has one.
    pub page: Option<String>,
    /// The store that has it, as it is shown.
    pub store: String,
    /// The conversation, or why those of the store cannot be read.
    pub conversation: Result<ListedConversation, String>,
}

/// A conversation as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ListedConversation {
    /// Its id.
    pub session: String,
    /// The first message of the person.
    pub first_message: Option<String>,
    /// The name of the agent, if its beginning names it.
    pub agent: Option<String>,
    /// The file of the agent, as it is shown.
    pub file: Option<String>,
    /// The time of its last event, RFC 3339.
    pub last_at: String,
    /// The messages of the person and of the agent.
    pub messages: u64,
    /// The runs.
    pub runs: u64,
    /// How far its last run is.
    pub state: TurnState,
}

/// A part of all conversations, newest first.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ConversationList<'a> {
    /// The links above it.
    pub links: &'a [PageLink],
    /// The folder, as it is shown.
    pub folder: &'a str,
    /// The conversations.
    pub entries: &'a [ConversationEntry],
    /// Which part it is, from 1.
    pub number: usize,
    /// The addresses of the newer and the older part, if there are any.
    pub around: (Option<&'a str>, Option<&'a str>),
}

/// The page of a conversation.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ConversationPage<'a> {
    /// The links above it.
    pub links: &'a [PageLink],
    /// The conversation.
    pub conversation: &'a ListedConversation,
    /// Its turns.
    pub turns: &'a [ConversationTurn],
    /// Those that the page shows, by their places.
    pub shown: (usize, usize),
    /// The addresses of earlier and later turns, if there are any.
    pub around: (Option<&'a str>, Option<&'a str>),
    /// The address of the form that makes a test of the turn with this number; absent if nothing may be written.
    pub save: Option<&'a dyn Fn(usize) -> String>,
    /// Parts of the page that concern the reader.
    pub notes: &'a [String],
}

#[derive(Template)]
#[template(path = "conversations.html")]
struct ListPage<'a> {
    policy: String,
    style: &'static str,
    own_style: &'static str,
    script: &'static str,
    served: bool,
    links: &'a [PageLink],
    folder: &'a str,
    rows: Vec<Row<'a>>,
    is_running: bool,
    number: usize,
    newer: Option<&'a str>,
    older: Option<&'a str>,
}

struct Row<'a> {
    page: Option<&'a str>,
    class: &'static str,
    state: &'static str,
    title: String,
    session: &'a str,
    store: &'a str,
    problem: Option<&'a str>,
    agent: &'a str,
    file: &'a str,
    at: String,
    messages: String,
    runs: String,
}

#[derive(Template)]
#[template(path = "conversation.html")]
struct Page<'a> {
    policy: String,
    style: &'static str,
    own_style: &'static str,
    script: &'static str,
    served: bool,
    links: &'a [PageLink],
    title: String,
    /// The class and the word of the state of a run that is not over.
    open: Option<(&'static str, &'static str)>,
    is_running: bool,
    facts: Vec<(&'static str, String)>,
    notes: &'a [String],
    turns: Vec<Turn<'a>>,
    older: Option<&'a str>,
    newer: Option<&'a str>,
}

struct Turn<'a> {
    number: usize,
    /// The turn as a case shows it.
    shown: String,
    reasons: Vec<String>,
    notes: Vec<String>,
    thinking: Option<&'a str>,
    events: Vec<String>,
    facts: Vec<String>,
    save: Option<String>,
}

/// Characters of a message that names its conversation.
const TITLE_CHARS: usize = 100;

/// Writes the list of conversations.
pub fn write_conversations(
    list: &ConversationList<'_>,
    usage: PageUse,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let served = usage == PageUse::Served;
    let (newer, older) = list.around;
    let page = ListPage {
        policy: page_policy(&[STYLE, HISTORY_STYLE], VIEW_SCRIPT, served),
        style: STYLE,
        own_style: HISTORY_STYLE,
        script: VIEW_SCRIPT,
        served,
        links: list.links,
        folder: list.folder,
        rows: list.entries.iter().map(Row::new).collect(),
        is_running: list.entries.iter().any(|entry| {
            let conversation = entry.conversation.as_ref();
            conversation.is_ok_and(|conversation| conversation.state == TurnState::Running)
        }),
        number: list.number,
        newer,
        older,
    };
    Ok(page.write_into(out)?)
}

/// Writes the page of a conversation.
pub fn write_conversation(
    page: &ConversationPage<'_>,
    usage: PageUse,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let served = usage == PageUse::Served;
    let about = page.conversation;
    let facts = [
        ("Agent", about.agent.clone()),
        ("Agent file", about.file.clone()),
        ("Session", Some(about.session.clone())),
        ("Last event", Some(format::date(&about.last_at))),
        ("Messages", Some(about.messages.to_string())),
        ("Runs", Some(about.runs.to_string())),
    ];
    let (first, end) = page.shown;
    // Nothing was expected of a turn, and it has no verdict.
    let (grade, expected) = (TurnGrade::bare(CaseState::Unchecked), Expected::default());
    let shown = page.turns.iter().enumerate().take(end).skip(first);
    let turns = shown.map(|(place, turn)| {
        let report = TurnReport {
            number: Some(place + 1),
            record: &turn.record,
            grade: &grade,
            expected: &expected,
        };
        let save = page.save.filter(|_| turn.answered().is_some());
        Turn::new(turn, &report, save.map(|address| address(place + 1)))
    });
    let (older, newer) = page.around;
    let page = Page {
        policy: page_policy(&[STYLE, HISTORY_STYLE], VIEW_SCRIPT, served),
        style: STYLE,
        own_style: HISTORY_STYLE,
        script: VIEW_SCRIPT,
        served,
        links: page.links,
        title: about.title(),
        open: (about.state != TurnState::Over).then(|| state_of(about.state)),
        is_running: about.state == TurnState::Running,
        facts: facts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect(),
        notes: page.notes,
        turns: turns.collect::<Result<_, _>>()?,
        older,
        newer,
    };
    Ok(page.write_into(out)?)
}

impl ListedConversation {
    /// Its first message on one line.
    fn title(&self) -> String {
        let message = self.first_message.as_deref().unwrap_or_default();
        match format::one_line(message, TITLE_CHARS) {
            title if title.is_empty() => "(no text)".to_owned(),
            title => title,
        }
    }
}

/// The class and the word of a state. An answer is neither right nor wrong, so that none is green.
fn state_of(state: TurnState) -> (&'static str, &'static str) {
    match state {
        TurnState::Over => ("unchecked", "over"),
        TurnState::Running => ("unchecked", "running"),
        TurnState::Orphaned => ("error", "not ended"),
    }
}

impl<'a> Row<'a> {
    fn new(entry: &'a ConversationEntry) -> Self {
        let about = match &entry.conversation {
            Ok(about) => about,
            Err(problem) => {
                return Self {
                    page: None,
                    class: "error",
                    state: "cannot be read",
                    title: entry.store.clone(),
                    session: "",
                    store: "",
                    problem: Some(problem),
                    agent: "",
                    file: "",
                    at: String::new(),
                    messages: String::new(),
                    runs: String::new(),
                };
            }
        };
        let (class, state) = state_of(about.state);
        Self {
            page: entry.page.as_deref(),
            class,
            state,
            title: about.title(),
            session: &about.session,
            store: &entry.store,
            problem: None,
            agent: about.agent.as_deref().unwrap_or("unknown agent"),
            file: about.file.as_deref().unwrap_or_default(),
            at: format::date(&about.last_at),
            messages: about.messages.to_string(),
            runs: about.runs.to_string(),
        }
    }
}

impl<'a> Turn<'a> {
    fn new(
        turn: &'a ConversationTurn,
        report: &TurnReport<'a>,
        save: Option<String>,
    ) -> Result<Self, ReportError> {
        let record = &turn.record;
        let (class, state) = match (turn.state, record.state) {
            (TurnState::Over, ExecutionState::Completed) => ("unchecked", "completed"),
            (TurnState::Over, _) => ("error", "failed"),
            (open, _) => state_of(open),
        };
        let failures = record.failures.iter().map(holodeck_model::Failure::line);
        let orphaned = (turn.state == TurnState::Orphaned)
            .then(|| "the process that answered ended before its answer did".to_owned());
        let attached = turn.files.iter().map(|name| format!("attached: {name}"));
        let waiting = turn
            .waiting
            .iter()
            .map(|tool| format!("a call of `{tool}` waits for a decision"));
        let truncated = record.truncation().map(StopReason::truncation_note);
        Ok(Self {
            number: report.number.unwrap_or_default(),
            shown: turn_alone(report, class, state)?,
            reasons: failures.chain(orphaned).collect(),
            notes: attached.chain(waiting).chain(truncated).collect(),
            thinking: thinking(report).map(|(_, text)| text),
            events: events(report),
            facts: facts(turn),
            save,
        })
    }
}

fn facts(turn: &ConversationTurn) -> Vec<String> {
    let record = &turn.record;
    let facts = [
        Some(format::date(&turn.at)),
        (record.elapsed_ms > 0).then(|| format::duration(record.elapsed_ms)),
        record.usage.map(|usage| format::count_tokens(usage.total_tokens)),
        record.cost_usd.map(format::cost),
        record.result.model.clone(),
        Some(format!("run {}", turn.run_id)),
    ];
    facts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
