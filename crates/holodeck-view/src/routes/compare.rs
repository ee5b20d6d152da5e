//! Two runs side by side, and a table of up to six.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use holodeck_reports::{
    ComparedRun, GridPage, GridRun, PageLink, ReportError, compare_read, format, write_comparison_html,
    write_grid,
};
use http::StatusCode;

use super::{Page, Problem, all_runs, answer, no_run};
use crate::{Catalogue, app::App, folder::RunPath};

/// The most runs that fit side by side.
const MAX_COLUMNS: usize = 6;

pub(super) async fn compare(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    answer(app, move |catalogue| {
        let query = query.unwrap_or_default();
        let runs: Vec<&str> = query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("run="))
            .collect();
        let read = |id: &str| -> Result<ComparedRun, Problem> {
            let found = catalogue.find(id).ok_or_else(|| no_run(id))?;
            Ok(catalogue.compared(&found)?)
        };
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
        let (before, after) = (read(older)?, read(newer)?);
        let comparison = compare_read(&before, &after)?;
        let mut page = Vec::new();
        let link = |href: String, text: &str| PageLink {
            href,
            text: text.to_owned(),
        };
        let links = [
            all_runs(),
            link(format!("/run/{older}"), "A, before"),
            link(format!("/run/{newer}"), "B, now"),
            link(table_of(&runs), "Side by side"),
        ];
        write_comparison_html(&comparison, &links, &mut page).map_err(ReportError::from)?;
        Ok(page)
    })
    .await
}

/// The table of several runs, which are given newest first.
fn grid(catalogue: &Catalogue, ids: &[&str], only_different: bool) -> Page {
    let mut runs = Vec::new();
    for id in ids.iter().rev() {
        let found = catalogue.find(id).ok_or_else(|| no_run(id))?;
        let run = catalogue.compared(&found)?;
        let known = catalogue.summary(&found);
        let summary = known.as_ref().map(|known| &known.head.summary);
        let cost = summary.and_then(|summary| summary.cost_usd).map(format::cost);
        let time = summary
            .map(|summary| summary.total_duration_ms)
            .filter(|millis| *millis > 0);
        runs.push(GridRun {
            run,
            page: Some(format!("/run/{id}")),
            facts: cost.into_iter().chain(time.map(format::duration)).collect(),
        });
    }
    let id_at = |place: usize| ids.iter().rev().nth(place).copied().unwrap_or_default();
    let address = |different: bool| {
        let different = if different { "&different=1" } else { "" };
        format!("{}{different}", table_of(ids))
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

/// The address of the table of these runs.
fn table_of(ids: &[&str]) -> String {
    let runs: Vec<String> = ids.iter().map(|id| format!("run={id}")).collect();
    format!("/compare?{}&table=1", runs.join("&"))
}

/// The link to the table of the combinations of a matrix, if they fit.
pub(super) fn beside_combinations(runs: &[RunPath]) -> Option<PageLink> {
    let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    (2..=MAX_COLUMNS).contains(&ids.len()).then(|| PageLink {
        href: table_of(&ids),
        text: format!("All {} combinations side by side", ids.len()),
    })
}
