//! holodeck-process
