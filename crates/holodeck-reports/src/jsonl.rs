//! The report for scripts: one line for the run, then one line per planned case.

use std::io::Write;

use serde::Serialize;

use crate::{PlannedResult, ReportError, RunView, test_result};

/// Writes the run on the first line, then one line per planned case: its result, or `not_run` with the reason.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    line(view.head, out)?;
    for planned in view.planned() {
        match planned? {
            PlannedResult::Finished(case) => line(&test_result(&case), out)?,
            PlannedResult::NotRun(case) => line(&serde_json::json!({ "not_run": case }), out)?,
        }
    }
    Ok(())
}

fn line(value: &impl Serialize, out: &mut dyn Write) -> Result<(), ReportError> {
    serde_json::to_writer(&mut *out, value).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use holodeck_model::ReportHead;
    use pretty_assertions::assert_eq;
    use serde_json::Value;

    use crate::{Format, samples};

    #[test]
    fn every_line_reads_back() {
        let cases = [samples::failed(), samples::hostile()];
        let report = samples::report(Format::Jsonl, &cases, Some(samples::replayed()));
        let mut lines = report.lines();
        let head: ReportHead = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(head, samples::head(&cases, Some(samples::replayed())));
        let read: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            read,
            cases.map(|case| serde_json::to_value(super::test_result(&case)).unwrap())
        );
    }

    #[test]
    fn a_stopped_run_lists_what_was_not_run() {
        insta::assert_snapshot!(samples::stopped_report(Format::Jsonl, &[samples::passed()]));
    }
}
