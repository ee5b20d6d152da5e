//! The pages: the list of runs, a run, a case, and two runs side by side.

mod compare;
mod conversations;
mod save_case;
mod tags;

use axum::{
    Router,
    extract::{Path, Query, Request, State},
    middleware,
    response::{Html, IntoResponse as _, Response},
    routing::{get, post},
};
use holodeck_model::CaseId;
use holodeck_reports::{
    AnswerLabel, CaseQuery, CaseSurroundings, FilePage, HistoryList, HistoryQuery, LabelForm, PageLink,
    PageUse, ReadRunError, ReportError, RunPage, StoredAnswer, StoredRun, changed_places, file_page,
    history_policy, read_run_file, write_error_page, write_history,
};
use holodeck_runs::JournalError;
use http::{HeaderValue, StatusCode, header};
use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use crate::{
    Catalogue, annotations, app::App, folder::RunPath, guard, label_table, trash::restore as restore_file,
};

pub(crate) fn router(app: &App) -> Router {
    let mut router = Router::new();
    // Otherwise there is nothing at their addresses.
    if app.conversations().is_some() {
        router = router
            .route("/conversations", get(conversations::list))
            .route("/conversation/{id}", get(conversations::conversation))
            .route(
                "/conversation/{id}/turn/{number}/save",
                get(save_case::form_of_turn).post(save_case::save_turn),
            );
    }
    router
        .route("/", get(list))
        .route("/run/{id}", get(run))
        .route("/run/{id}/case/{number}", get(case).post(label))
        .route(
            "/run/{id}/case/{number}/save",
            get(save_case::form).post(save_case::save),
        )
        .route("/run/{id}/labels.csv", get(labels))
        .route("/compare", get(compare::compare))
        .route("/delete", post(delete))
        .route("/tag", post(tags::add))
        .route("/untag", post(tags::remove))
        .route("/restore", post(restore))
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app.clone())
}

/// A page, or why there is none.
type Page = Result<Vec<u8>, Problem>;

struct Problem {
    status: StatusCode,
    text: String,
    /// A page that says more than the text.
    page: Option<Vec<u8>>,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            page: None,
        }
    }

    fn with_page(self, page: Vec<u8>) -> Self {
        Self {
            page: Some(page),
            ..self
        }
    }
}

