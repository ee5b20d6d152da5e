//! What goes into the CLI and what comes out of it.

use std::sync::Arc;

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    process::ChildStdout,
    sync::mpsc,
};

use super::Incoming;
use crate::{
    control::{Pending, Write},
    framing::{FramingError, LINE_LIMIT, LineReader},
    host::Answering,
    wire::{self, Frame},
};

/// Writes lines until nobody has any, or nobody reads them.
pub(super) async fn write(mut stdin: impl AsyncWrite + Unpin, mut lines: mpsc::UnboundedReceiver<Write>) {
    while let Some(Write::Line(line)) = lines.recv().await {
        let written = async {
            stdin.write_all(line.as_bytes()).await?;
            stdin.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// Reads for as long as there is output, whatever else happens: a full pipe would stop the CLI.
pub(super) async fn read(
    stdout: ChildStdout,
    pending: Arc<Pending>,
    answering: Answering,
    heard: mpsc::Sender<Incoming>,
) {
    let mut lines = LineReader::new(stdout, LINE_LIMIT);
    loop {
        let frame = match lines.next().await {
            Ok(Some(line)) => wire::parse(line),
            Ok(None) => break,
            Err(error @ FramingError::HalfLine { .. }) => {
                // The program ended in the middle of it: that is what there is to tell.
                tracing::debug!(%error, "half a line of the Claude Code CLI is left out");
                break;
            }
            Err(error) => {
                let _ = heard.send(Incoming::Broken(error)).await;
                break;
            }
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                tracing::debug!(%error, "a line of the Claude Code CLI is left out");
                continue;
            }
        };
        match frame {
            Frame::ControlResponse { request_id, outcome } => {
                pending.answer(&request_id, outcome.map_err(|error| error.message));
            }
            Frame::ControlRequest { request_id, request } => answering.answer(request_id, request),
            Frame::ControlCancel { request_id } => answering.withdraw(&request_id),
            frame => {
                match &frame {
                    Frame::User(user) => user.answered_calls().for_each(|id| answering.finished(id)),
                    Frame::Result(_) => answering.turn_over(),
                    _ => {}
                }
                if heard.send(Incoming::Frame(Box::new(frame))).await.is_err() {
                    break;
                }
            }
        }
    }
    pending.fail_all();
}
