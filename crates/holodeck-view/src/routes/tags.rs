//! Gives tags to runs and takes them away.

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;

use super::{Problem, after_change, answer, no_run, read_form, value, values};
use crate::{annotations, app::App, folder::RunPath};

pub(super) async fn add(State(app): State<App>, request: Request) -> Response {
    change(app, request, true).await
}

pub(super) async fn remove(State(app): State<App>, request: Request) -> Response {
    change(app, request, false).await
}

/// Changes a tag of the chosen runs, all of which must be there and be read.
async fn change(app: App, request: Request, is_set: bool) -> Response {
    let fields = match read_form(&app, request).await {
        Ok(fields) => fields,
        Err(refused) => return refused,
    };
    let ids = values(&fields, "run");
    let tag = value(&fields, "tag").trim().to_owned();
    // The page of a run has a form of its own.
    let to = match ids.as_slice() {
        [id] if value(&fields, "back") == "run" => format!("/run/{id}"),
        _ => "/".to_owned(),
    };
    let response = answer(app, move |catalogue| {
        let refuse = |text: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text);
        if ids.is_empty() {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "no run was chosen"));
        }
        annotations::check_tag(&tag).map_err(refuse)?;
        let runs = ids.iter().map(|id| {
            let run = catalogue.find(id).ok_or_else(|| no_run(id))?;
            if !run.is_journal {
                return Err(refuse(format!(
                    "`{}` has no journal, so that it has no tags",
                    run.shown
                )));
            }
            let head = catalogue.head(&run)?;
            Ok((run, head))
        });
        let runs: Result<Vec<(RunPath, holodeck_model::ReportHead)>, Problem> = runs.collect();
        for (run, head) in runs? {
            annotations::set_tag(&run.path, &head, &tag, is_set)
                .map_err(|error| refuse(format!("`{}` is not changed: {error}", run.shown)))?;
        }
        Ok(Vec::new())
    })
    .await;
    after_change(response, &to)
}
