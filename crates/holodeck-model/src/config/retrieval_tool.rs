//! Tools that search files, records and documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DatabaseRef, KeywordIndexConfig, MockConfig, ModelConfig};
use crate::value::{OneOrMany, PathRef};

/// Searches files or records by meaning.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VectorstoreTool {
    /// Name the model calls it by.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// The purpose of the tool.
    pub description: String,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "tools are loaded when the agent starts"))]
    pub defer_loading: bool,
    /// File, directory or URL (s3, az, https, http, file) that is searched.
    pub source: PathRef,
    /// Whether symbolic links to places outside `source` are followed.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub follow_links: bool,
    /// Field or fields of a record that are searched; needs `id_field`.
    pub vector_field: Option<OneOrMany>,
    /// Fields of a record that are returned with it.
    pub meta_fields: Option<Vec<String>>,
    /// Tokens of one chunk; 512 if absent.
    #[schemars(range(min = 1))]
    pub chunk_size: Option<u32>,
    /// Tokens that two chunks share; 50 if absent.
    #[schemars(range(min = 0))]
    pub chunk_overlap: Option<u32>,
    /// Model that makes the embeddings; one per agent, `name` of `embedding_provider` if absent.
    pub embedding_model: Option<String>,
    /// Dimensions of the embeddings.
    #[schemars(range(min = 1, max = 10_000))]
    pub embedding_dimensions: Option<u32>,
    /// Where the vectors are kept; in `.holodeck/index` beside the agent if absent.
    pub database: Option<DatabaseRef>,
    /// How many results are returned.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 100))]
    pub top_k: u32,
    /// Minimum similarity of a result.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_similarity_score: Option<f64>,
    /// Field that identifies a record.
    pub id_field: Option<String>,
    /// Separator between several vector fields.
    #[serde(default = "newline")]
    pub field_separator: String,
    /// Delimiter of a CSV file; detected if absent.
    pub delimiter: Option<String>,
    /// In JSON, the field with the list of records, or field names joined by dots; the top level if absent.
    pub record_path: Option<String>,
    /// Prefix for the names of a record's own fields.
    pub record_prefix: Option<String>,
    /// Prefix for the names of fields outside the list of records.
    pub meta_prefix: Option<String>,
    /// Answers instead of the tool, which then does not run.
    pub mock: Option<MockConfig>,
}

/// Searches structured documents by meaning and by words.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HierarchicalDocumentTool {
    /// Name the model calls it by.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// The purpose of the tool.
    pub description: String,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "tools are loaded when the agent starts"))]
    pub defer_loading: bool,
    /// File, directory or URL (s3, az, https, http, file) that is searched.
    pub source: PathRef,
    /// Whether symbolic links to places outside `source` are followed.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub follow_links: bool,
    /// How documents are split into chunks.
    #[serde(default)]
    pub chunking_strategy: ChunkingStrategy,
    /// Tokens of one chunk at most.
    #[serde(default = "eight_hundred")]
    #[schemars(range(min = 100, max = 2000))]
    pub max_chunk_tokens: u32,
    /// Tokens that two chunks share.
    #[serde(default = "fifty")]
    #[schemars(range(min = 0, max = 200))]
    pub chunk_overlap: u32,
    /// The kind of the documents.
    #[serde(default)]
    pub document_domain: DocumentDomain,
    /// How deep headings are followed.
    #[schemars(range(min = 1))]
    pub max_subsection_depth: Option<u32>,
    /// How it searches.
    #[serde(default)]
    pub search_mode: SearchMode,
    /// How many results are returned.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100))]
    pub top_k: u32,
    /// Minimum score of a result.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_score: Option<f64>,
    /// Weight of the search by meaning.
    #[serde(default = "one_half")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub semantic_weight: f64,
    /// Weight of the search by words.
    #[serde(default = "three_tenths")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub keyword_weight: f64,
    /// Weight of the search for exact text.
    #[serde(default = "one_fifth")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub exact_weight: f64,
    /// Constant of reciprocal rank fusion.
    #[serde(default = "sixty")]
    #[schemars(range(min = 1))]
    pub rrf_k: u32,
    /// Whether a model describes each chunk's place in its document.
    #[serde(default = "yes")]
    pub contextual_embeddings: bool,
    /// Tokens of such a description.
    #[serde(default = "hundred")]
    #[schemars(range(min = 50, max = 200))]
    pub context_max_tokens: u32,
    /// How many descriptions are made at the same time.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    pub context_concurrency: u32,
    /// Whether definitions are collected.
    #[serde(default = "yes")]
    pub extract_definitions: bool,
    /// Whether references between sections are collected.
    #[serde(default = "yes")]
    pub extract_cross_references: bool,
    /// Whether results are ranked again; needs `reranker_model`.
    #[serde(default)]
    pub enable_reranking: bool,
    /// Model that ranks results again: with `endpoint`, a server with `/rerank`; otherwise a chat model.
    pub reranker_model: Option<ModelConfig>,
    /// Model that describes chunks.
    pub context_model: Option<ModelConfig>,
    /// Model that makes the embeddings; one per agent, `name` of `embedding_provider` if absent.
    pub embedding_model: Option<String>,
    /// Where the vectors are kept; in `.holodeck/index` beside the agent if absent.
    pub database: Option<DatabaseRef>,
    /// Where the words are indexed; beside the vectors if absent.
    pub keyword_index: Option<KeywordIndexConfig>,
    /// Answers instead of the tool, which then does not run.
    pub mock: Option<MockConfig>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_unset(setting: &bool) -> bool {
    !*setting
}

/// How documents are split into chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChunkingStrategy {
    /// By headings.
    #[default]
    Structure,
    /// By length.
    Token,
}

/// The kind of documents that are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentDomain {
    /// No special domain.
    #[default]
    None,
    /// Law of the United States.
    UsLegislative,
    /// Law of Australia.
    AuLegislative,
    /// Papers.
    Academic,
    /// Manuals.
    Technical,
    /// Contracts.
    LegalContract,
}

/// How documents are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// By meaning.
    Semantic,
    /// By words.
    Keyword,
    /// By both, and by exact text.
    #[default]
    Hybrid,
    /// By exact text: quoted phrases and section numbers.
    Exact,
}

fn yes() -> bool {
    true
}

fn newline() -> String {
    "\n".to_owned()
}

fn five() -> u32 {
    5
}

fn ten() -> u32 {
    10
}

fn fifty() -> u32 {
    50
}

fn sixty() -> u32 {
    60
}

fn hundred() -> u32 {
    100
}

fn eight_hundred() -> u32 {
    800
}

fn one_half() -> f64 {
    0.5
}

fn three_tenths() -> f64 {
    0.3
}

fn one_fifth() -> f64 {
    0.2
}
