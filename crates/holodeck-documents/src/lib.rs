//! Files as text with provenance, and text in chunks.
//!
//! A [`Document`] is Markdown and the [`Mark`]s that tell which page, slide or sheet a place in it came from. A chunker
//! turns it into [`Chunk`]s, which keep that provenance.

mod chunk;
mod document;

pub use chunk::{Chunk, Definition};
pub use document::{Document, Mark, Place};
