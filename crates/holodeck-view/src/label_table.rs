//! The labelled answers of the runs of an agent as a table.

use std::sync::Arc;

use crate::{Catalogue, annotations, folder::RunPath, summaries::Summary};

/// The labelled answers of these runs as the table that `holodeck test calibrate --labels` reads: those with a decision, and
/// not of conversations. Of two equal answers to a case, the one of the newest run, which is given first.
pub(crate) fn to_csv(catalogue: &Catalogue, runs: &[(RunPath, Arc<Summary>)]) -> String {
    let mut text = "case,input,response,passed\r\n".to_owned();
    let mut seen = std::collections::BTreeSet::new();
    let Some(said) = runs.first().map(|(run, _)| annotations::read(&run.path)) else {
        return text;
    };
    for (path, summary) in runs {
        let run_id = &summary.head.run_id;
        let own = said.labelled(run_id);
        for case in own {
            let place = summary.outcome(path, case).map(|outcome| outcome.place);
            let Some(Ok((_, Some((_, answer))))) = place.map(|place| catalogue.open_case(path, place)) else {
                continue;
            };
            let label = said.label_of(run_id, case, &answer);
            let Some(passed) = label.passed.filter(|_| !answer.is_conversation) else {
                continue;
            };
            let (name, input) = match &answer.name {
                Some(name) => (name.as_str(), ""),
                None => ("", answer.question.as_str()),
            };
            if !seen.insert((name.to_owned(), input.to_owned(), answer.response.clone())) {
                continue;
            }
            let passed = if passed { "yes" } else { "no" };
            let fields = [name, input, &answer.response, passed].map(quote);
            text.push_str(&fields.join(","));
            text.push_str("\r\n");
        }
    }
    text
}

fn quote(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}
