//! The tables of foreign names. An earlier row wins.

use super::{ForeignField, ForeignMetric, ForeignProvider, ForeignTool};

/// Fields of the agent file, of models, cases, expected tools and metrics.
pub(crate) const FIELDS: &[ForeignField] = &[
    // The agent file.
    ForeignField {
        theirs: &[
            "systemprompt",
            "system",
            "systemmessage",
            "prompt",
            "persona",
            "role",
        ],
        beside: "test_cases",
        ours: "instructions",
        line: "instructions: {inline: \"…\"}",
    },
    ForeignField {
        theirs: &[
            "llm",
            "chatmodel",
            "modelconfig",
            "provider",
            "providers",
            "models",
        ],
        beside: "test_cases",
        ours: "model",
        line: "model: {provider: openai, name: gpt-4o}",
    },
    ForeignField {
        theirs: &[
            "tests",
            "testsuite",
            "dataset",
            "cases",
            "examples",
            "scenarios",
            "goldens",
            "conversations",
            "questions",
        ],
        beside: "test_cases",
        ours: "test_cases",
        line: "test_cases: [{input: \"…\", ground_truth: \"…\"}]",
    },
    ForeignField {
        theirs: &["messages", "history"],
        beside: "test_cases",
        ours: "test_cases",
        line: "test_cases: [{messages: [{role: user, content: \"…\"}, {role: assistant, content: \"…\"}], input: \"…\"}]",
    },
    ForeignField {
        theirs: &["mcpservers"],
        beside: "test_cases",
        ours: "tools",
        line: "tools: [{type: mcp, name: files, description: Reads files, command: npx, args: [\"…\"]}]",
    },
    ForeignField {
        theirs: &[
            "functions",
            "functiondefinitions",
            "toolset",
            "toolsets",
            "plugins",
            "actions",
        ],
        beside: "test_cases",
        ours: "tools",
        line: "tools: [{type: function, name: stock, description: Counts items, file: tools.py, function: stock}]",
    },
    ForeignField {
        theirs: &[
            "assert",
            "asserts",
            "assertions",
            "metrics",
            "evals",
            "evaluators",
            "scorers",
            "defaulttest",
        ],
        beside: "test_cases",
        ours: "evaluations",
        line: "evaluations: {metrics: [{type: standard, metric: contains, value: \"…\"}]}",
    },
    // Models.
    ForeignField {
        theirs: &[
            "baseurl", "apibase", "baseuri", "apiurl", "apihost", "url", "host", "server",
        ],
        beside: "provider",
        ours: "endpoint",
        line: "endpoint: https://…/v1",
    },
    ForeignField {
        theirs: &[
            "model",
            "modelname",
            "modelid",
            "id",
            "deployment",
            "deploymentid",
            "deploymentname",
            "engine",
        ],
        beside: "provider",
        ours: "name",
        line: "name: gpt-4o",
    },
    ForeignField {
        theirs: &["type", "vendor", "platform"],
        beside: "provider",
        ours: "provider",
        line: "provider: openai",
    },
    ForeignField {
        theirs: &["apikeyenvar", "apikeyenv", "key", "token", "apitoken"],
        beside: "provider",
        ours: "api_key",
        line: "api_key: ${OPENAI_API_KEY}",
    },
    ForeignField {
        theirs: &[
            "maxcompletiontokens",
            "maxoutputtokens",
            "maxnewtokens",
            "numpredict",
        ],
        beside: "provider",
        ours: "max_tokens",
        line: "max_tokens: 500",
    },
    // Tools.
    ForeignField {
        theirs: &[
            "inputschema",
            "schema",
            "jsonschema",
            "argsschema",
            "parametersschema",
            "arguments",
            "inputs",
        ],
        beside: "side_effects",
        ours: "parameters",
        line: "parameters: {city: {type: string}}",
    },
    // Expected calls of tools.
    ForeignField {
        theirs: &[
            "arguments",
            "params",
            "parameters",
            "input",
            "inputs",
            "inputparameters",
            "kwargs",
        ],
        beside: "count",
        ours: "args",
        line: "args: {city: Oslo}",
    },
    // Cases and turns.
    ForeignField {
        theirs: &[
            "expected",
            "expectedoutput",
            "expectedanswer",
            "expectedresponse",
            "expectedvalue",
            "reference",
            "referenceanswer",
            "referenceoutput",
            "answer",
            "correctanswer",
            "ideal",
            "gold",
            "golden",
            "label",
            "output",
            "completion",
        ],
        beside: "ground_truth",
        ours: "ground_truth",
        line: "ground_truth: \"…\"",
    },
    ForeignField {
        theirs: &[
            "question",
            "query",
            "prompt",
            "userinput",
            "usermessage",
            "userquery",
            "message",
            "utterance",
            "text",
        ],
        beside: "ground_truth",
        ours: "input",
        line: "input: \"…\"",
    },
    ForeignField {
        theirs: &[
            "assert",
            "asserts",
            "assertion",
            "assertions",
            "metrics",
            "checks",
            "evals",
            "evaluators",
            "scorers",
        ],
        beside: "ground_truth",
        ours: "evaluations",
        line: "evaluations: [{metric: contains, value: \"…\"}]",
    },
    ForeignField {
        theirs: &["contains", "icontains", "equals", "regex", "matches"],
        beside: "ground_truth",
        ours: "evaluations",
        line: "evaluations: [{metric: contains, value: \"…\"}]",
    },
    ForeignField {
        theirs: &[
            "context",
            "contexts",
            "retrievedcontexts",
            "retrievedcontext",
            "documents",
            "passages",
        ],
        beside: "ground_truth",
        ours: "retrieval_context",
        line: "retrieval_context: [\"…\"]",
    },
    ForeignField {
        theirs: &[
            "toolcalls",
            "expectedtoolcalls",
            "expectedcalls",
            "tools",
            "toolscalled",
        ],
        beside: "ground_truth",
        ours: "expected_tools",
        line: "expected_tools: [{name: stock, args: {sku: A-1}}]",
    },
    ForeignField {
        theirs: &["history", "chathistory", "conversation", "previousmessages"],
        beside: "messages",
        ours: "messages",
        line: "messages: [{role: user, content: \"…\"}, {role: assistant, content: \"…\"}]",
    },
    ForeignField {
        theirs: &["variables", "parameters"],
        beside: "vars",
        ours: "vars",
        line: "vars: {city: Oslo}",
    },
    ForeignField {
        theirs: &["description", "id", "title", "testname", "caseid"],
        beside: "ground_truth",
        ours: "name",
        line: "name: \"…\"",
    },
    ForeignField {
        theirs: &["threshold", "passthreshold", "scorethreshold"],
        beside: "min_score",
        ours: "min_score",
        line: "min_score: 0.8",
    },
    ForeignField {
        theirs: &["repeat", "repeats", "runs", "repetitions", "numruns"],
        beside: "trials",
        ours: "trials",
        line: "trials: 3",
    },
    // Metrics.
    ForeignField {
        theirs: &["criterion", "prompt", "instruction", "instructions"],
        beside: "criteria",
        ours: "criteria",
        line: "criteria: The answer is polite.",
    },
    ForeignField {
        theirs: &[
            "minscore",
            "passthreshold",
            "scorethreshold",
            "passingscore",
            "minimumscore",
        ],
        beside: "threshold",
        ours: "threshold",
        line: "threshold: 0.8",
    },
    ForeignField {
        theirs: &[
            "pattern",
            "expected",
            "text",
            "substring",
            "reference",
            "expectedoutput",
            "values",
        ],
        beside: "max_distance",
        ours: "value",
        line: "value: \"…\"",
    },
];