impl From<ReadRunError> for Problem {
    fn from(error: ReadRunError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
    }
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
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

/// How long a page waits for runs that were not read yet. It shows the others, and names how many are missing.
const PATIENCE: Duration = Duration::from_millis(1_500);

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

async fn list(State(app): State<App>, Query(query): Query<HashMap<String, String>>) -> Response {
    let take = |name: &str| query.get(name).cloned().unwrap_or_default();
    let query = HistoryQuery {
        words: take("q"),
        state: take("state"),
        order: take("order"),
        run_tag: take("run_tag"),
        page: take("page").parse().unwrap_or(1),
    };
    let token = app.access().form_token().to_owned();
    let links = app.conversations().map(|_| conversations::all_conversations());
    answer(app, move |catalogue| {
        let mut page = Vec::new();
        let token = (!catalogue.is_read_only()).then_some(token.as_str());
        let trash = catalogue.deleted().into_iter().map(|file| (file.id, file.shown));
        let trash: Vec<(String, String)> = trash.collect();
        let folder = catalogue.folder().display().to_string();
        let entries = catalogue.entries(Some(deadline()), |id| format!("/run/{id}"));
        let list = HistoryList {
            folder: &folder,
            entries: &entries.runs,
            unread: entries.unread,
            token,
            trash: &trash,
            problems: &entries.problems,
            links: links.as_slice(),
        };
        write_history(&list, &query, PageUse::Served, &mut page)?;
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
        page: take("page").parse().unwrap_or(0),
        at: take("at").parse().unwrap_or(0),
    };
    let token = app.access().form_token().to_owned();
    answer(app, move |catalogue| {
        let path = catalogue.find(&id).ok_or_else(|| no_run(&id))?;
        if !path.is_journal {
            let around = FilePage {
                links: &[all_runs()],
                file: &path.shown,
                number: Some(query.page),
            };
            let run = catalogue.compared(&path)?;
            let head = match catalogue.summary(&path) {
                Some(known) => known.head.clone(),
                None => read_run_file(&path.path)?.0,
            };
            return Ok(file_page(&head, &run, around)?);
        }
        let mut run = StoredRun::open(&path.path)?;
        let said = annotations::read(&path.path);
        let identity = annotations::run_identity(run.head());
        let tags = said.tags_of(&run.head().run_id, &identity);
        let series = catalogue.series_of(&path, Some(deadline()));
        if series.is_running {
            run.set_running();
        }
        let before = series.before;
        let changed = match &before {
            Some(before) if query.changed => Some(changed_since(catalogue, before, &path)?),
            before => before.is_some().then(BTreeSet::new),
        };
        let case_page = |place: usize| format!("/run/{id}/case/{}", place + 1);
        let links = [
            Some(all_runs()),
            before.map(|before| PageLink {
                href: format!("/compare?run={id}&run={}", before.id),
                text: "Compare with the run before".to_owned(),
            }),
            compare::beside_combinations(&series.combinations),
        ];
        let links: Vec<PageLink> = links.into_iter().flatten().collect();
        let mut page = Vec::new();
        let around = RunPage {
            links: &links,
            choice: Some((&query, changed)),
            case_page: Some(&case_page),
            is_running: series.is_running && !run.is_ended(),
            tags: &tags,
            tag_form: (!catalogue.is_read_only()).then_some((token.as_str(), id.as_str())),
        };
        run.write_page(&around, &mut page)?;
        Ok(page)
    })
    .await
}

/// The places of the cases of a run that differ from the run before.
fn changed_since(catalogue: &Catalogue, before: &RunPath, run: &RunPath) -> Result<BTreeSet<usize>, Problem> {
    let before = catalogue.compared(before)?;
    let run = catalogue.compared(run)?;
    Ok(changed_places(&before, &run))
}

/// The journal with this id.
fn find(catalogue: &Catalogue, id: &str) -> Result<RunPath, Problem> {
    let found = catalogue.find(id).filter(|run| run.is_journal);
    found.ok_or_else(|| no_run(id))
}

/// The newest runs in which a case is looked up.
const MAX_RUNS_OF_CASE: usize = 30;

async fn case(State(app): State<App>, Path((id, number)): Path<(String, String)>) -> Response {
    let token = app.access().form_token().to_owned();
    answer(app, move |catalogue| {
        let path = find(catalogue, &id)?;
        let series = catalogue.series_of(&path, Some(deadline()));
        let (run, place, case, said) = find_case(catalogue, &path, &number)?;
        let mut runs = Vec::new();
        for (other, summary) in series.runs.iter().take(MAX_RUNS_OF_CASE) {
            if let Some(outcome) = summary.outcome(other, case) {
                runs.push((case_address(&other.id, outcome.place), outcome));
            }
        }
        let links = [
            all_runs(),
            PageLink {
                href: format!("/run/{id}?at={0}#case-{0}", place + 1),
                text: "The run".to_owned(),
            },
        ];
        let now = annotations::read(&path.path).label_of(&run.head().run_id, case, &said);
        let form = LabelForm {
            action: &case_address(&id, place),
            token: &token,
            now: &now,
            table: &format!("/run/{id}/labels.csv"),
            save: &format!("{}/save", case_address(&id, place)),
        };
        let around = CaseSurroundings {
            links: &links,
            label: (!catalogue.is_read_only()).then_some(form),
            runs: &runs,
            more_runs: series.runs.len().saturating_sub(MAX_RUNS_OF_CASE),
            unread: series.unread,
        };
        let mut page = Vec::new();
        run.write_case(place, around, &mut page)?;
        Ok(page)
    })
    .await
}

fn case_address(id: &str, place: usize) -> String {
    format!("/run/{id}/case/{}", place + 1)
}

/// The case with this number in a run, and its answer. At least this case of the run can be read.
fn find_case(
    catalogue: &Catalogue,
    run: &RunPath,
    number: &str,
) -> Result<(StoredRun, usize, CaseId, StoredAnswer), Problem> {
    let no_case = || {
        let text = format!("run `{}` has no case `{number}` with a result", run.id);
        Problem::new(StatusCode::NOT_FOUND, text)
    };
    let number = number.parse::<usize>().ok();
    let place = number
        .and_then(|number| number.checked_sub(1))
        .ok_or_else(no_case)?;
    let (opened, said) = catalogue.open_case(run, place)?;
    let (case, said) = said.ok_or_else(no_case)?;
    Ok((opened, place, case, said))
}

/// A larger form is refused.
const MAX_FORM: usize = 64 << 10;

/// The fields of a form, which must carry the token of this view.
async fn read_form(app: &App, request: Request) -> Result<Vec<(String, String)>, Response> {
    read_form_up_to(MAX_FORM, app, request).await
}

/// As [`read_form`], with another size limit.
async fn read_form_up_to(
    limit: usize,
    app: &App,
    request: Request,
) -> Result<Vec<(String, String)>, Response> {
    let refuse = |text: &'static str| (StatusCode::FORBIDDEN, text).into_response();
    let body = axum::body::to_bytes(request.into_body(), limit).await;
    let body =
        body.map_err(|_| (StatusCode::PAYLOAD_TOO_LARGE, "the form is too large\n").into_response())?;
    // A form is written as a query is.
    let fields = std::str::from_utf8(&body)
        .ok()
        .and_then(|body| format!("/?{body}").parse().ok())
        .and_then(|uri| Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
    let Some(Query(fields)) = fields else {
        return Err(refuse("not a form\n"));
    };
    let token = fields.iter().find(|(name, _)| name == "token");
    if token.is_some_and(|(_, token)| app.access().is_form_token(token)) {
        return Ok(fields);
    }
    Err(refuse("the form is not one of this view: load the page again\n"))
}

/// The values of the fields with this name.
fn values(fields: &[(String, String)], name: &str) -> Vec<String> {
    let values = fields.iter().filter(|(own, _)| own == name);
    values.map(|(_, value)| value.clone()).collect()
}

/// The value of the first field with this name; empty without one.
fn value<'f>(fields: &'f [(String, String)], name: &str) -> &'f str {
    let mut named = fields.iter().filter(|(own, _)| own == name);
    named.next().map_or("", |(_, value)| value)
}

/// Leads to another page after a change, or says why there was none.
fn after_change(response: Response, to: &str) -> Response {
    match HeaderValue::try_from(to) {
        Ok(to) if response.status() == StatusCode::OK => {
            (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
        }
        _ => response,
    }
}

/// Moves runs to the trash, all of which must be there.
async fn delete(State(app): State<App>, request: Request) -> Response {
    let ids = match read_form(&app, request).await {
        Ok(fields) => values(&fields, "run"),
        Err(refused) => return refused,
    };
    let response = answer(app, move |catalogue| {
        if ids.is_empty() {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "no run was chosen"));
        }
        let runs: Result<Vec<RunPath>, Problem> = ids
            .iter()
            .map(|id| catalogue.find(id).ok_or_else(|| no_run(id)))
            .collect();
        for run in runs? {
            catalogue.delete(&run).map_err(|why| {
                let text = format!("`{}` stays: {why}", run.shown);
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
            })?;
        }
        Ok(Vec::new())
    })
    .await;
    after_change(response, "/")
}

