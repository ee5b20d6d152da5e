#![doc = include_str!("../README.md")]

mod code;
mod deepeval;
mod findings;
mod import;
mod promptfoo;
mod reader;
mod table;
mod template;
mod writer;

pub use code::{CodeRequest, CodeRunner, Language};
pub use deepeval::import_deepeval;
pub use findings::{Finding, FindingKind};
pub use import::{Import, ImportedFile};
pub use promptfoo::import_promptfoo;
pub use reader::{ImportError, SourceFiles};
pub use table::import_table;
