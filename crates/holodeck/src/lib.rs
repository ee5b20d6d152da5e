//! holodeck
