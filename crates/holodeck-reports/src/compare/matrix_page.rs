//! The runs of a matrix on one page: cases and combinations, and the best combination by each figure, which decides nothing.

use std::io::Write;

use askama::Template;

use super::grid::{BestRun, GridRun, Page, letter, mean_scores};
use crate::{ReportError, SummaryFold, format};

/// A figure of each run, by its place; absent where it is not known.
struct Figure {
    name: String,
    values: Vec<Option<f64>>,
    show: fn(f64) -> String,
    /// Whether the lowest value is the best.
    is_cost: bool,
    /// Of how many cases each value is, if it is a mean.
    counts: Vec<usize>,
}

/// Writes the page of the runs of one matrix, each with its cost, if that is known.
pub fn write_matrix(
    runs: &[GridRun],
    costs: &[Option<f64>],
    version: &str,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let best = best(runs, costs);
    let agent = runs.first().map_or("", |run| run.run.info.agent_name.as_str());
    let footer = format!(
        "{agent} · matrix of {} · holodeck {version}",
        format::count(runs.len(), "run")
    );
    Page::of_matrix(runs, best, footer).write_into(out)?;
    Ok(())
}

/// The best runs by the share of passed cases, each metric, and the cost.
fn best(runs: &[GridRun], costs: &[Option<f64>]) -> Vec<BestRun> {
    let rates = runs.iter().map(|run| {
        let summary = SummaryFold::of_states(&run.run.info.states).finish();
        // That of a run that did not finish says nothing about its other cases.
        summary.pass_rate.filter(|_| run.run.info.unfinished.is_none())
    });
    let mut figures = vec![Figure {
        name: "Share of passed cases".to_owned(),
        values: rates.collect(),
        show: |rate| format!("{rate:.1} %"),
        is_cost: false,
        counts: Vec::new(),
    }];
    for (place, run) in runs.iter().enumerate() {
        for (name, mean, count) in mean_scores(&run.run) {
            let known = figures.iter().position(|figure| figure.name == name);
            let known = known.unwrap_or_else(|| {
                figures.push(Figure {
                    name,
                    values: vec![None; runs.len()],
                    show: |score| format!("mean {score:.3}"),
                    is_cost: false,
                    counts: Vec::new(),
                });
                figures.len() - 1
            });
            if let Some(figure) = figures.get_mut(known) {
                figure.counts.push(count);
                if let Some(value) = figure.values.get_mut(place) {
                    *value = mean;
                }
            }
        }
    }
    figures.push(Figure {
        name: "Cost".to_owned(),
        values: costs.to_vec(),
        show: format::cost,
        is_cost: true,
        counts: Vec::new(),
    });
    figures.iter().filter_map(|figure| figure.best(runs)).collect()
}

