//! `--fix` of the commands that check files: edits the files as their diagnostics propose, and says which.

use holodeck::model::Diagnostic;

use crate::{
    failure::{Failure, Problem},
    render::shown_path,
    terminal::Terminal,
};

/// Edits the files, and names them on standard error. Returns whether there was one: it has to be read again.
pub(crate) fn apply(diagnostics: &[Diagnostic], terminal: &mut Terminal) -> Result<bool, Failure> {
    let fixed = holodeck::fix(diagnostics).map_err(|error| {
        Problem::config(error.to_string()).with_hint("put the texts in quotes by hand, as the warnings say")
    })?;
    for file in &fixed {
        let texts = if file.count == 1 { "text" } else { "texts" };
        let path = shown_path(&file.path);
        terminal.write_message(&format!(
            "fixed {}: {} {texts} put in quotes\n",
            path.display(),
            file.count
        ));
    }
    Ok(!fixed.is_empty())
}
