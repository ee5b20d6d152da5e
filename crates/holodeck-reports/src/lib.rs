//! Reports of stored runs and comparisons between them, in every format.
//!
//! A report reads the cases one at a time from the journal. Formats only render: a verdict is never given here. This
//! crate must not run or grade anything, print, or read the environment.
//!
//! Start reading at [`write_report`] and [`compare`].

mod case_filter;
mod case_page;
mod compare;
mod conversation;
mod difference;
mod empty;
mod explain;
mod findings;
pub mod format;
mod history;
mod html;
mod json;
mod jsonl;
mod junit;
mod markdown;
mod places;
mod recognition;
#[cfg(test)]
mod samples;
mod save_case;
mod stored;
mod summary;
mod view;
mod write;

pub use case_filter::CaseQuery;
pub use case_page::{AnswerLabel, CaseOutcome, CaseSurroundings, LabelForm, StoredAnswer};
pub use compare::{
    COMPARISON_VERSION, CaseSide, CaseTexts, Change, ChangeKind, ChangedDecider, ComparedRun, Comparison,
    Counts, DEFAULT_NAME as DEFAULT_BASELINE, FilePage, Gate, GateOptions, GateReason, GateReasonKind,
    GateResult, GridPage, GridRun, MetricTest, Outcome, ReadRunError, RunChanges, RunInfo, RunKind,
    RunReader, RunTable, ScoreSource, TestMethod, TrialTally, UnpairedCase, VerdictTest, changed_places,
    check_baseline_name, compare, compare_read, comparison_json, describe_metric, describe_run,
    describe_side, describe_verdicts, file_page, headline, is_baseline, other_owner as other_baseline_owner,
    read_compared, write_baseline, write_comparison_html, write_comparison_markdown, write_grid,
    write_matrix,
};
pub use conversation::{
    ConversationEntry, ConversationList, ConversationPage, ConversationTurn, ListedConversation, TurnState,
    write_conversation, write_conversations,
};
pub use difference::{DiffLine, DiffSide, Difference};
pub use empty::write_empty_report;
pub use explain::{Explanation, Reason, explain, explain_in_a_line};
pub use findings::{Finding, FindingForm, FindingSubject, write_findings};
pub use history::{
    HistoryEntry, HistoryList, HistoryQuery, HistoryRun, PageUse, history_policy, write_error_page,
    write_history,
};
pub use html::RunPage;
pub use json::{Totals, run_file, test_result};
pub use places::{CasePlaces, FindingPlace};
pub use save_case::{
    SaveCaseForm, SaveCaseTurn, SavedCasePage, StoredTurn, write_save_case, write_saved_case,
};
pub use stored::{StoredRun, read_run_file};
pub use summary::SummaryFold;
pub use view::{Format, PageLink, PlannedResult, ReportError, Results, RunView};
pub use write::write_report;