impl Figure {
    /// The runs with the best value; `None` if no run has one.
    fn best(&self, runs: &[GridRun]) -> Option<BestRun> {
        let known = self.values.iter().flatten().copied();
        let count = known.clone().count();
        let best = known.reduce(|one, other| {
            if self.is_cost {
                one.min(other)
            } else {
                one.max(other)
            }
        })?;
        let with_best = self.values.iter().zip(runs).enumerate();
        let with_best = with_best.filter(|(_, (value, _))| **value == Some(best));
        Some(BestRun {
            figure: self.name.clone(),
            runs: with_best
                .map(|(place, (_, run))| {
                    let about = run.run.info.provenance.iter().map(String::as_str);
                    let name: Vec<&str> = about.collect();
                    format!("{} {}", letter(place), name.join(", "))
                        .trim_end()
                        .to_owned()
                })
                .collect(),
            value: (self.show)(best),
            note: match (self.counts.iter().min(), self.counts.iter().max()) {
                _ if count < runs.len() => {
                    format!("known of {count} of {}", format::count(runs.len(), "run"))
                }
                (Some(fewest), Some(most)) if fewest < most => {
                    format!("the means are of {fewest} to {most} scores")
                }
                _ => String::new(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use holodeck_model::CaseState;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::read_compared;

    /// A run with the scores of its two cases; without a score the case ended in an error.
    fn run(combination: &str, scores: [Option<f64>; 2]) -> GridRun {
        let results = scores.iter().enumerate().map(|(number, score)| {
            json!({
                "test_name": format!("case {number}"), "test_input": format!("question {number}"),
                "agent_response": "a", "passed": score.is_some_and(|score| score >= 0.5),
                "state": match score {
                    None => "error",
                    Some(score) if *score >= 0.5 => "passed",
                    Some(_) => "failed",
                },
                "errors": [],
                "metric_results": [{
                    "metric_name": "tone", "kind": "geval", "score": score, "threshold": 0.5,
                    "passed": score.map(|score| score >= 0.5), "scale": "0-1", "error": null, "retry_count": 0,
                    "evaluation_time_ms": 0.1, "model_used": null, "reasoning": null,
                }],
            })
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let file = json!({"report": {
            "agent_name": "desk", "schema_version": 1, "run_id": combination, "timestamp": "2026-11-21T20:11:18Z",
            "ended": "completed", "results": results.collect::<Vec<_>>(), "not_run": [],
        }, "metadata": {}});
        std::fs::write(&path, file.to_string()).unwrap();
        let mut run = read_compared(&path).unwrap();
        run.info.provenance = vec![combination.to_owned()];
        GridRun {
            run,
            page: None,
            facts: Vec::new(),
        }
    }

    fn figures(runs: &[GridRun], costs: &[Option<f64>]) -> BTreeMap<String, (Vec<String>, String, String)> {
        let best = best(runs, costs).into_iter();
        best.map(|one| (one.figure, (one.runs, one.value, one.note)))
            .collect()
    }

    #[test]
    fn the_best_of_each_figure_is_named_with_all_that_are_equal() {
        let runs = [
            run("model=a", [Some(0.9), Some(0.25)]),
            run("model=b", [Some(0.5), Some(0.75)]),
            run("model=<b>", [Some(0.75), Some(0.5)]),
        ];
        let figures = figures(&runs, &[Some(0.02), Some(0.5), Some(0.75)]);
        let both = vec!["B model=b".to_owned(), "C model=<b>".to_owned()];
        assert_eq!(
            figures["Share of passed cases"],
            (both.clone(), "100.0 %".to_owned(), String::new())
        );
        assert_eq!(figures["tone"], (both, "mean 0.625".to_owned(), String::new()));
        assert_eq!(figures["Cost"].0, ["A model=a"]);
    }

    #[test]
    fn an_unknown_figure_is_named_and_never_the_best() {
        let runs = [
            run("model=a", [Some(0.5), None]),
            run("model=b", [Some(0.25), Some(0.25)]),
        ];
        let figures = figures(&runs, &[None, Some(0.5)]);
        assert_eq!(figures["Cost"].0, ["B model=b"]);
        assert_eq!(figures["Cost"].2, "known of 1 of 2 runs");
        assert_eq!(figures["tone"].2, "the means are of 1 to 2 scores");
    }

    #[test]
    fn a_page_marks_cells_that_differ_tests_every_pair_and_escapes_texts() {
        let runs = [
            run("model=a", [Some(0.9), Some(0.25)]),
            run("model=<i>", [Some(0.9), Some(0.75)]),
            run("model=c", [Some(0.9), Some(0.75)]),
        ];
        assert_eq!(runs[0].run.cases[1].state, Some(CaseState::Failed));
        let mut page = Vec::new();
        write_matrix(&runs, &[None, None, None], "0.1.0", &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(
            page.contains("model=&lt;i&gt;") && !page.contains("<i>"),
            "{page}"
        );
        assert_eq!(page.matches("<tr class=\"differs\">").count(), 1);
        assert_eq!(page.matches("<tr class=\"same\">").count(), 1);
        for pair in ["A → B", "A → C", "B → C"] {
            assert!(page.contains(&format!("<b>{pair}</b>")), "{pair}");
        }
        assert!(page.contains("Nothing gates on this"), "{page}");
        let (begin, end) = (&page[..4000], &page[page.len() - 200..]);
        assert!(crate::Format::Html.recognizes(begin, end), "{end}");
    }
}
