//! Converts files to text with provenance, and splits text into chunks.
//!
//! A [`Document`] is Markdown with [`Mark`]s that map positions to pages, slides or sheets. The chunker turns it into
//! [`Chunk`]s, which keep that provenance.

mod cache;
mod child;
mod chunk;
mod chunker;
mod convert;
mod converted;
mod converter;
mod detect;
mod document;
mod error;
mod fetch;
mod format;
mod limits;
mod options;
mod records;
mod source;
mod text;
mod walk;

pub use child::answer_conversion;
pub use chunk::{Chunk, Definition};
pub use chunker::{ChunkOptions, chunk, estimated_tokens};
pub use convert::convert;
pub use converted::{Converted, Picture};
pub use converter::{Converter, Isolation};
pub use document::{Document, Mark, Place};
pub use error::{DocumentError, Limit, Problem};
pub use fetch::{Addresses, FetchError, FetchOptions, Fetched, Fetcher, Sent};
pub use format::{Format, ImageFormat};
pub use holodeck_http::HttpUrl;
pub use limits::ConvertLimits;
pub use options::ConvertOptions;
pub use records::{RecordOptions, read_records};
pub use source::Source;
pub use walk::{Links, Pictures, WalkError, WalkOptions, Walked, walk};