/// Kinds of metrics that have another name here, or another form.
pub(crate) const METRICS: &[ForeignMetric] = &[
    ForeignMetric {
        theirs: &[
            "llmrubric",
            "modelgradedclosedqa",
            "modelgradedfactuality",
            "factuality",
            "llmasjudge",
            "llmjudge",
            "llm",
            "gradingrubric",
            "aicriteria",
            "agentrubric",
        ],
        line: "{type: geval, name: polite, criteria: The answer is polite.}",
    },
    ForeignMetric {
        theirs: &["contextfaithfulness", "faithfulnessmetric", "hallucination"],
        line: "{type: rag, metric_type: faithfulness}",
    },
    ForeignMetric {
        theirs: &[
            "contextrelevance",
            "contextualrelevancymetric",
            "contextrelevancy",
        ],
        line: "{type: rag, metric_type: contextual_relevancy}",
    },
    ForeignMetric {
        theirs: &["contextrecall", "contextualrecallmetric"],
        line: "{type: rag, metric_type: contextual_recall}",
    },
    ForeignMetric {
        theirs: &["contextprecision", "contextualprecisionmetric"],
        line: "{type: rag, metric_type: contextual_precision}",
    },
    ForeignMetric {
        theirs: &["answerrelevance", "answerrelevancymetric"],
        line: "{type: rag, metric_type: answer_relevancy}",
    },
    ForeignMetric {
        theirs: &[
            "javascript",
            "python",
            "ruby",
            "webhook",
            "function",
            "custom",
            "script",
        ],
        line: "{type: code, grader: \"graders:check\"}",
    },
    ForeignMetric {
        theirs: &["isjson", "json", "validjson"],
        line: "{type: standard, metric: json_valid}",
    },
    ForeignMetric {
        theirs: &["equals", "equal", "exact"],
        line: "{type: standard, metric: equality}",
    },
    ForeignMetric {
        theirs: &["rougen", "rougel"],
        line: "{type: standard, metric: rouge, threshold: 0.5}",
    },
    ForeignMetric {
        theirs: &[
            "similarity",
            "semanticsimilarity",
            "cosine",
            "embeddingsimilarity",
            "semantic",
        ],
        line: "{type: standard, metric: similar, threshold: 0.8, embedder: {provider: openai, name: text-embedding-3-small}}",
    },
    ForeignMetric {
        theirs: &["icontainsany", "icontainsall"],
        line: "{type: standard, metric: contains_any, value: [\"…\"], case_insensitive: true}",
    },
    ForeignMetric {
        theirs: &["matches", "match", "regexp"],
        line: "{type: standard, metric: regex, value: \"…\"}",
    },
];

