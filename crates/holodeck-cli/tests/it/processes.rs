//! Signals, children and limits.

mod children;
mod indexes;
mod inputs;
mod retries;
mod signals;
