//! Reports a panic as an internal error, without a backtrace and with an exit code of its own.

use std::{
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::{Mutex, PoisonError},
};

use crate::failure::Problem;

static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs `work` and converts a panic into a problem.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Problem> {
    panic::set_hook(Box::new(record_panic));
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        panic_problem(last)
    })
}

/// Only records the panic: one that is caught elsewhere (a test case that crashes) is reported there.
fn record_panic(info: &PanicHookInfo<'_>) {
    let message = info
        .payload()
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| info.payload().downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let place = info
        .location()
        .map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
    let text = format!("{message}{place}");
    tracing::debug!("panic: {text}");
    *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

fn panic_problem(text: Option<String>) -> Problem {
    Problem::execution("internal error")
        .with_detail(text.unwrap_or_else(|| "no message".to_owned()))
        .with_hint("this is a bug in holodeck; please report it with the command and this message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_problem_with_a_place() {
        let problem = contain(|| panic!("lost the thread")).unwrap_err();
        assert_eq!(problem.exit.code(), 3);
        assert!(problem.details[0].starts_with("lost the thread ("), "{problem:?}");
        assert!(problem.details[0].contains("crash.rs:"), "{problem:?}");
    }
}
