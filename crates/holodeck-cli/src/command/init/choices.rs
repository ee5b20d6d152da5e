//! The options of a new project.

use clap::ValueEnum;

/// The kind of agent that a project starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Template {
    /// Answers questions.
    Conversational,
    /// Searches documents.
    Research,
    /// Calls tools: looks up orders and opens tickets.
    CustomerSupport,
}

impl Template {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Conversational => "conversational",
            Self::Research => "research",
            Self::CustomerSupport => "customer-support",
        }
    }
}

/// Providers that this version supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Provider {
    /// Ollama on this machine, or with `--endpoint` elsewhere.
    Ollama,
    /// OpenAI, or with `--endpoint` any compatible server.
    Openai,
    /// Azure OpenAI; needs `--endpoint`.
    #[value(name = "azure_openai")]
    AzureOpenai,
    /// Claude, through the Claude Code CLI.
    Anthropic,
}

impl Provider {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::AzureOpenai => "azure_openai",
            Self::Ollama => "ollama",
            Self::Anthropic => "anthropic",
        }
    }

    pub(super) fn default_model(self) -> &'static str {
        match self {
            Self::Openai | Self::AzureOpenai => "gpt-4o-mini",
            Self::Ollama => "llama3.2",
            Self::Anthropic => "sonnet",
        }
    }

    /// The comment in place of the endpoint, if none is given.
    pub(super) fn default_endpoint(self) -> &'static str {
        match self {
            Self::Openai => "  # endpoint: http://localhost:8000   # any server compatible with OpenAI\n",
            Self::AzureOpenai | Self::Anthropic => "",
            Self::Ollama => "  # endpoint: http://localhost:11434  # the default of Ollama\n",
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Openai => "OPENAI_API_KEY=",
            Self::AzureOpenai => "AZURE_OPENAI_API_KEY=",
            Self::Ollama => "# Ollama needs no key.",
            Self::Anthropic => "ANTHROPIC_API_KEY=",
        }
    }

    /// A hint about what the model requires.
    pub(super) fn needs(self, model: &str, endpoint: Option<&str>) -> Option<String> {
        match self {
            Self::Ollama if endpoint.is_none() => Some(format!(
                "Ollama must be running and have the model: `ollama pull {model}`"
            )),
            Self::Ollama => None,
            Self::Openai | Self::AzureOpenai => {
                Some("the key is read from the environment or `.env`; see `.env.example`".to_owned())
            }
            Self::Anthropic => Some(
                "it needs `ANTHROPIC_API_KEY`, in the environment or in `.env`, and the Claude Code CLI: \
                 `npm install -g @anthropic-ai/claude-code`"
                    .to_owned(),
            ),
        }
    }
}

/// Where an index is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Store {
    /// One file beside the agent.
    InMemory,
    /// PostgreSQL with pgvector.
    Postgres,
    /// Qdrant.
    Qdrant,
    /// Chroma.
    Chromadb,
}

impl Store {
    /// The lines that configure it in the tool.
    pub(super) fn yaml(self) -> &'static str {
        match self {
            Self::InMemory => "",
            Self::Postgres => "    database: {provider: postgres, connection_string: \"${DATABASE_URL}\"}\n",
            Self::Qdrant => {
                "    database: {provider: qdrant, connection_string: \"http://localhost:6333\"}\n"
            }
            Self::Chromadb => {
                "    database: {provider: chromadb, connection_string: \"http://localhost:8000\"}\n"
            }
        }
    }

    pub(super) fn variable(self) -> Option<&'static str> {
        (self == Self::Postgres).then_some("DATABASE_URL")
    }
}

/// Metrics that use a model as judge, by their names in 0.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Eval {
    /// The answer follows from the passages that were found.
    #[value(name = "rag-faithfulness")]
    Faithfulness,
    /// The answer fits the question.
    #[value(name = "rag-answer_relevancy", alias = "rag-answer-relevancy")]
    AnswerRelevancy,
    /// The useful passages are ranked first.
    #[value(name = "rag-context_precision", alias = "rag-context-precision")]
    ContextPrecision,
    /// All passages that the answer needs were found.
    #[value(name = "rag-context_recall", alias = "rag-context-recall")]
    ContextRecall,
}

impl Eval {
    /// The name in the agent file.
    pub(super) fn metric(self) -> &'static str {
        match self {
            Self::Faithfulness => "faithfulness",
            Self::AnswerRelevancy => "answer_relevancy",
            Self::ContextPrecision => "contextual_precision",
            Self::ContextRecall => "contextual_recall",
        }
    }

    /// Whether the metric judges passages, so that a case without any is an error.
    pub(super) fn needs_passages(self) -> bool {
        !matches!(self, Self::AnswerRelevancy)
    }
}

/// MCP servers that `npx` starts. Others: `holodeck mcp add`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Server {
    /// Searches the web; needs `BRAVE_API_KEY`.
    BraveSearch,
    /// Remembers facts between conversations.
    Memory,
    /// Thinks in steps.
    #[value(alias = "sequentialthinking")]
    SequentialThinking,
    /// Reads and writes files in `data`.
    Filesystem,
    /// GitHub; needs `GITHUB_PERSONAL_ACCESS_TOKEN`.
    Github,
    /// Reads a PostgreSQL database; needs `DATABASE_URL`.
    Postgres,
}

/// The entry of a server in `agent.yaml`.
pub(super) struct ServerEntry {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) package: &'static str,
    pub(super) argument: Option<&'static str>,
    pub(super) variable: Option<&'static str>,
}

impl Server {
    pub(super) fn entry(self) -> ServerEntry {
        let (name, description, package) = match self {
            Self::BraveSearch => (
                "brave_search",
                "Searches the web.",
                "@brave/brave-search-mcp-server",
            ),
            Self::Memory => (
                "memory",
                "Remembers facts between conversations.",
                "@modelcontextprotocol/server-memory",
            ),
            Self::SequentialThinking => (
                "sequential_thinking",
                "Thinks a problem through in steps.",
                "@modelcontextprotocol/server-sequential-thinking",
            ),
            Self::Filesystem => (
                "filesystem",
                "Reads and writes files in `data`.",
                "@modelcontextprotocol/server-filesystem",
            ),
            Self::Github => (
                "github",
                "Reads and changes repositories and issues on GitHub.",
                "@modelcontextprotocol/server-github",
            ),
            Self::Postgres => (
                "postgres",
                "Reads a PostgreSQL database.",
                "@zeddotdev/postgres-context-server",
            ),
        };
        ServerEntry {
            name,
            description,
            package,
            argument: (self == Self::Filesystem).then_some("./data"),
            variable: match self {
                Self::BraveSearch => Some("BRAVE_API_KEY"),
                Self::Github => Some("GITHUB_PERSONAL_ACCESS_TOKEN"),
                Self::Postgres => Some("DATABASE_URL"),
                Self::Memory | Self::SequentialThinking | Self::Filesystem => None,
            },
        }
    }
}
