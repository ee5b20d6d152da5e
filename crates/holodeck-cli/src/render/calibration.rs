//! Renders how far a judge agrees with people: errors and disagreements first, then the figures.

use holodeck::runner::{CalibrationRun, JudgedLabel, describe_shortfall};

use super::{
    case::{in_columns, one_line},
    style::{BAD, DOUBTFUL, STRONG, paint},
    text::wrap,
};

/// Limits of what is shown; `--output` has all of it.
const MAX_ROWS: usize = 20;
const NAME_CHARS: usize = 60;

/// The whole result.
pub(crate) fn calibration(run: &CalibrationRun, width: usize) -> String {
    let mut text = String::new();
    let failed: Vec<&JudgedLabel> = run.rows.iter().filter(|row| row.verdict.is_err()).collect();
    text.push_str(&rows("not judged", &failed, width));
    let differing: Vec<&JudgedLabel> = run.rows.iter().filter(|row| row.differs()).collect();
    text.push_str(&rows("judged otherwise than by people", &differing, width));
    let threshold = run
        .threshold
        .map_or_else(String::new, |threshold| format!(", threshold {threshold}"));
    let mut line = |what: &str, content: &str| text.push_str(&in_columns(what, content, width));
    line(
        "metric",
        &format!("{}{threshold}, judged by {}", run.metric, run.judges.join(", ")),
    );
    let judged = run.rows.len() - run.errors();
    let errors = match run.errors() {
        0 => String::new(),
        1 => ", 1 error".to_owned(),
        several => format!(", {several} errors"),
    };
    line("labels", &format!("{}, {judged} judged{errors}", run.rows.len()));
    if let Some(calibration) = &run.calibration {
        line("agreement", &format!("{:.1} %", calibration.agreement * 100.0));
        let [[both_fail, judge_only], [people_only, both_pass]] = calibration.confusion;
        line(
            "people pass",
            &format!("judge passes {both_pass}, fails {people_only}"),
        );
        line(
            "people fail",
            &format!("judge passes {judge_only}, fails {both_fail}"),
        );
        if let Ok(kappa) = calibration.kappa {
            let interval = match kappa.interval {
                Some(interval) => format!(", 95 % interval {:.2} to {:.2}", interval.low, interval.high),
                None => ", no interval: these labels do not determine one".to_owned(),
            };
            line("kappa", &format!("{:.2}{interval}", kappa.value));
            line(
                "threshold",
                &match kappa.suggested {
                    Some(fitted) if fitted.kappa <= kappa.value => {
                        "no other one agrees better with these labels".to_owned()
                    }
                    Some(fitted) => format!(
                        "{} agrees best with these labels (kappa {:.2}); expect less on others",
                        fitted.threshold, fitted.kappa
                    ),
                    None => "none agrees better with people than chance".to_owned(),
                },
            );
        }
        let verbosity = &calibration.verbosity;
        let shown =
            |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |value| format!("{value:.2}"));
        line(
            "verbosity",
            &format!(
                "correlation of length with the judge's score {}, with people's label {}, with the difference {}",
                shown(verbosity.judge),
                shown(verbosity.people),
                shown(verbosity.error)
            ),
        );
    }
    if let Some(shortfall) = run.shortfall() {
        let said = format!("no kappa: {}", describe_shortfall(shortfall));
        text.push_str(&lines(&said, width, |line| paint(DOUBTFUL, line)));
    }
    if run.errors() > 0 {
        let said = "the result is incomplete, because the judge did not judge every answer";
        text.push_str(&lines(said, width, |line| paint(BAD, line)));
    }
    text
}

fn lines(text: &str, width: usize, style: impl Fn(String) -> String) -> String {
    let lines = wrap(text, width);
    lines.iter().map(|line| style(line.clone()) + "\n").collect()
}

fn rows(title: &str, rows: &[&JudgedLabel], width: usize) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("{}\n", paint(STRONG, format!("{title} ({})", rows.len())));
    for row in rows.iter().take(MAX_ROWS) {
        let name: String = one_line(row.name()).chars().take(NAME_CHARS).collect();
        text.push_str(&format!("{} {name}\n", paint(BAD, "✗")));
        text.push_str(&in_columns("row", &row.item.location.to_string(), width));
        let side = |passed: bool| if passed { "pass" } else { "fail" };
        text.push_str(&in_columns("people", side(row.item.passed), width));
        match &row.verdict {
            Ok(verdict) => {
                let reason = row.reason.as_deref().map(one_line);
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                let said = format!("{}, score {:.2}{reason}", side(verdict.judge), verdict.score);
                text.push_str(&in_columns("judge", &said, width));
            }
            Err(error) => text.push_str(&in_columns("judge", &one_line(error), width)),
        }
        let what = if row.item.content.is_conversation() {
            "answers"
        } else {
            "answer"
        };
        text.push_str(&in_columns(what, &one_line(&row.text()), width));
    }
    if rows.len() > MAX_ROWS {
        text.push_str(&format!("  … and {} more\n", rows.len() - MAX_ROWS));
    }
    text.push('\n');
    text
}
