use std::io::Write;

use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap as _, SerializeSeq as _},
};
use serde_json::Value;

use super::{ReportError, RunView};

/// The report alone: 0.7.1's `TestReport` and our own fields.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    pretty(&Report { view }, out)
}

/// The run file: 0.7.1's `EvalRun`, the report and what is known about the agent.
pub(crate) fn run_file(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    #[derive(Serialize)]
    struct RunFile<'v, 'a> {
        report: Report<'v, 'a>,
        metadata: &'v holodeck_model::RunMetadata,
    }
    pretty(
        &RunFile {
            report: Report { view },
            metadata: view.metadata,
        },
        out,
    )
}

fn pretty(value: &impl Serialize, out: &mut dyn Write) -> Result<(), ReportError> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// The head's fields with the streamed cases among them, where 0.7.1 has them.
struct Report<'v, 'a> {
    view: &'v RunView<'a>,
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
                map.serialize_entry("results", &Cases(self.view))?;
            }
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

struct Cases<'v, 'a>(&'v RunView<'a>);

impl Serialize for Cases<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for result in self.0.results() {
            seq.serialize_element(&result.map_err(S::Error::custom)?)?;
        }
        seq.end()
    }
}
