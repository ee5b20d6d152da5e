//! holodeck-testkit
