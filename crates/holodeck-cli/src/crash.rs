//! Panics: a bug of ours is said to be one, without a backtrace, and has an exit code.

use std::{
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::{Mutex, PoisonError},
};

use crate::failure::Problem;

static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Runs `work`; a panic in it becomes a problem.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Problem> {
    panic::set_hook(Box::new(note));
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
        problem(last)
    })
}

/// A panic that someone else catches (a test case that crashes) is told by whoever caught it.
fn note(info: &PanicHookInfo<'_>) {
    let message = info
        .payload()
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| info.payload().downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let place = info
        .location()
        .map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
    let told = format!("{message}{place}");
    tracing::debug!("panic: {told}");
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
}

fn problem(told: Option<String>) -> Problem {
    Problem::execution("internal error")
        .with_detail(told.unwrap_or_else(|| "no message".to_owned()))
        .with_hint("this is a bug of holodeck; please report it with the command and this message")
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
