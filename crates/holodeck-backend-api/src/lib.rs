//! holodeck-backend-api
