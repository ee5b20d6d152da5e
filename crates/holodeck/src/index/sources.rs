//! Finds the documents that a tool searches and reports patterns that match nothing.

use std::sync::Arc;

use holodeck_documents::{
    ChunkOptions, ConvertOptions, Links, Pictures, RecordOptions, Source, WalkError, WalkOptions, Walked,
    walk,
};
use holodeck_model::{
    ChunkingStrategy, Code, Diagnostic, DocumentDomain, Env, HierarchicalDocumentTool, PathRef,
    ResolvedAgent, ToolConfig, VectorstoreTool,
};
use holodeck_retrieval::{Corpus, Cutting, FileCorpus, FileSource};
use holodeck_yaml::Load;
use tokio_util::sync::CancellationToken;

use super::{
    place,
    report::{IndexError, IndexErrorKind},
};
use crate::index::conversion::{self, Caching};

/// The documents that a tool searches, and notes about them.
pub(super) struct Sources {
    pub(super) corpus: Arc<dyn Corpus>,
    pub(super) notes: Vec<String>,
}

impl Sources {
    /// Finds the sources. Files are not read yet; web pages are fetched again only if they changed.
    pub(super) async fn of(
        agent: &ResolvedAgent,
        tool: &ToolConfig,
        env: &Env,
        cancel: &CancellationToken,
    ) -> Result<Self, IndexError> {
        let (source, chunks, links) = match tool {
            ToolConfig::Vectorstore(tool) => {
                (&tool.source, vectorstore_cutting(tool), tool.follow_links.into())
            }
            ToolConfig::HierarchicalDocument(tool) => {
                (&tool.source, chunk_options(tool).into(), tool.follow_links.into())
            }
            _ => {
                return Err(IndexError::config(format!(
                    "tool `{}` is not a search tool",
                    tool.name()
                )));
            }
        };
        let config_error = |reason: &dyn std::fmt::Display| {
            IndexError::config(format!("`source` of tool `{}`: {reason}", tool.name()))
        };
        let (files, notes) = match Source::parse(source.as_str()).map_err(|error| config_error(&error))? {
            Source::Files(path) => {
                find_files(source, &path, links, env).map_err(|error| config_error(&error))?
            }
            Source::Url(url) => {
                let fetcher =
                    conversion::fetcher(agent, env, Caching::On).map_err(|error| config_error(&error))?;
                let fetched = fetcher.fetch(&url, cancel).await.map_err(|error| {
                    let message = format!("`source` of tool `{}`: {error}", tool.name());
                    IndexError::new(IndexErrorKind::Execution, message)
                })?;
                let options = ConvertOptions {
                    format: fetched.format,
                    charset: fetched.charset,
                    ..ConvertOptions::default()
                };
                let content = FileSource::Bytes {
                    bytes: fetched.bytes.into(),
                    options: Box::new(options),
                };
                (vec![(fetched.url, content)], Vec::new())
            }
        };
        let convert = ConvertOptions::default();
        let corpus = FileCorpus::new(files, conversion::converter(agent, env), convert, chunks)
            .with_manifest(place::manifest(agent, tool));
        Ok(Self {
            corpus: Arc::new(corpus),
            notes,
        })
    }
}

type NamedSources = Vec<(String, FileSource)>;

/// Reports patterns that match nothing when the agent is loaded. Plain paths are checked by the loader.
pub(crate) fn check_patterns(load: &mut Load, env: &Env) {
    let Some(agent) = &load.agent else { return };
    let tools = agent.config.real_tools();
    let found: Vec<_> = tools
        .filter_map(|(index, tool)| {
            let (source, follow_links) = match tool {
                ToolConfig::Vectorstore(tool) => (&tool.source, tool.follow_links),
                ToolConfig::HierarchicalDocument(tool) => (&tool.source, tool.follow_links),
                _ => return None,
            };
            let problem = describe_mismatch(source, follow_links.into(), env)?;
            let pointer = format!("tools.{index}.source");
            let message = format!("`source` of tool `{}` {problem}", tool.name());
            Some(
                Diagnostic::warning(Code::FileNotFound, message)
                    .at(agent.locate(&pointer))
                    .about(pointer)
                    .with_help(
                        "patterns are relative to the file that contains them; `**` also matches subfolders",
                    ),
            )
        })
        .collect();
    load.diagnostics.extend(found);
}

fn describe_mismatch(source: &PathRef, links: Links, env: &Env) -> Option<String> {
    let Ok(Source::Files(path)) = Source::parse(source.as_str()) else {
        return None;
    };
    if !path.contains(['*', '?', '[', '{']) || source.base().join(&path).exists() {
        return None;
    }
    Some(match walk_source(source, &path, links, env).err()? {
        WalkError::Nothing { left_out, .. } => {
            let mut problem = format!("names `{path}`, which matches no file that can be read");
            for note in left_out {
                problem.push_str("; ");
                problem.push_str(&note);
            }
            problem
        }
        WalkError::Missing(folder) => {
            format!("names `{path}`, which matches nothing: `{folder}` does not exist")
        }
        error => format!("can't be used: {error}"),
    })
}

fn find_files(
    source: &PathRef,
    path: &str,
    links: Links,
    env: &Env,
) -> Result<(NamedSources, Vec<String>), WalkError> {
    let walked = walk_source(source, path, links, env)?;
    let files = walked.files.into_iter();
    let files = files
        .map(|file| (file.name, FileSource::Path(file.path)))
        .collect();
    Ok((files, walked.notes))
}

fn walk_source(source: &PathRef, path: &str, links: Links, env: &Env) -> Result<Walked, WalkError> {
    let options = WalkOptions {
        pictures: match conversion::tesseract(env) {
            Some(_) => Pictures::Taken,
            None => Pictures::LeftOut,
        },
        links,
        ..WalkOptions::default()
    };
    walk(path, source.base(), &options)
}

/// Records if the YAML names their fields, else chunks.
fn vectorstore_cutting(tool: &VectorstoreTool) -> Cutting {
    if let (Some(fields), Some(id_field)) = (&tool.vector_field, &tool.id_field) {
        let records = RecordOptions {
            id_field: id_field.clone(),
            vector_fields: fields.as_slice().to_vec(),
            meta_fields: tool.meta_fields.clone().unwrap_or_default(),
            field_separator: tool.field_separator.clone(),
            delimiter: tool.delimiter.clone(),
            record_path: tool.record_path.clone(),
            record_prefix: tool.record_prefix.clone(),
            meta_prefix: tool.meta_prefix.clone(),
        };
        return records.into();
    }
    let options = ChunkOptions::default();
    let chunks = ChunkOptions {
        max_tokens: tool.chunk_size.map_or(options.max_tokens, size),
        overlap_tokens: tool.chunk_overlap.map_or(options.overlap_tokens, size),
        ..options
    };
    chunks.into()
}

fn chunk_options(tool: &HierarchicalDocumentTool) -> ChunkOptions {
    let structured = tool.chunking_strategy == ChunkingStrategy::Structure;
    ChunkOptions {
        strategy: tool.chunking_strategy,
        max_tokens: size(tool.max_chunk_tokens),
        overlap_tokens: size(tool.chunk_overlap),
        domain: if structured {
            tool.document_domain
        } else {
            DocumentDomain::None
        },
        max_subsection_depth: tool.max_subsection_depth.map(size),
        extract_definitions: tool.extract_definitions,
        extract_cross_references: tool.extract_cross_references,
    }
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
