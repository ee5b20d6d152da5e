//! Embeddings in the formats of OpenAI and Ollama, computed from the words of a text: equal texts have equal vectors,
//! and texts with common words are near.

use serde_json::{Value, json};

use crate::{Reply, loopback::Log, received::ReceivedRequest};

/// The length of the vectors unless the request asks for another.
const DIMENSIONS: usize = 64;

/// Answers a request for embeddings; `None` for any other.
pub(super) fn answer(request: &ReceivedRequest, log: &Log) -> Option<Reply> {
    let ollama = request.route().ends_with("/api/embed");
    if !ollama && !request.route().ends_with("/embeddings") {
        return None;
    }
    let violations = violations(request);
    for violation in &violations {
        log.add_violation(format!("embeddings: {violation}"));
    }
    if !violations.is_empty() {
        return Some(Reply::openai_error(400, &violations.join("; "), None, None));
    }
    let length = request.body["dimensions"].as_u64();
    let length = length
        .and_then(|length| usize::try_from(length).ok())
        .unwrap_or(DIMENSIONS);
    let vectors: Vec<Vec<f64>> = texts(&request.body)
        .iter()
        .map(|text| vector(text, length))
        .collect();
    let body = if ollama {
        json!({"model": request.body["model"], "embeddings": vectors})
    } else {
        let data: Vec<Value> = vectors
            .iter()
            .enumerate()
            .map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}))
            .collect();
        json!({
            "object": "list",
            "data": data,
            "model": request.body["model"],
            "usage": {"prompt_tokens": vectors.len(), "total_tokens": vectors.len()},
        })
    };
    Some(Reply::raw(200, "application/json", body.to_string()))
}

fn violations(request: &ReceivedRequest) -> Vec<String> {
    let mut found = Vec::new();
    if request.method != "POST" {
        found.push(format!("method {} instead of POST", request.method));
    }
    if request.body["model"].as_str().is_none_or(str::is_empty) {
        found.push("`model` is missing".to_owned());
    }
    let input = &request.body["input"];
    let list = input.as_array().map(Vec::as_slice);
    match list {
        Some([]) => found.push("`input` is empty".to_owned()),
        Some(list) if list.len() > 2048 => found.push("`input` has more than 2048 texts".to_owned()),
        Some(list) if !list.iter().all(Value::is_string) => {
            found.push("`input` has something that is no text".to_owned());
        }
        Some(_) => {}
        None if input.is_string() => {}
        None => found.push("`input` is neither a text nor a list".to_owned()),
    }
    if texts(&request.body).iter().any(|text| text.is_empty()) {
        found.push("`input` has an empty text".to_owned());
    }
    found
}

fn texts(body: &Value) -> Vec<&str> {
    match &body["input"] {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        Value::String(text) => vec![text],
        _ => Vec::new(),
    }
}

/// Hashed words; not normalised, because servers differ in that.
fn vector(text: &str, length: usize) -> Vec<f64> {
    let mut vector = vec![0.0; length];
    let words = text.split(|c: char| !c.is_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        let hash = word
            .to_lowercase()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let place = usize::try_from((hash >> 20) % length.max(1) as u64).unwrap_or_default();
        vector[place] += 1.0;
    }
    if vector.iter().all(|number| *number == 0.0) {
        vector[0] = 1.0;
    }
    vector
}
