//! The pages of a view as files, which open from a disk or a web server.

use std::{
    borrow::Cow,
    fs,
    io::{self, BufWriter, Write as _},
    path::Path,
};

use holodeck_model::io_reason;
use holodeck_reports::{
    ConversationList, ConversationPage, FilePage, HistoryList, HistoryQuery, PageLink, PageUse, ReadRunError,
    ReportError, RunPage, StoredRun, file_page, write_conversation, write_conversations, write_history,
};

use crate::{
    Catalogue, Conversations,
    catalogue::Entries,
    conversations::{self, Found, Listed},
};

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

/// The numbers of pages that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Pages of runs.
    pub runs: usize,
    /// Pages of conversations; absent if they were not asked for.
    pub conversations: Option<usize>,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ExportError + use<> {
    let path = path.display().to_string();
    move |source| ExportError::Io { path, source }
}

/// Writes the list of the runs below a folder, and a page for each that can be read, into a new or empty folder; with
/// `conversations`, these too.
pub fn export(
    catalogue: &Catalogue,
    to: &Path,
    conversations: Option<&dyn Conversations>,
) -> Result<Exported, ExportError> {
    // The runs first: the new folder may be below the folder of the runs.
    let Entries {
        runs: entries,
        problems,
        ..
    } = catalogue.entries(None, |id| format!("run-{id}.html"));
    let listed = conversations.map(|source| list_conversations(catalogue, source));
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
    let mut written = Exported::default();
    if let (Some(source), Some(listed)) = (conversations, listed) {
        written.conversations = Some(export_conversations(catalogue, source, &listed, to)?);
    }
    let with_pages = entries
        .iter()
        .filter_map(|entry| Some((&entry.id, entry.page.as_ref()?, entry.run.as_ref().ok()?)));
    for (id, page, listed) in with_pages {
        let Some(run) = catalogue.find(id) else {
            continue;
        };
        let path = to.join(page);
        // Read before the file is made: a run that is damaged meanwhile leaves none.
        if !run.is_journal {
            let around = FilePage {
                links: std::slice::from_ref(&back),
                file: &run.shown,
                number: None,
            };
            let html = file_page(&listed.head, &catalogue.compared(&run)?, around)?;
            fs::File::create_new(&path)
                .and_then(|mut file| file.write_all(&html))
                .map_err(failed(&path))?;
            written.runs += 1;
            continue;
        }
        let run = StoredRun::open(&run.path).map_err(ReportError::from)?;
        let mut file = BufWriter::new(fs::File::create_new(&path).map_err(failed(&path))?);
        let page = RunPage {
            links: std::slice::from_ref(&back),
            tags: &listed.tags,
            ..RunPage::default()
        };
        run.write_page(&page, &mut file)?;
        file.flush().map_err(failed(&path))?;
        written.runs += 1;
    }
    let path = to.join("index.html");
    let mut file = BufWriter::new(fs::File::create_new(&path).map_err(failed(&path))?);
    let folder = folder_name(catalogue);
    let links = conversations.map(|_| PageLink {
        href: CONVERSATIONS.to_owned(),
        text: "Conversations".to_owned(),
    });
    let list = HistoryList {
        folder: &folder,
        entries: &entries,
        unread: 0,
        token: None,
        trash: &[],
        problems: &problems,
        links: links.as_slice(),
    };
    write_history(&list, &HistoryQuery::default(), PageUse::File, &mut file)?;
    file.flush().map_err(failed(&path))?;
    Ok(written)
}

/// The file with the list of conversations.
const CONVERSATIONS: &str = "conversations.html";

/// The name of the folder: where it lies concerns no reader of the files.
fn folder_name(catalogue: &Catalogue) -> Cow<'_, str> {
    let name = catalogue.folder().file_name();
    name.unwrap_or_default().to_string_lossy()
}

fn list_conversations(catalogue: &Catalogue, source: &dyn Conversations) -> Listed {
    conversations::list(catalogue, source, None, &|id| format!("conversation-{id}.html"))
}

/// Writes the list of conversations and their pages, without forms. How many.
fn export_conversations(
    catalogue: &Catalogue,
    source: &dyn Conversations,
    listed: &Listed,
    to: &Path,
) -> Result<usize, ExportError> {
    let link = |href: &str, text: &str| PageLink {
        href: href.to_owned(),
        text: text.to_owned(),
    };
    let runs = link("index.html", "All runs");
    let links = [runs.clone(), link(CONVERSATIONS, "All conversations")];
    let mut entries = listed.entries.clone();
    let mut pages = 0;
    for (entry, store) in entries.iter_mut().zip(&listed.stores) {
        let (Some(page), Ok(about)) = (entry.page.take(), &entry.conversation) else {
            continue;
        };
        // One that is gone meanwhile stays in the list without a page.
        let Ok(Some(found)) = Found::read(catalogue, source, store, &about.session) else {
            continue;
        };
        let path = to.join(&page);
        let mut file = BufWriter::new(fs::File::create_new(&path).map_err(failed(&path))?);
        let around = ConversationPage {
            links: &links,
            conversation: &found.about,
            turns: &found.turns,
            shown: (0, found.turns.len()),
            around: (None, None),
            save: None,
            notes: &[],
        };
        write_conversation(&around, PageUse::File, &mut file)?;
        file.flush().map_err(failed(&path))?;
        entry.page = Some(page);
        pages += 1;
    }
    let path = to.join(CONVERSATIONS);
    let mut file = BufWriter::new(fs::File::create_new(&path).map_err(failed(&path))?);
    let list = ConversationList {
        links: &[runs],
        folder: &folder_name(catalogue),
        entries: &entries,
        number: 1,
        around: (None, None),
    };
    write_conversations(&list, PageUse::File, &mut file)?;
    file.flush().map_err(failed(&path))?;
    Ok(pages)
}
