//! The page on which a person makes a test case of a stored answer: that of a case of a run, or a turn of a conversation.

use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use holodeck_model::{hex_prefix, printable};
use holodeck_reports::{
    ConversationTurn, PageLink, SaveCaseForm, SaveCaseTurn, SavedCasePage, StoredTurn, format,
    write_save_case, write_saved_case,
};
use http::StatusCode;
use sha2::{Digest as _, Sha256};

use super::{
    Page, Problem, all_runs, answer, case_address, conversations, find, find_case, read_form_up_to, value,
    values,
};
use crate::{
    Catalogue, Conversations,
    app::App,
    case_files::{AgentFile, CaseFile, CaseFiles, NewCase, NewTurn, RefusedCase},
};

/// A longer text is not put into a form.
const MAX_TEXT: usize = 100_000;

/// A larger form is refused; a byte may be written as three.
const MAX_FORM: usize = 4 << 20;

/// Characters of a name that is made from a question.
const NAME_CHARS: usize = 60;

/// A stored answer and the agent that gave it.
struct Source {
    /// The links to the list and to the answer.
    links: Vec<PageLink>,
    /// Where the form is sent.
    action: String,
    agent: AgentFile,
    name: Option<String>,
    turns: Vec<Prefilled>,
}

/// A turn as the form has it at first.
struct Prefilled {
    question: String,
    expected: String,
    notes: Vec<&'static str>,
}

pub(super) async fn form(State(app): State<App>, Path((id, number)): Path<(String, String)>) -> Response {
    show(app, move |catalogue| Source::of_case(catalogue, &id, &number)).await
}

pub(super) async fn save(
    State(app): State<App>,
    Path((id, number)): Path<(String, String)>,
    request: Request,
) -> Response {
    let find = move |catalogue: &Catalogue| Source::of_case(catalogue, &id, &number);
    add(app, request, find).await
}

pub(super) async fn form_of_turn(
    State(app): State<App>,
    Path((id, number)): Path<(String, String)>,
) -> Response {
    let source = conversations::source(&app);
    let find = move |catalogue: &Catalogue| Source::of_turn(catalogue, &*source?, &id, &number);
    show(app, find).await
}

pub(super) async fn save_turn(
    State(app): State<App>,
    Path((id, number)): Path<(String, String)>,
    request: Request,
) -> Response {
    let source = conversations::source(&app);
    let find = move |catalogue: &Catalogue| Source::of_turn(catalogue, &*source?, &id, &number);
    add(app, request, find).await
}

/// The page with the form for a stored answer.
async fn show(
    app: App,
    find: impl FnOnce(&Catalogue) -> Result<Source, Problem> + Send + 'static,
) -> Response {
    let token = app.access().form_token().to_owned();
    let files = app.case_files();
    answer(app, move |catalogue| {
        let source = find(catalogue)?;
        let base = source.name.as_deref().unwrap_or_else(|| source.first_question());
        let base = format::one_line(&printable(base), NAME_CHARS);
        let shown = Shown {
            name: None,
            base: &base,
            turns: source.turns.iter().map(Prefilled::shown).collect(),
            refused: None,
        };
        shown.write(catalogue, &*files, &source, &token)
    })
    .await
}

