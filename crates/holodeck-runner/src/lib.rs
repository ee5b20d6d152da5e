//! holodeck-runner
