//! Defaults of embedding models, known before the first request.

/// Dimensions and prefixes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModelDefaults {
    /// Length of its vectors unless configured otherwise.
    pub(super) dimensions: Option<usize>,
    /// Prefix for questions that it was trained with.
    pub(super) query: &'static str,
    /// Prefix for passages that it was trained with.
    pub(super) passage: &'static str,
}

const NOTHING: ModelDefaults = ModelDefaults {
    dimensions: None,
    query: "",
    passage: "",
};

const fn plain(dimensions: usize) -> ModelDefaults {
    ModelDefaults {
        dimensions: Some(dimensions),
        ..NOTHING
    }
}

const SEARCH: &str = "Represent this sentence for searching relevant passages: ";

/// Matched by prefix of the name; the first match counts.
const MODELS: &[(&str, ModelDefaults)] = &[
    ("text-embedding-3-small", plain(1536)),
    ("text-embedding-3-large", plain(3072)),
    ("text-embedding-ada-002", plain(1536)),
    (
        "nomic-embed-text",
        ModelDefaults {
            dimensions: Some(768),
            query: "search_query: ",
            passage: "search_document: ",
        },
    ),
    (
        "mxbai-embed-large",
        ModelDefaults {
            query: SEARCH,
            ..plain(1024)
        },
    ),
    (
        "snowflake-arctic-embed2",
        ModelDefaults {
            query: "query: ",
            ..plain(1024)
        },
    ),
    (
        "snowflake-arctic-embed",
        ModelDefaults {
            query: SEARCH,
            ..plain(1024)
        },
    ),
    (
        "embeddinggemma",
        ModelDefaults {
            dimensions: Some(768),
            query: "task: search result | query: ",
            passage: "title: none | text: ",
        },
    ),
    ("all-minilm", plain(384)),
    ("bge-m3", plain(1024)),
];

/// Defaults of `model`, regardless of namespace and tag.
pub(super) fn model_defaults(model: &str) -> ModelDefaults {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let (name, tag) = name.split_once(':').unwrap_or((&name, "latest"));
    let found = MODELS.iter().find(|(start, _)| name.starts_with(start));
    let Some((_, defaults)) = found else {
        return NOTHING;
    };
    // Other tags are other sizes of the model.
    let usual = ["latest", "v1", "v1.5", "335m", "568m", "300m"].contains(&tag);
    ModelDefaults {
        dimensions: defaults.dimensions.filter(|_| usual),
        ..*defaults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_by_its_bare_name() {
        for (model, dimensions, query) in [
            ("text-embedding-3-small", Some(1536), ""),
            ("openai/text-embedding-3-large", Some(3072), ""),
            ("nomic-embed-text:latest", Some(768), "search_query: "),
            ("snowflake-arctic-embed:22m", None, SEARCH),
            ("my-deployment", None, ""),
        ] {
            let defaults = model_defaults(model);
            assert_eq!(
                (defaults.dimensions, defaults.query),
                (dimensions, query),
                "{model}"
            );
        }
    }
}
