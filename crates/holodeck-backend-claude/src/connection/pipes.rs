//! Writes to the CLI's standard input and reads its standard output.

use std::sync::Arc;

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    process::ChildStdout,
    sync::mpsc,
};

use super::Printed;
use crate::{
    control::{Pending, Write},
    framing::{FramingError, LINE_LIMIT, LineReader},
    host::Responder,
    incoming::Incoming,
    wire::{self, Frame},
};

/// Writes lines until the channel or the CLI's input is closed.
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

/// Reads all output, even between turns: a full pipe would block the CLI.
pub(super) async fn read(
    stdout: ChildStdout,
    pending: Arc<Pending>,
    responder: Responder,
    sender: mpsc::Sender<Incoming>,
    printed: Arc<Printed>,
) {
    let mut lines = LineReader::new(stdout, LINE_LIMIT);
    let beginnings = Arc::clone(&printed);
    lines.watch(move |line| beginnings.beginning(line));
    loop {
        let frame = match lines.next().await {
            Ok(Some(line)) => wire::parse(line).inspect_err(|_| printed.line(line)),
            Ok(None) => break,
            Err(error @ FramingError::HalfLine { .. }) => {
                // The exit of the program is reported instead.
                tracing::debug!(%error, "ignoring an incomplete line of the Claude Code CLI");
                break;
            }
            Err(error) => {
                let _ = sender.send(Incoming::Broken(error)).await;
                break;
            }
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                tracing::debug!(%error, "ignoring an invalid line of the Claude Code CLI");
                continue;
            }
        };
        match frame {
            Frame::ControlResponse { request_id, outcome } => {
                pending.answer(&request_id, outcome.map_err(|error| error.message));
            }
            Frame::ControlRequest { request_id, request } => responder.respond(request_id, request),
            Frame::ControlCancel { request_id } => responder.withdraw(&request_id),
            frame => {
                match &frame {
                    Frame::User(user) => user.result_call_ids().for_each(|id| responder.release_slot(id)),
                    Frame::Result(_) => responder.release_all_slots(),
                    _ => {}
                }
                if sender.send(Incoming::Frame(Box::new(frame))).await.is_err() {
                    break;
                }
            }
        }
    }
    pending.fail_all();
}
