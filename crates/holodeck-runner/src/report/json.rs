use std::{
    cell::RefCell,
    io::{BufWriter, Write},
};

use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap as _, SerializeSeq as _},
};
use serde_json::Value;

use super::{PlannedResult, ReportError, RunView};
use crate::{ExitCode, SummaryFold};

/// What the cases of a run come to.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) summary: SummaryFold,
    /// The worst of the cases' own.
    pub(crate) exit: ExitCode,
}

/// The report alone: 0.7.1's `TestReport` and our own fields.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    pretty(&Report { view, totals: None }, out)
}

/// The run file: 0.7.1's `EvalRun`, the report and what is known about the agent. The totals stand behind the cases and
/// are made while those are written, so that they are read once; the head's own are not looked at. In the order of the
/// file, whatever the order of the run: the same cases give the same sums.
pub(crate) fn run_file(view: &RunView<'_>, out: &mut dyn Write) -> Result<Totals, ReportError> {
    #[derive(Serialize)]
    struct RunFile<'v, 'a> {
        report: Report<'v, 'a>,
        metadata: &'v holodeck_model::RunMetadata,
    }
    let totals = RefCell::new(Totals {
        summary: SummaryFold::new(),
        exit: ExitCode::Passed,
    });
    let report = Report {
        view,
        totals: Some(&totals),
    };
    pretty(
        &RunFile {
            report,
            metadata: view.metadata,
        },
        out,
    )?;
    Ok(totals.into_inner())
}

fn pretty(value: &impl Serialize, out: &mut dyn Write) -> Result<(), ReportError> {
    // Many small writes: its own buffer is cheaper to reach than whatever is behind `out`.
    let mut out = BufWriter::with_capacity(1 << 16, out);
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// The head's fields with the streamed cases among them, where 0.7.1 has them.
struct Report<'v, 'a> {
    view: &'v RunView<'a>,
    /// Made from the cases on the way; otherwise the head's are right.
    totals: Option<&'v RefCell<Totals>>,
}

impl Serialize for Report<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let head = serde_json::to_value(self.view.head).map_err(S::Error::custom)?;
        let Value::Object(head) = head else {
            return Err(S::Error::custom("a report head is an object"));
        };
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in &head {
            if key == "summary" {
                map.serialize_entry("results", &Cases(self))?;
                map.serialize_entry("not_run", &NotRunCases(self))?;
                if let Some(totals) = self.totals {
                    map.serialize_entry(key, &totals.borrow().summary.clone().finish())?;
                    continue;
                }
            }
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

struct Cases<'v, 'a>(&'v Report<'v, 'a>);

impl Serialize for Cases<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for planned in self.0.view.planned() {
            let result = match planned.map_err(S::Error::custom)? {
                PlannedResult::Finished(result) => result,
                PlannedResult::NotRun(_) => {
                    if let Some(totals) = self.0.totals {
                        totals.borrow_mut().summary.observe_not_run();
                    }
                    continue;
                }
            };
            if let Some(totals) = self.0.totals {
                let mut totals = totals.borrow_mut();
                totals.exit = totals
                    .exit
                    .worse(ExitCode::of_case(&result).unwrap_or(ExitCode::Passed));
                totals.summary.observe(&result);
            }
            seq.serialize_element(&result)?;
        }
        seq.end()
    }
}

/// Planned cases without a result.
struct NotRunCases<'v, 'a>(&'v Report<'v, 'a>);

impl Serialize for NotRunCases<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Report { view, totals } = self.0;
        let mut seq = serializer.serialize_seq(None)?;
        // While totals are made, the head's own are not right yet.
        let none = match totals {
            Some(totals) => totals.borrow().summary.not_run() == 0,
            None => view.head.summary.not_run == 0,
        };
        if !none {
            for planned in view.planned() {
                if let PlannedResult::NotRun(case) = planned.map_err(S::Error::custom)? {
                    seq.serialize_element(&case)?;
                }
            }
        }
        seq.end()
    }
}
