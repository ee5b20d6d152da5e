//! The pages of a view as files, which open from a disk or a web server.

use std::{
    fs,
    io::{self, BufWriter, Write as _},
    path::Path,
};

use holodeck_model::io_reason;
use holodeck_reports::{
    FilePage, HistoryList, HistoryQuery, PageLink, PageUse, ReadRunError, ReportError, RunPage, StoredRun,
    file_page, write_history,
};

use crate::{Catalogue, catalogue::Entries};

/// Why the pages cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The folder has files already.
    #[error("`{path}` is not empty")]
    NotEmpty {
        /// The folder.
        path: String,
    },
    /// A file cannot be written.
    #[error("`{path}`: {}", io_reason(source))]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A run file cannot be read.
    #[error(transparent)]
    Run(#[from] ReadRunError),
    /// A page cannot be made.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// Writes the list of the runs below a folder, and a page for each that can be read, into a new or empty folder. The
/// number of pages of runs.
pub fn export(catalogue: &Catalogue, to: &Path) -> Result<usize, ExportError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| ExportError::Io { path, source }
    };
    // The runs first: the new folder may be below the folder of the runs.
    let Entries {
        runs: entries,
        problems,
        ..
    } = catalogue.entries(None, |id| format!("run-{id}.html"));
    fs::create_dir_all(to).map_err(failed(to))?;
    if fs::read_dir(to).map_err(failed(to))?.next().is_some() {
        return Err(ExportError::NotEmpty {
            path: to.display().to_string(),
        });
    }
    let back = PageLink {
        href: "index.html".to_owned(),
        text: "All runs".to_owned(),
    };
    let mut pages = 0;
    let with_pages = entries
        .iter()
        .filter_map(|entry| Some((&entry.id, entry.page.as_ref()?, entry.run.as_ref().ok()?)));
    for (id, page, listed) in with_pages {
        let Some(run) = catalogue.find(id) else {
            continue;
        };
        let path = to.join(page);
        let mut file = BufWriter::new(fs::File::create_new(&path).map_err(failed(&path))?);
        pages += 1;
        if !run.is_journal {
            let around = FilePage {
                links: std::slice::from_ref(&back),
                file: &run.shown,
                number: None,
            };
            let html = file_page(&listed.head, &catalogue.compared(&run)?, around)?;
            file.write_all(&html)
                .and_then(|()| file.flush())
                .map_err(failed(&path))?;
            continue;
        }
        let run = StoredRun::open(&run.path).map_err(ReportError::from)?;
        let page = RunPage {
            links: std::slice::from_ref(&back),
            tags: &listed.tags,
            ..RunPage::default()
        };
        run.write_page(&page, &mut file)?;
        file.flush().map_err(failed(&path))?;
    }
    let path = to.join("index.html");
    let mut file = BufWriter::new(fs::File::create_new(&path).map_err(failed(&path))?);
    // Where the folder lies concerns no reader of the files.
    let folder = catalogue
        .folder()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let list = HistoryList {
        folder: &folder,
        entries: &entries,
        unread: 0,
        token: None,
        trash: &[],
        problems: &problems,
    };
    write_history(&list, &HistoryQuery::default(), PageUse::File, &mut file)?;
    file.flush().map_err(failed(&path))?;
    Ok(pages)
}
