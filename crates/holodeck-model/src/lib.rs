//! holodeck-model
