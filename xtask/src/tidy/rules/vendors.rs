//! The names of vendors, servers and families of models, and where product code may write one.

/// Code that decides how a model endpoint is spoken to and how its answers are read.
pub(in crate::tidy) const ENDPOINT_CODE: &[&str] = &[
    "crates/holodeck-backend-openai/src/",
    "crates/holodeck-cassette/src/",
    "crates/holodeck-eval/src/",
    "crates/holodeck-http/src/",
    "crates/holodeck-judging/src/",
    "crates/holodeck-model/src/endpoint.rs",
    "crates/holodeck-retrieval/src/",
];

/// The names in lower case, without what separates their words: `lmstudio` also finds `LM Studio` and `lm_studio`.
pub(in crate::tidy) const VENDORS: &[&str] = &[
    "alibaba",
    "anthropic",
    "anyscale",
    "azure",
    "bedrock",
    "cerebras",
    "chatglm",
    "claude",
    "codestral",
    "cohere",
    "commandr",
    "dashscope",
    "databricks",
    "deepinfra",
    "deepseek",
    "devstral",
    "doubao",
    "ernie",
    "fireworks",
    "friendliai",
    "gemini",
    "gemma",
    "glm",
    "google",
    "gpt",
    "grok",
    "groq",
    "huggingface",
    "hunyuan",
    "jina",
    "kimi",
    "koboldcpp",
    "litellm",
    "llama",
    "llamacpp",
    "lmdeploy",
    "lmstudio",
    "localai",
    "magistral",
    "minimax",
    "ministral",
    "mistral",
    "mixtral",
    "moonshot",
    "nebius",
    "nemotron",
    "nomic",
    "novita",
    "nvidia",
    "o1",
    "o3",
    "o4",
    "ollama",
    "openrouter",
    "perplexity",
    "portkey",
    "qwen",
    "qwq",
    "sambanova",
    "sglang",
    "siliconflow",
    "togetherai",
    "togetherxyz",
    "vertex",
    "vllm",
    "volcengine",
    "voyage",
    "watsonx",
    "xai",
    "xinference",
    "zai",
    "zhipu",
];

/// A text of the code that has such a name and decides nothing by it.
pub(in crate::tidy) struct Permit {
    /// The file, or the folder.
    pub(in crate::tidy) path: &'static str,
    /// The text in the code; what else is in its line is still checked.
    pub(in crate::tidy) text: &'static str,
    pub(in crate::tidy) why: &'static str,
}

const DECLARED: &str = "the `provider:` of the YAML, which its author declares";
const HINT: &str = "a hint for people; nothing is decided by it";
const FIELD: &str = "the name of a field as servers send it, read from every server";

const DRIVER: &str = "crates/holodeck-backend-openai/src/";
const RETRIEVAL: &str = "crates/holodeck-retrieval/src/";
const EMBEDDER: &str = "crates/holodeck-retrieval/src/embedder/";
const ADDRESSES: &str = "crates/holodeck-model/src/endpoint.rs";

pub(in crate::tidy) const PERMITS: &[Permit] = &[
    permit("crates/", "Provider::Ollama", DECLARED),
    permit("crates/", "Provider::AzureOpenai", DECLARED),
    permit("crates/", "Provider::Anthropic", DECLARED),
    permit(DRIVER, "is_ollama()", DECLARED),
    permit(DRIVER, "is_ollama(&self)", DECLARED),
    permit(
        DRIVER,
        "`ollama list` shows installed models, `ollama pull` downloads one",
        HINT,
    ),
    permit(DRIVER, "such as vLLM's", HINT),
    permit(DRIVER, "llama.cpp's `--jinja`", HINT),
    permit(DRIVER, "x_groq", FIELD),
    permit(
        "crates/holodeck-backend-openai/src/parameters.rs",
        r#"["o1", "o3", "o4", "gpt-5"]"#,
        "the default of `model.reasoning`: such models refuse `temperature`, and no answer shows which \
         temperature a model had",
    ),
    permit(ADDRESSES, "AZURE_OPENAI_API_KEY", DECLARED),
    permit(ADDRESSES, "AZURE_VERSION", DECLARED),
    permit(ADDRESSES, "azure_route(", DECLARED),
    permit(ADDRESSES, "const OLLAMA:", DECLARED),
    permit(ADDRESSES, "OLLAMA.to_owned()", DECLARED),
    permit(ADDRESSES, "OF_OLLAMA", DECLARED),
    permit(ADDRESSES, "is Ollama running? start it with `ollama serve`", HINT),
    permit(RETRIEVAL, "let ollama =", DECLARED),
    permit(RETRIEVAL, "404 if ollama", DECLARED),
    permit(
        RETRIEVAL,
        "`ollama list` shows installed models, `ollama pull` installs one",
        HINT,
    ),
    permit(RETRIEVAL, "for Cohere, Jina, vLLM and compatible servers", HINT),
    permit(EMBEDDER, "Ollama,", DECLARED),
    permit(EMBEDDER, "Dialect::Ollama", DECLARED),
    permit(EMBEDDER, "OllamaAnswer", DECLARED),
    permit(EMBEDDER, "OLLAMA_BATCH_TEXTS", DECLARED),
    permit(
        EMBEDDER,
        "nomic-embed-text",
        "the prefix that a model was trained with, which no vector shows",
    ),
];

const fn permit(path: &'static str, text: &'static str, why: &'static str) -> Permit {
    Permit { path, text, why }
}
