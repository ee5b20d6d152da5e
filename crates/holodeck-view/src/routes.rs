//! The pages: the list of runs, a run, and two runs side by side.

use axum::{
    Router,
    extract::{Path, Query, RawQuery, State},
    middleware,
    response::{Html, IntoResponse as _, Response},
    routing::get,
};
use holodeck_reports::{
    HistoryQuery, PageLink, PageUse, ReportError, StoredRun, compare_files, history_policy,
    write_comparison_html, write_error_page, write_history,
};
use http::{HeaderValue, StatusCode, header};
use std::collections::HashMap;

use crate::{Catalogue, app::App, guard};

pub(crate) fn router(app: &App) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/run/{id}", get(run))
        .route("/compare", get(compare))
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app.clone())
}

/// A page, or why there is none.
type Page = Result<Vec<u8>, Problem>;

struct Problem {
    status: StatusCode,
    text: String,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }
}

impl From<ReportError> for Problem {
    fn from(error: ReportError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

async fn list(State(app): State<App>, Query(query): Query<HashMap<String, String>>) -> Response {
    let take = |name: &str| query.get(name).cloned().unwrap_or_default();
    let query = HistoryQuery {
        words: take("q"),
        state: take("state"),
        order: take("order"),
    };
    let mut response = answer(app, move |catalogue| {
        let mut page = Vec::new();
        let folder = catalogue.folder().display().to_string();
        let entries = catalogue.entries(|id| format!("/run/{id}"));
        write_history(&folder, &entries, &query, PageUse::Served, &mut page)?;
        Ok(page)
    })
    .await;
    if let Ok(policy) = HeaderValue::try_from(format!("{}; frame-ancestors 'none'", history_policy())) {
        response
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

async fn run(State(app): State<App>, Path(id): Path<String>) -> Response {
    answer(app, move |catalogue| {
        let found = catalogue.find(&id).filter(|run| run.is_journal);
        let found = found.ok_or_else(|| no_run(&id))?;
        let run = StoredRun::open(&found.path);
        let run = run.map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
        let mut page = Vec::new();
        run.write_page(&[all_runs()], &mut page)?;
        Ok(page)
    })
    .await
}

async fn compare(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    answer(app, move |catalogue| {
        let query = query.unwrap_or_default();
        let runs: Vec<&str> = query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("run="))
            .collect();
        let [newer, older] = runs[..] else {
            let text = format!("choose two runs; {} were chosen", runs.len());
            return Err(Problem::new(StatusCode::BAD_REQUEST, text));
        };
        let find = |id: &str| catalogue.find(id).ok_or_else(|| no_run(id));
        let (before, after) = (find(older)?, find(newer)?);
        let comparison = compare_files(&before.path, &after.path);
        let comparison =
            comparison.map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
        let mut page = Vec::new();
        write_comparison_html(&comparison, &mut page).map_err(ReportError::from)?;
        Ok(page)
    })
    .await
}

async fn unknown(State(app): State<App>) -> Response {
    answer(app, |_| {
        Err(Problem::new(
            StatusCode::NOT_FOUND,
            "there is nothing at this address",
        ))
    })
    .await
}

fn no_run(id: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no run `{id}`"))
}

/// The link to the list.
fn all_runs() -> PageLink {
    PageLink {
        href: "/".to_owned(),
        text: "All runs".to_owned(),
    }
}

/// Reads files on another thread, so that a large run does not hold up the others.
async fn answer(app: App, read: impl FnOnce(&Catalogue) -> Page + Send + 'static) -> Response {
    let page = tokio::task::spawn_blocking(move || read(app.catalogue())).await;
    let page = page.unwrap_or_else(|_| {
        let text = "the page could not be made";
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, text))
    });
    let (status, page) = match page {
        Ok(page) => (StatusCode::OK, page),
        Err(problem) => {
            let mut page = Vec::new();
            match write_error_page("Not shown", &problem.text, &all_runs(), &mut page) {
                Ok(()) => (problem.status, page),
                Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, Vec::new()),
            }
        }
    };
    let policy = page_policy_of(&page);
    let mut response = (status, Html(page)).into_response();
    if let Some(policy) = policy {
        response
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// The policy of every page that has no form: its own style and script by their hashes.
fn page_policy_of(page: &[u8]) -> Option<HeaderValue> {
    let policy = holodeck_reports::report_policy();
    let policy = HeaderValue::try_from(format!("{policy}; frame-ancestors 'none'")).ok();
    policy.filter(|_| !page.is_empty())
}
