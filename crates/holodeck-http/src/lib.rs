//! holodeck-http