/// Adds the case of the form.
async fn add(
    app: App,
    request: Request,
    find: impl FnOnce(&Catalogue) -> Result<Source, Problem> + Send + 'static,
) -> Response {
    let fields = match read_form_up_to(MAX_FORM, &app, request).await {
        Ok(fields) => fields,
        Err(refused) => return refused,
    };
    let token = app.access().form_token().to_owned();
    let files = app.case_files();
    answer(app, move |catalogue| {
        let source = find(catalogue)?;
        let (questions, expected) = (values(&fields, "question"), values(&fields, "expected"));
        if questions.len() != expected.len() {
            return Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "each question has one field for its answer",
            ));
        }
        let mut is_changed = false;
        let mut turns = Vec::new();
        for (place, (question, expected)) in questions.iter().zip(&expected).enumerate() {
            let before = source.turns.get(place);
            let mut text = |typed: &str, before: Option<&str>| {
                let typed = Typed::of(typed, before);
                is_changed |= typed.has_escapes;
                typed.text
            };
            turns.push(NewTurn::new(
                text(question, before.map(|before| before.question.as_str())),
                text(expected, before.map(|before| before.expected.as_str())),
            ));
        }
        let case = NewCase::new(value(&fields, "name").to_owned(), turns);
        let seen = value(&fields, "seen");
        let accept = |file: &CaseFile| check_file(catalogue, file, Some(seen));
        match files.add(&source.agent, &case, &accept) {
            Ok(mut added) => {
                if is_changed {
                    added
                        .notes
                        .push("hidden characters are written as the page showed them".to_owned());
                }
                let place = format!("{}:{}", catalogue.shown_path(&added.path), added.line);
                let saved = SavedCasePage {
                    links: &source.links,
                    name: &added.name,
                    place: &place,
                    notes: &added.notes,
                };
                let mut page = Vec::new();
                write_saved_case(saved, &mut page)?;
                Ok(page)
            }
            Err(refused) => {
                let turns = case
                    .turns
                    .iter()
                    .zip(source.turns.iter().map(Some).chain(std::iter::repeat(None)));
                let turns = turns.map(|(turn, before)| SaveCaseTurn {
                    question: turn.question.clone(),
                    expected: turn.expected.clone(),
                    notes: before.map(|before| before.notes.clone()).unwrap_or_default(),
                });
                let shown = Shown {
                    name: Some(&case.name),
                    base: &case.name,
                    turns: turns.collect(),
                    refused: Some(&refused),
                };
                let page = shown.write(catalogue, &*files, &source, &token)?;
                Err(Problem::new(StatusCode::CONFLICT, refused.why.clone()).with_page(page))
            }
        }
    })
    .await
}

impl Source {
    fn of_case(catalogue: &Catalogue, id: &str, number: &str) -> Result<Self, Problem> {
        check_writable(catalogue)?;
        let run = find(catalogue, id)?;
        let (opened, place, _, said) = find_case(catalogue, &run, number)?;
        let agent = catalogue.agent_file(&run, &opened.agent_file()).map_err(refuse)?;
        let address = case_address(id, place);
        let case = PageLink {
            href: address.clone(),
            text: "The case".to_owned(),
        };
        Self {
            links: vec![all_runs(), case],
            action: format!("{address}/save"),
            agent: AgentFile::new(agent, opened.head().agent_name.clone()),
            name: said.name,
            turns: opened.case_turns(place)?.into_iter().map(Prefilled::of).collect(),
        }
        .checked()
    }

    /// The completed turns of a conversation, up to the one with this number.
    fn of_turn(
        catalogue: &Catalogue,
        source: &dyn Conversations,
        id: &str,
        number: &str,
    ) -> Result<Self, Problem> {
        check_writable(catalogue)?;
        let found = conversations::find(catalogue, source, id)?;
        let number: Option<usize> = number.parse().ok();
        let until = number.filter(|number| (1..=found.turns.len()).contains(number));
        let until = until.ok_or_else(|| {
            let text = format!("conversation `{id}` has no such turn");
            Problem::new(StatusCode::NOT_FOUND, text)
        })?;
        let before = found.turns.iter().take(until);
        let answered: Vec<Option<StoredTurn>> = before.map(ConversationTurn::answered).collect();
        if answered.last().is_none_or(Option::is_none) {
            let why = format!("turn {until} was not completed with an answer, so that it is no test");
            return Err(refuse(why));
        }
        let has_gaps = answered.iter().any(Option::is_none);
        let mut turns: Vec<Prefilled> = answered.into_iter().flatten().map(Prefilled::of).collect();
        if let Some(last) = turns.last_mut().filter(|_| has_gaps) {
            last.notes
                .push("Messages before it that were not answered are left out.");
        }
        let conversation = PageLink {
            href: conversations::turn_address(id, until),
            text: "The conversation".to_owned(),
        };
        Self {
            links: vec![all_runs(), conversations::all_conversations(), conversation],
            action: conversations::save_address(id, until),
            agent: found.agent_file().map_err(refuse)?.clone(),
            name: None,
            turns,
        }
        .checked()
    }

    /// Refuses texts that do not fit into a form.
    fn checked(self) -> Result<Self, Problem> {
        if self.turns.iter().any(|turn| turn.question.len() > MAX_TEXT) {
            return Err(refuse("the question is too long for a form".to_owned()));
        }
        let texts = self
            .turns
            .iter()
            .map(|turn| turn.question.len() + turn.expected.len());
        if texts.sum::<usize>() > MAX_FORM / 4 {
            return Err(refuse("the texts together are too long for a form".to_owned()));
        }
        Ok(self)
    }

