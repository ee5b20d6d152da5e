//! Writes the page on which a person makes a test case of a stored answer, and the page that says where it was written.

use std::io::Write;

use askama::Template;
use holodeck_runs::{JournalError, RunOwner};

use crate::{
    PageLink, ReportError, StoredRun,
    compare::journal_report,
    history::HISTORY_STYLE,
    html::{STYLE, VIEW_SCRIPT, page_policy},
};

/// A question of a stored case, with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredTurn {
    /// The question.
    pub question: String,
    /// The right answer, if the case had one.
    pub expected: Option<String>,
    /// The answer, if there is one.
    pub answer: Option<String>,
    /// Whether files were given with the question.
    pub has_files: bool,
}

/// The form for a new test case.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct SaveCaseForm<'a> {
    /// The links above it.
    pub links: &'a [PageLink],
    /// Where it is sent.
    pub action: &'a str,
    /// The token that it must carry.
    pub token: &'a str,
    /// A digest of the file that is going to be changed.
    pub seen: &'a str,
    /// That file, as it is shown.
    pub file: &'a str,
    /// The name of the case.
    pub name: &'a str,
    /// Its turns.
    pub turns: &'a [SaveCaseTurn],
    /// The reason why the case was not saved before.
    pub problem: Option<&'a str>,
    /// The lines that a person can add by hand.
    pub block: Option<&'a str>,
}

/// A question in the form for a new test case.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct SaveCaseTurn {
    /// The question.
    pub question: String,
    /// The right answer.
    pub expected: String,
    /// Notes about them.
    pub notes: Vec<&'static str>,
}

/// A test case that was saved.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct SavedCasePage<'a> {
    /// The links above it.
    pub links: &'a [PageLink],
    /// Its name.
    pub name: &'a str,
    /// The file and the line where it begins.
    pub place: &'a str,
    /// Notes about it.
    pub notes: &'a [String],
}

#[derive(Template)]
#[template(path = "save_case.html")]
struct Page<'a> {
    policy: String,
    style: &'static str,
    own_style: &'static str,
    title: &'static str,
    links: &'a [PageLink],
    form: Option<SaveCaseForm<'a>>,
    saved: Option<SavedCasePage<'a>>,
}

/// Writes the page with the form.
pub fn write_save_case(form: SaveCaseForm<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    Page::write("Save as test case", form.links, Some(form), None, out)
}

/// Writes the page of a test case that was saved.
pub fn write_saved_case(saved: SavedCasePage<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    Page::write("Saved", saved.links, None, Some(saved), out)
}

impl<'a> Page<'a> {
    fn write(
        title: &'static str,
        links: &'a [PageLink],
        form: Option<SaveCaseForm<'a>>,
        saved: Option<SavedCasePage<'a>>,
        out: &mut dyn Write,
    ) -> Result<(), ReportError> {
        let page = Self {
            policy: page_policy(&[STYLE, HISTORY_STYLE], VIEW_SCRIPT, true),
            style: STYLE,
            own_style: HISTORY_STYLE,
            title,
            links,
            form,
            saved,
        };
        Ok(page.write_into(out)?)
    }
}

impl StoredRun {
    /// The turns of the case at this place, as far as they ran; none without a result.
    pub fn case_turns(&self, place: usize) -> Result<Vec<StoredTurn>, JournalError> {
        let Some(case) = journal_report(self.journal(), place)? else {
            return Ok(Vec::new());
        };
        let turns = case.turns().map(|turn| StoredTurn {
            question: turn.record.input.clone(),
            expected: turn.expected.ground_truth.clone(),
            answer: turn.answer().map(str::to_owned),
            has_files: !turn.record.files.is_empty(),
        });
        Ok(turns.collect())
    }

    /// The name of the file of its agent.
    pub fn agent_file(&self) -> String {
        RunOwner::of_run(self.journal().header()).file().to_owned()
    }
}
