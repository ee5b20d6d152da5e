//! holodeck-cassette
