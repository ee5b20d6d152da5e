//! The socket of a client, which notes since when it takes nothing. A client that takes nothing for too long is disconnected,
//! whatever is sent to it: only that frees the memory of what it does not take.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::Notify,
    time::{Instant, sleep},
};

use crate::App;

/// How long a client may take no data while others wait for memory.
const PRESSED: Duration = Duration::from_secs(1);

/// A socket whose writes are watched.
pub(crate) struct Watched {
    stream: TcpStream,
    writing: Writing,
}

/// Since when a socket takes nothing, if something waits to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writing(Arc<State>);

#[derive(Debug, Default)]
struct State {
    stalled_at: Mutex<Option<Instant>>,
    stalled: Notify,
}

impl Watched {
    /// It, and its state.
    pub(crate) fn new(stream: TcpStream) -> (Self, Writing) {
        let writing = Writing::default();
        let watched = Self {
            stream,
            writing: writing.clone(),
        };
        (watched, writing)
    }
}

impl Writing {
    fn stalled_at(&self) -> Option<Instant> {
        *self.0.stalled_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        let mut stalled_at = self.0.stalled_at.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_ready() {
            *stalled_at = None;
        } else if stalled_at.is_none() {
            *stalled_at = Some(Instant::now());
            self.0.stalled.notify_one();
        }
        written
    }

    /// Waits until the client has taken nothing for too long: less time if others wait for memory. Only times in which this
    /// server looked count, so that it blames no client for being busy itself.
    pub(crate) async fn too_slow(&self, app: &App) {
        let limit = app.options().slow_consumer;
        let look = (limit / 8).clamp(Duration::from_millis(1), PRESSED / 4);
        loop {
            let Some(stalled_at) = self.stalled_at() else {
                self.0.stalled.notified().await;
                continue;
            };
            let mut idle = Duration::ZERO;
            while self.stalled_at() == Some(stalled_at) {
                if idle >= limit || idle >= PRESSED && app.reader_bytes().is_short() {
                    app.count_slow_consumer();
                    return;
                }
                sleep(look).await;
                idle += look;
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.writing.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.writing.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
