//! holodeck-eval
