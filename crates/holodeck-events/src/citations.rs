//! Finds which attached files an answer names.

use holodeck_model::events::{Attachment, CitedFile};

/// The files of a run, and those that its messages named.
#[derive(Default)]
pub(crate) struct Citations {
    files: Vec<CitedFile>,
    cited: Vec<bool>,
}

impl Citations {
    pub(crate) fn of(files: Vec<Attachment>) -> Self {
        let files: Vec<_> = files
            .into_iter()
            .map(|file| CitedFile {
                file_id: file.id,
                name: file.name,
            })
            .collect();
        Self {
            cited: vec![false; files.len()],
            files,
        }
    }

    /// The files that `message` names, in the order of the attachments.
    pub(crate) fn cite(&mut self, message: &str) -> Vec<CitedFile> {
        let mut found = Vec::new();
        for (file, cited) in self.files.iter().zip(&mut self.cited) {
            if names(message, &file.name) {
                *cited = true;
                found.push(file.clone());
            }
        }
        found
    }

    /// The files that any message named.
    pub(crate) fn take_cited(&mut self) -> Vec<CitedFile> {
        let all = self.files.iter().zip(&self.cited);
        all.filter(|(_, cited)| **cited)
            .map(|(file, _)| file.clone())
            .collect()
    }
}

/// Whether `text` contains this name, and not as a part of a longer one.
fn names(text: &str, name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    let belongs = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(belongs) && !after.is_some_and(belongs)
    })
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_name_is_not_a_part_of_a_longer_one() {
        for (text, named) in [
            ("see report.pdf.", true),
            ("[report.pdf]", true),
            ("report.pdf", true),
            ("my-report.pdf", false),
            ("report.pdfx and report.pdf", true),
            ("xreport.pdf, report.pdf2", false),
            ("Report.pdf", false),
        ] {
            assert_eq!(names(text, "report.pdf"), named, "{text}");
        }
        assert!(!names("anything", ""));
    }
}
