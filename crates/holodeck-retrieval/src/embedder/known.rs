//! What is known of embedding models before they are asked.

/// What a model wants and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The length of its vectors, unless told otherwise.
    pub(super) dimensions: Option<usize>,
    /// What it was trained to find before a question.
    pub(super) query: &'static str,
    /// What it was trained to find before a passage.
    pub(super) passage: &'static str,
}

const NOTHING: Known = Known {
    dimensions: None,
    query: "",
    passage: "",
};

const fn plain(dimensions: usize) -> Known {
    Known {
        dimensions: Some(dimensions),
        ..NOTHING
    }
}

const SEARCH: &str = "Represent this sentence for searching relevant passages: ";

/// By the beginning of the name; the first that fits.
const MODELS: &[(&str, Known)] = &[
    ("text-embedding-3-small", plain(1536)),
    ("text-embedding-3-large", plain(3072)),
    ("text-embedding-ada-002", plain(1536)),
    (
        "nomic-embed-text",
        Known {
            dimensions: Some(768),
            query: "search_query: ",
            passage: "search_document: ",
        },
    ),
    (
        "mxbai-embed-large",
        Known {
            query: SEARCH,
            ..plain(1024)
        },
    ),
    (
        "snowflake-arctic-embed2",
        Known {
            query: "query: ",
            ..plain(1024)
        },
    ),
    (
        "snowflake-arctic-embed",
        Known {
            query: SEARCH,
            ..plain(1024)
        },
    ),
    (
        "embeddinggemma",
        Known {
            dimensions: Some(768),
            query: "task: search result | query: ",
            passage: "title: none | text: ",
        },
    ),
    ("all-minilm", plain(384)),
    ("bge-m3", plain(1024)),
];

/// What is known of `model`, whatever namespace and tag its name has.
pub(super) fn known(model: &str) -> Known {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let (name, tag) = name.split_once(':').unwrap_or((&name, "latest"));
    let found = MODELS.iter().find(|(start, _)| name.starts_with(start));
    let Some((_, known)) = found else {
        return NOTHING;
    };
    // Other tags are other sizes of the model.
    let usual = ["latest", "v1", "v1.5", "335m", "568m", "300m"].contains(&tag);
    Known {
        dimensions: known.dimensions.filter(|_| usual),
        ..*known
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
            let known = known(model);
            assert_eq!((known.dimensions, known.query), (dimensions, query), "{model}");
        }
    }
}
