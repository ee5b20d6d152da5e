//! holodeck-validators
