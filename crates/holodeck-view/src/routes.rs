//! The pages: the list of runs, a run, a case, and two runs side by side.

use axum::{
    Router,
    extract::{Path, Query, RawQuery, State},
    middleware,
    response::{Html, IntoResponse as _, Response},
    routing::get,
};
use holodeck_reports::{
    CaseOutcome, CaseQuery, CaseSurroundings, GridPage, GridRun, HistoryQuery, PageLink, PageUse,
    ReadRunError, ReportError, RunPage, StoredRun, changed_places, compare_files, format, history_policy,
    read_compared, write_comparison_html, write_error_page, write_grid, write_history,
};
use http::{HeaderValue, StatusCode, header};
use std::{
    collections::{BTreeSet, HashMap},
    path::{Path as FilePath, PathBuf},
};

use crate::{Catalogue, app::App, guard};

pub(crate) fn router(app: &App) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/run/{id}", get(run))
        .route("/run/{id}/case/{number}", get(case))
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
        let status = match error {
            ReportError::Query(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

async fn list(State(app): State<App>, Query(query): Query<HashMap<String, String>>) -> Response {
    let take = |name: &str| query.get(name).cloned().unwrap_or_default();
    let query = HistoryQuery {
        words: take("q"),
        state: take("state"),
        order: take("order"),
    };
    answer(app, move |catalogue| {
        let mut page = Vec::new();
        let folder = catalogue.folder().display().to_string();
        let entries = catalogue.entries(|id| format!("/run/{id}"));
        write_history(&folder, &entries, &query, PageUse::Served, &mut page)?;
        Ok(page)
    })
    .await
}

async fn run(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let take = |name: &str| query.get(name).cloned().unwrap_or_default();
    let query = CaseQuery {
        state: take("state"),
        metric: take("metric"),
        tag: take("tag"),
        tool: take("tool"),
        words: take("q"),
        pattern: take("re"),
        changed: !take("changed").is_empty(),
    };
    answer(app, move |catalogue| {
        let (path, run) = open(catalogue, &id)?;
        let before = catalogue.series_of(&id).before;
        let changed = match &before {
            Some(before) if query.changed => Some(changed_since(&before.path, &path)?),
            before => before.is_some().then(BTreeSet::new),
        };
        let case_page = |place: usize| format!("/run/{id}/case/{}", place + 1);
        let links = [
            Some(all_runs()),
            before.map(|before| PageLink {
                href: format!("/compare?run={id}&run={}", before.id),
                text: "Compare with the run before".to_owned(),
            }),
        ];
        let links: Vec<PageLink> = links.into_iter().flatten().collect();
        let mut page = Vec::new();
        let around = RunPage {
            links: &links,
            choice: Some((&query, changed)),
            case_page: Some(&case_page),
        };
        run.write_page(&around, &mut page)?;
        Ok(page)
    })
    .await
}

/// The places of the cases of a run that differ from the run before.
fn changed_since(before: &FilePath, run: &FilePath) -> Result<BTreeSet<usize>, Problem> {
    let unreadable = |error: ReadRunError| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
    let before = read_compared(before).map_err(unreadable)?;
    let run = read_compared(run).map_err(unreadable)?;
    Ok(changed_places(&before, &run))
}

/// The journal of the run with this id.
fn open(catalogue: &Catalogue, id: &str) -> Result<(PathBuf, StoredRun), Problem> {
    let found = catalogue.find(id).filter(|run| run.is_journal);
    let found = found.ok_or_else(|| no_run(id))?;
    let run = StoredRun::open(&found.path);
    let run = run.map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
    Ok((found.path, run))
}

/// The newest runs in which a case is looked up.
const MAX_RUNS_OF_CASE: usize = 30;

async fn case(State(app): State<App>, Path((id, number)): Path<(String, String)>) -> Response {
    answer(app, move |catalogue| {
        let (_, run) = open(catalogue, &id)?;
        let no_case = || {
            let text = format!("run `{id}` has no case `{number}` with a result");
            Problem::new(StatusCode::NOT_FOUND, text)
        };
        let place = number
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let place = place.ok_or_else(no_case)?;
        let case = run.case_id(place).ok_or_else(no_case)?;
        let mut runs = Vec::new();
        for other in catalogue.series_of(&id).runs.into_iter().take(MAX_RUNS_OF_CASE) {
            // A damaged run says so in the list.
            if let Ok(Some(outcome)) = CaseOutcome::read(&other.path, case) {
                runs.push((format!("/run/{}/case/{}", other.id, outcome.place + 1), outcome));
            }
        }
        let links = [
            all_runs(),
            PageLink {
                href: format!("/run/{id}#case-{}", place + 1),
                text: "The run".to_owned(),
            },
        ];
        let around = CaseSurroundings {
            links: &links,
            runs: &runs,
        };
        let mut page = Vec::new();
        if run.write_case(place, around, &mut page)? {
            Ok(page)
        } else {
            Err(no_case())
        }
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
        let find = |id: &str| catalogue.find(id).ok_or_else(|| no_run(id));
        let has_flag = |flag: &str| query.split('&').any(|pair| pair == flag);
        let [newer, older] = runs[..] else {
            if (3..=MAX_COLUMNS).contains(&runs.len()) {
                return grid(catalogue, &runs, has_flag("different=1"));
            }
            let text = format!("choose two to {MAX_COLUMNS} runs; {} were chosen", runs.len());
            return Err(Problem::new(StatusCode::BAD_REQUEST, text));
        };
        if has_flag("table=1") {
            return grid(catalogue, &runs, has_flag("different=1"));
        }
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

/// The most runs that fit side by side.
const MAX_COLUMNS: usize = 6;

/// The table of several runs, which are given newest first.
fn grid(catalogue: &Catalogue, ids: &[&str], only_different: bool) -> Page {
    let entries = catalogue.entries(|id| format!("/run/{id}"));
    let mut runs = Vec::new();
    for id in ids.iter().rev() {
        let found = catalogue.find(id).ok_or_else(|| no_run(id))?;
        let run = read_compared(&found.path);
        let run = run.map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
        let entry = entries.iter().find(|entry| entry.id == *id);
        let summary = entry.and_then(|entry| Some(&entry.run.as_ref().ok()?.head.summary));
        let cost = summary.and_then(|summary| summary.cost_usd).map(format::cost);
        let time = summary
            .map(|summary| summary.total_duration_ms)
            .filter(|millis| *millis > 0);
        runs.push(GridRun {
            run,
            page: entry.and_then(|entry| entry.page.clone()),
            facts: cost.into_iter().chain(time.map(format::duration)).collect(),
        });
    }
    let id_at = |place: usize| ids.iter().rev().nth(place).copied().unwrap_or_default();
    let address = |different: bool| {
        let runs: Vec<String> = ids.iter().map(|id| format!("run={id}")).collect();
        let different = if different { "&different=1" } else { "" };
        format!("/compare?{}&table=1{different}", runs.join("&"))
    };
    let around = GridPage {
        links: &[all_runs()],
        compare: &|before, after| format!("/compare?run={}&run={}", id_at(after), id_at(before)),
        rows: &address,
        only_different,
    };
    let mut page = Vec::new();
    write_grid(&runs, around, &mut page)?;
    Ok(page)
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
    let mut response = (status, Html(page)).into_response();
    if let Ok(policy) = HeaderValue::try_from(format!("{}; frame-ancestors 'none'", history_policy())) {
        response
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
