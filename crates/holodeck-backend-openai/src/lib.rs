//! holodeck-backend-openai