/// Services that are reached as `openai` with an `endpoint`, and two that have another name here.
pub(crate) const PROVIDERS: &[ForeignProvider] = &[
    ForeignProvider {
        theirs: &["azure", "azureopenaichat", "azureai"],
        provider: "azure_openai",
        endpoint: "",
    },
    ForeignProvider {
        theirs: &["claude", "claudecode", "anthropicclaude"],
        provider: "anthropic",
        endpoint: "",
    },
    ForeignProvider {
        theirs: &[
            "gpt",
            "chatgpt",
            "openaichat",
            "openaicompatible",
            "custom",
            "litellm",
            "local",
            "localai",
        ],
        provider: "openai",
        endpoint: "http://localhost:4000/v1",
    },
    ForeignProvider {
        theirs: &["groq"],
        provider: "openai",
        endpoint: "https://api.groq.com/openai/v1",
    },
    ForeignProvider {
        theirs: &["together", "togetherai"],
        provider: "openai",
        endpoint: "https://api.together.xyz/v1",
    },
    ForeignProvider {
        theirs: &["mistral", "mistralai"],
        provider: "openai",
        endpoint: "https://api.mistral.ai/v1",
    },
    ForeignProvider {
        theirs: &["deepseek"],
        provider: "openai",
        endpoint: "https://api.deepseek.com/v1",
    },
    ForeignProvider {
        theirs: &["openrouter"],
        provider: "openai",
        endpoint: "https://openrouter.ai/api/v1",
    },
    ForeignProvider {
        theirs: &["xai", "grok"],
        provider: "openai",
        endpoint: "https://api.x.ai/v1",
    },
    ForeignProvider {
        theirs: &["fireworks", "fireworksai"],
        provider: "openai",
        endpoint: "https://api.fireworks.ai/inference/v1",
    },
    ForeignProvider {
        theirs: &["gemini", "google", "googlegenai", "googleaistudio"],
        provider: "openai",
        endpoint: "https://generativelanguage.googleapis.com/v1beta/openai",
    },
    ForeignProvider {
        theirs: &["vllm", "sglang", "tgi"],
        provider: "openai",
        endpoint: "http://localhost:8000/v1",
    },
    ForeignProvider {
        theirs: &["lmstudio"],
        provider: "openai",
        endpoint: "http://localhost:1234/v1",
    },
    ForeignProvider {
        theirs: &["llamacpp", "llamaserver"],
        provider: "openai",
        endpoint: "http://localhost:8080/v1",
    },
    ForeignProvider {
        theirs: &[
            "bedrock",
            "awsbedrock",
            "vertex",
            "vertexai",
            "cohere",
            "huggingface",
            "perplexity",
            "cerebras",
            "databricks",
            "watsonx",
            "replicate",
            "cloudflare",
            "ai21",
            "nvidia",
            "github",
        ],
        provider: "openai",
        endpoint: "https://…/v1",
    },
];

/// Kinds of tools as other tools call them.
pub(crate) const TOOLS: &[ForeignTool] = &[
    ForeignTool {
        theirs: &[
            "python", "code", "script", "shell", "bash", "command", "program", "tool", "custom",
        ],
        line: "{type: function, name: stock, description: Counts items, file: tools.py, function: stock}",
        fields: &["file", "function", "command"],
    },
    ForeignTool {
        theirs: &[
            "rag",
            "search",
            "retrieval",
            "retriever",
            "filesearch",
            "knowledge",
            "knowledgebase",
            "vector",
            "vectordb",
            "documents",
        ],
        line: "{type: vectorstore, name: handbook, description: Searches the handbook, source: docs}",
        fields: &["source"],
    },
    ForeignTool {
        theirs: &["mcpserver", "server", "remote", "stdio", "sse", "http"],
        line: "{type: mcp, name: files, description: Reads files, command: npx, args: [\"…\"]}",
        fields: &["command", "url"],
    },
    ForeignTool {
        theirs: &["llm", "model", "agent", "template", "subagent"],
        line: "{type: prompt, name: summary, description: Sums up a text, template: \"Sum up: {{ text }}\", parameters: {text: {type: string}}}",
        fields: &["template"],
    },
];
