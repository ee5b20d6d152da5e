//! `holodeck view`: the stored runs below a folder as a local web page, or as files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck::{
    AgentCaseFiles, AgentConversations,
    reports::format::count,
    runs::ExitCode,
    view::{Catalogue, Conversations, ExportError, Exported, View, ViewError, export},
};

use crate::{
    failure::{Failure, Problem},
    interrupt::{Interrupts, StopRequest},
    render::{dim, strong},
    terminal::{Terminal, Verbosity},
};

/// Flags of `holodeck view`.
#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    /// The folder below which the runs are.
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Listen on this port of this machine; 0 takes a free one.
    #[arg(short, long, default_value_t = 0)]
    port: u16,
    /// Write the pages as files into this folder, which must be empty, and end.
    #[arg(long, value_name = "DIR", conflicts_with = "port")]
    export: Option<PathBuf>,
    /// Write nothing below the folder: no labels, no test cases, and no summaries of runs.
    #[arg(long)]
    read_only: bool,
    /// Show the stored conversations of the agents too.
    #[arg(long)]
    conversations: bool,
    /// Write the link, or what was exported, as a line of JSON.
    #[arg(long)]
    json: bool,
}

/// Serves until a signal arrives.
pub(crate) fn run(args: &ViewArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if let Some(to) = &args.export {
        return write_files(args, to, terminal);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::execution(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let mut view = View::open(&args.folder, args.port, args.read_only, Arc::new(AgentCaseFiles))
            .await
            .map_err(|error| failed(&error))?;
        if args.conversations {
            view = view.with_conversations(Arc::new(AgentConversations));
        }
        let link = view.link();
        if args.json {
            terminal.write_data(&format!("{}\n", serde_json::json!({ "url": link })))?;
            terminal.flush()?;
        } else {
            // Without the link the command is of no use, so that `--quiet` prints it too.
            terminal.write_message(&format!("open {}\n", strong(&link)));
            if terminal.verbosity() > Verbosity::Quiet {
                let folder = view.folder().display();
                let more = format!("  runs below {folder}; the link works once; Ctrl-C ends\n");
                terminal.write_message(&dim(&more));
            }
        }
        let request = tokio::select! {
            request = interrupts.next() => request,
            never = view.run() => match never {},
        };
        Ok(match request {
            StopRequest::Interrupt => ExitCode::Interrupted,
            StopRequest::Terminate => ExitCode::Passed,
        })
    })
}

/// Writes the pages as files.
fn write_files(args: &ViewArgs, to: &Path, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let catalogue = Catalogue::new(&args.folder, args.read_only).map_err(|source| {
        failed(&ViewError::Folder {
            path: args.folder.display().to_string(),
            source,
        })
    })?;
    let conversations = args
        .conversations
        .then_some(&AgentConversations as &dyn Conversations);
    let pages: Exported = export(&catalogue, to, conversations).map_err(|error| {
        let problem = Problem::execution(error.to_string());
        match error {
            ExportError::NotEmpty { .. } => problem.with_hint("name a folder that does not exist yet"),
            _ => problem,
        }
    })?;
    if args.json {
        let mut line = serde_json::json!({ "folder": to, "runs": pages.runs });
        if let (Some(fields), Some(count)) = (line.as_object_mut(), pages.conversations) {
            fields.insert("conversations".to_owned(), count.into());
        }
        terminal.write_data(&format!("{line}\n"))?;
        terminal.flush()?;
    } else if terminal.verbosity() > Verbosity::Quiet {
        let index = to.join("index.html");
        let conversations = pages.conversations;
        let conversations = conversations.map(|pages| format!(", {}", count(pages, "conversation")));
        terminal.write_message(&format!(
            "{}{}: {}\n",
            count(pages.runs, "run"),
            conversations.unwrap_or_default(),
            index.display()
        ));
    }
    Ok(ExitCode::Passed)
}

fn failed(error: &ViewError) -> Failure {
    let message = error.to_string();
    match error {
        ViewError::Folder { .. } => Problem::config(message)
            .with_hint("name the folder that contains your agents")
            .into(),
        ViewError::Listen { .. } => Problem::execution(message)
            .with_hint("another program may use the port: choose another one with `--port`")
            .into(),
        _ => Problem::execution(message).into(),
    }
}
