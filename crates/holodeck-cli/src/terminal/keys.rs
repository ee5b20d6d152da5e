//! Handles keys that are typed while the program does not read them.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};

/// The mode of the terminal before the first [`KeptKeys`].
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Keeps what is typed for the next reader, unchanged and without showing it. Otherwise the terminal would show it in the
/// middle of other output, and Ctrl-D would be lost. Ctrl-C is still a signal. Ends when it is dropped.
pub(crate) struct KeptKeys(());

impl KeptKeys {
    /// `None` if stdin is not a terminal.
    pub(crate) fn begin() -> Option<Self> {
        let mut mode = tcgetattr(io::stdin()).ok()?;
        let before = mode.clone();
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        mode.special_codes[SpecialCodeIndex::VMIN] = 1;
        tcsetattr(io::stdin(), OptionalActions::Now, &mode).ok()?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        Some(Self(()))
    }
}

impl Drop for KeptKeys {
    fn drop(&mut self) {
        restore_mode();
    }
}

/// Restores the mode of the terminal; also for ends of the process that drop nothing.
pub(crate) fn restore_mode() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Drops what was typed so far: it does not answer a question that was not shown yet.
pub(crate) fn forget_typed() {
    // The terminal may be gone.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}
