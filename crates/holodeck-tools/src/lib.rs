//! holodeck-tools
