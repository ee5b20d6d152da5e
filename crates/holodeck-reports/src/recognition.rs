//! Recognises reports of earlier runs, the only files that may be overwritten without a flag.

use crate::Format;

impl Format {
    /// Whether a file with this start and end is a HoloDeck report in this format.
    pub fn recognizes(self, begin: &str, end: &str) -> bool {
        let first_line = begin.lines().next().unwrap_or_default();
        let has_head = |text: &str| text.contains("\"agent_name\"") && text.contains("\"agent_config_path\"");
        match self {
            Self::Json => first_line.starts_with('{') && !has_head(first_line) && has_head(begin),
            Self::Jsonl => first_line.starts_with('{') && has_head(first_line),
            Self::Markdown => {
                begin.starts_with("## ") && end.contains("· holodeck ") && end.trim_end().ends_with("</sub>")
            }
            Self::Junit => begin.contains("<testsuites ") && begin.contains("\"holodeck_version\""),
            Self::Github => begin.starts_with("::") && end.contains("::notice title=holodeck "),
            // A list of nothing is one of another tool as well: it holds nothing that could be lost.
            Self::Gitlab => {
                let has_ours = begin.contains("\"check_name\":\"holodeck/");
                begin.trim() == "[]" || (begin.starts_with('[') && has_ours)
            }
            Self::Sarif => {
                begin.starts_with('{') && begin.contains("\"automationDetails\":{\"id\":\"holodeck/")
            }
            Self::Html => begin.starts_with("<!DOCTYPE html>") && end.contains("· holodeck "),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, samples};

    #[test]
    fn each_format_recognises_its_own_reports_and_no_others() {
        for format in Format::ALL {
            let report = samples::report(format, &[samples::failed(), samples::hostile()], None);
            let begin = &report[..report.floor_char_boundary(4096)];
            let end = &report[report.floor_char_boundary(report.len().saturating_sub(4096))..];
            for other in Format::ALL {
                assert_eq!(
                    other.recognizes(begin, end),
                    other == format,
                    "{other:?} of {format:?}: {begin}"
                );
            }
            assert!(!format.recognizes("name: support\n", "model: x\n"));
            assert!(!format.recognizes("{\"name\": \"x\"}\n", "{\"name\": \"x\"}\n"));
        }
    }
}
