//! The pages of conversations: the list, and each with its transcript. They exist only with `--conversations`.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use holodeck_reports::{
    ConversationList, ConversationPage, PageLink, PageUse, write_conversation, write_conversations,
};
use http::StatusCode;

use super::{Problem, all_runs, answer};
use crate::{
    Catalogue, Conversations,
    app::App,
    conversations::{self, Found},
};

/// The link to the list.
pub(super) fn all_conversations() -> PageLink {
    PageLink {
        href: "/conversations".to_owned(),
        text: "Conversations".to_owned(),
    }
}

pub(super) fn address(id: &str) -> String {
    format!("/conversation/{id}")
}

/// The conversations of a view that shows them; its routes exist only then.
pub(super) fn source(app: &App) -> Result<Arc<dyn Conversations>, Problem> {
    let missing = || Problem::new(StatusCode::NOT_FOUND, "there is nothing at this address");
    app.conversations().ok_or_else(missing)
}

/// The conversation with this id.
pub(super) fn find(catalogue: &Catalogue, source: &dyn Conversations, id: &str) -> Result<Found, Problem> {
    conversations::find(catalogue, source, id).map_err(|why| Problem::new(StatusCode::NOT_FOUND, why))
}

pub(super) async fn list(State(app): State<App>, Query(query): Query<HashMap<String, String>>) -> Response {
    let number = page_number(&query).unwrap_or(1);
    let source = source(&app);
    answer(app, move |catalogue| {
        let source = source?;
        let listed = conversations::list(catalogue, &*source, Some(number), &address);
        let newer = (number > 1).then(|| format!("/conversations?page={}", number - 1));
        let older = listed
            .has_more
            .then(|| format!("/conversations?page={}", number + 1));
        let list = ConversationList {
            links: &[all_runs()],
            folder: &catalogue.folder().display().to_string(),
            entries: &listed.entries,
            number,
            around: (newer.as_deref(), older.as_deref()),
        };
        let mut page = Vec::new();
        write_conversations(&list, PageUse::Served, &mut page)?;
        Ok(page)
    })
    .await
}

/// Turns of a page.
const PAGE_TURNS: usize = 100;

pub(super) async fn conversation(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let source = source(&app);
    answer(app, move |catalogue| {
        let found = find(catalogue, &*source?, &id)?;
        // The last page has the newest turns, and is the first one that is shown.
        let pages = found.turns.len().div_ceil(PAGE_TURNS).max(1);
        let number = page_number(&query).unwrap_or(pages).min(pages);
        let first = (number - 1) * PAGE_TURNS;
        let other = |number: usize| format!("{}?page={number}", address(&id));
        let older = (number > 1).then(|| other(number - 1));
        let newer = (number < pages).then(|| other(number + 1));
        let save = |turn: usize| save_address(&id, turn);
        // Why a turn cannot become a test is said before its form is opened.
        let agent = found.agent_file();
        let can_save = !catalogue.is_read_only() && agent.is_ok();
        let notes = agent.err().filter(|_| !catalogue.is_read_only());
        let notes = notes.map(|why| format!("No turn can become a test: {why}."));
        let page = ConversationPage {
            links: &[all_runs(), all_conversations()],
            conversation: &found.about,
            turns: &found.turns,
            shown: (first, first + PAGE_TURNS),
            around: (older.as_deref(), newer.as_deref()),
            save: can_save.then_some(&save),
            notes: notes.as_slice(),
        };
        let mut out = Vec::new();
        write_conversation(&page, PageUse::Served, &mut out)?;
        Ok(out)
    })
    .await
}

/// The address of a turn on its page.
pub(super) fn turn_address(id: &str, turn: usize) -> String {
    let page = turn.div_ceil(PAGE_TURNS);
    format!("{}?page={page}#turn-{turn}", address(id))
}

/// The address of the form that makes a test of a turn.
pub(super) fn save_address(id: &str, turn: usize) -> String {
    format!("{}/turn/{turn}/save", address(id))
}

/// The page that was asked for, from 1.
fn page_number(query: &HashMap<String, String>) -> Option<usize> {
    let number: usize = query.get("page")?.parse().ok()?;
    // The largest numbers have no next one.
    Some(number.clamp(1, 1_000_000))
}