/// Moves a file back from the trash.
async fn restore(State(app): State<App>, request: Request) -> Response {
    let ids = match read_form(&app, request).await {
        Ok(fields) => values(&fields, "file"),
        Err(refused) => return refused,
    };
    let response = answer(app, move |catalogue| {
        let deleted = catalogue.deleted();
        for id in &ids {
            let file = deleted.iter().find(|file| file.id == *id);
            let file = file.ok_or_else(|| {
                Problem::new(StatusCode::NOT_FOUND, format!("there is no `{id}` in the trash"))
            })?;
            restore_file(file).map_err(|why| {
                let text = format!("`{}` stays in the trash: {why}", file.shown);
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
            })?;
        }
        Ok(Vec::new())
    })
    .await;
    after_change(response, "/")
}

/// Keeps what a person says about an answer.
async fn label(
    State(app): State<App>,
    Path((id, number)): Path<(String, String)>,
    request: Request,
) -> Response {
    let fields: HashMap<String, String> = match read_form(&app, request).await {
        Ok(fields) => fields.into_iter().collect(),
        Err(refused) => return refused,
    };
    let take = |name: &str| fields.get(name).map_or("", String::as_str);
    let said = AnswerLabel {
        passed: match take("passed") {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        },
        // What is not a number is out of the range, and refused with it.
        score: (!take("score").is_empty()).then(|| take("score").parse().unwrap_or(f64::NAN)),
        label: take("label").to_owned(),
        comment: take("comment").to_owned(),
    };
    let response = answer(app.clone(), {
        let (id, number) = (id.clone(), number.clone());
        move |catalogue| {
            let path = find(catalogue, &id)?;
            let (run, _, case, answer) = find_case(catalogue, &path, &number)?;
            annotations::append(&path.path, &run.head().run_id, case, &answer, said).map_err(|error| {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("not saved: {error}"))
            })?;
            Ok(Vec::new())
        }
    })
    .await;
    after_change(response, &format!("/run/{id}/case/{number}"))
}

/// The labelled answers of the runs of an agent, as a table.
async fn labels(State(app): State<App>, Path(id): Path<String>) -> Response {
    let mut response = answer(app, move |catalogue| {
        let run = find(catalogue, &id)?;
        // The table has all of them.
        let runs = catalogue.series_of(&run, None).runs;
        Ok(label_table::to_csv(catalogue, &runs).into_bytes())
    })
    .await;
    if response.status() == StatusCode::OK {
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/csv; charset=utf-8"),
        );
        let name = HeaderValue::from_static("attachment; filename=\"labels.csv\"");
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    response
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
        Err(Problem {
            status,
            page: Some(page),
            ..
        }) => (status, page),
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
