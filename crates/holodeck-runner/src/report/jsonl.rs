use std::io::Write;

use serde::Serialize;

use super::{PlannedResult, ReportError, RunView};

/// The run on the first line, then each planned case on its own: its result, or `not_run` with the reason.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    line(view.head, out)?;
    for planned in view.planned() {
        match planned? {
            PlannedResult::Finished(result) => line(&result, out)?,
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
    use holodeck_model::{ReportHead, TestResult};
    use pretty_assertions::assert_eq;

    use crate::{Format, report::samples};

    #[test]
    fn every_line_reads_back() {
        let cases = [samples::failed(), samples::hostile()];
        let report = samples::report(Format::Jsonl, &cases, Some(samples::replayed()));
        let mut lines = report.lines();
        let head: ReportHead = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(head, samples::head(&cases, Some(samples::replayed())));
        let read: Vec<TestResult> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, cases);
    }

    #[test]
    fn a15_a_stopped_run_lists_what_was_not_run() {
        insta::assert_snapshot!(samples::stopped_report(Format::Jsonl, &[samples::passed()]));
    }
}
