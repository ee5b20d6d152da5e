//! Images in messages and tool results. Their content is never logged.

use std::{fmt, sync::Arc};

/// An image for a model, in a message or in a tool's result. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The content in base64.
    pub base64: Arc<str>,
}

impl fmt::Debug for Image {
    /// Omits the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("media_type", &self.media_type)
            .field("base64_len", &self.base64.len())
            .finish()
    }
}
