use std::{fmt, sync::Arc};

/// A picture for a model, in a question or in a tool's answer. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Its bytes in base64.
    pub base64: Arc<str>,
}

impl fmt::Debug for Image {
    /// Without the bytes, which tell a reader nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("media_type", &self.media_type)
            .field("base64_len", &self.base64.len())
            .finish()
    }
}