    fn first_question(&self) -> &str {
        self.turns.first().map_or("", |turn| turn.question.as_str())
    }
}

fn refuse(why: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why)
}

fn check_writable(catalogue: &Catalogue) -> Result<(), Problem> {
    if catalogue.is_read_only() {
        return Err(Problem::new(StatusCode::FORBIDDEN, "the view only reads"));
    }
    Ok(())
}

impl Prefilled {
    fn of(turn: StoredTurn) -> Self {
        let mut notes = Vec::new();
        let mut expected = String::new();
        match (turn.expected, turn.answer) {
            (Some(own), _) => {
                notes.push("It is the right answer that the case had in this run.");
                expected = own;
            }
            (None, Some(answer)) => {
                notes.push("It is the answer that the agent gave: is it right?");
                expected = answer;
            }
            (None, None) => {}
        }
        if expected.len() > MAX_TEXT {
            notes = vec!["The answer is too long for a form, and left out."];
            expected.clear();
        }
        if turn.has_files {
            notes.push("Files of the question are not part of the new case.");
        }
        Self {
            question: turn.question,
            expected,
            notes,
        }
    }

    fn shown(&self) -> SaveCaseTurn {
        SaveCaseTurn {
            question: self.question.clone(),
            expected: self.expected.clone(),
            notes: self.notes.clone(),
        }
    }
}

/// The text of a field.
struct Typed {
    text: String,
    /// Whether the page showed characters as escapes in a text that was changed then.
    has_escapes: bool,
}

impl Typed {
    /// A field that still has the text that the page showed is the stored text itself: a browser changes the ends of lines, and
    /// the page shows hidden characters as escapes.
    fn of(typed: &str, before: Option<&str>) -> Self {
        let typed = typed.replace("\r\n", "\n");
        let shown = before.map(printable);
        match (before, shown) {
            (Some(before), Some(shown)) if typed == shown => Self {
                text: before.to_owned(),
                has_escapes: false,
            },
            (before, shown) => Self {
                text: typed,
                has_escapes: before.map(|before| before.replace("\r\n", "\n")).as_deref() != shown.as_deref(),
            },
        }
    }
}

/// The content of the form.
struct Shown<'a> {
    /// The name that the person gave; else one is made of `base`.
    name: Option<&'a str>,
    base: &'a str,
    turns: Vec<SaveCaseTurn>,
    refused: Option<&'a RefusedCase>,
}

impl Shown<'_> {
    fn write(self, catalogue: &Catalogue, files: &dyn CaseFiles, source: &Source, token: &str) -> Page {
        let found = files.find(&source.agent, self.base).map_err(refuse)?;
        check_file(catalogue, &found.file, None).map_err(refuse)?;
        let form = SaveCaseForm {
            links: &source.links,
            action: &source.action,
            token,
            seen: &digest_of(&found.file),
            file: &catalogue.shown_path(&found.file.path),
            name: self.name.unwrap_or(&found.free_name),
            turns: &self.turns,
            problem: self.refused.map(|refused| refused.why.as_str()),
            block: self.refused.and_then(|refused| refused.block.as_deref()),
        };
        let mut page = Vec::new();
        write_save_case(form, &mut page)?;
        Ok(page)
    }
}

/// Whether the view may change this file, and with a digest, whether it is the one that the page was made of.
fn check_file(catalogue: &Catalogue, file: &CaseFile, seen: Option<&str>) -> Result<(), String> {
    let shown = catalogue.shown_path(&file.path);
    let is_below = |path: std::path::PathBuf| path.starts_with(catalogue.folder());
    if !file.path.canonicalize().is_ok_and(is_below) {
        return Err(format!(
            "`{shown}` is outside of the folder of this view: start it in a folder above that file"
        ));
    }
    if seen.is_some_and(|seen| seen != digest_of(file)) {
        return Err(format!(
            "`{shown}` changed after this page was made; look at it, and save again if the case still belongs there"
        ));
    }
    Ok(())
}

/// A digest of a file and its content.
fn digest_of(file: &CaseFile) -> String {
    let mut digest = Sha256::new();
    digest.update(file.path.as_os_str().as_encoded_bytes());
    digest.update([0]);
    digest.update(&file.text);
    hex_prefix(&digest.finalize(), 16)
}
