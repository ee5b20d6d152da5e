//! Vectors in the response formats of servers.

use serde::Deserialize;
use serde_json::Value;

/// OpenAI's format.
#[derive(Debug, Deserialize)]
pub(super) struct OpenAiAnswer {
    data: Vec<OpenAiVector>,
    /// Not every server has it, and in a form of its own it says nothing.
    #[serde(default)]
    usage: Value,
}

#[derive(Debug, Deserialize)]
struct OpenAiVector {
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Ollama's format.
#[derive(Debug, Deserialize)]
pub(super) struct OllamaAnswer {
    embeddings: Vec<Vec<f32>>,
    #[serde(default)]
    prompt_eval_count: Value,
}

impl OpenAiAnswer {
    /// The tokens of the texts.
    pub(super) fn tokens(&self) -> Option<u64> {
        let count = |name: &str| self.usage.get(name)?.as_u64();
        count("prompt_tokens").or_else(|| count("total_tokens"))
    }

    /// The vectors in the order of the texts.
    pub(super) fn vectors(self) -> Result<Vec<Vec<f32>>, String> {
        let count = self.data.len();
        let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
        for (position, vector) in self.data.into_iter().enumerate() {
            let index = vector.index.unwrap_or(position);
            match vectors.get_mut(index) {
                Some(place @ None) => *place = Some(vector.embedding),
                Some(_) => return Err(format!("two vectors for text {}", index + 1)),
                None => return Err(format!("a vector for text {} of only {count}", index + 1)),
            }
        }
        // There are as many vectors as positions and no position occurs twice, so none is empty.
        Ok(vectors.into_iter().flatten().collect())
    }
}

impl OllamaAnswer {
    /// The tokens of the texts.
    pub(super) fn tokens(&self) -> Option<u64> {
        self.prompt_eval_count.as_u64()
    }

    /// The vectors in the order of the texts.
    pub(super) fn vectors(self) -> Vec<Vec<f32>> {
        self.embeddings
    }
}

/// Checks that these are vectors of `texts` texts and returns their common length.
pub(super) fn check(vectors: &mut [Vec<f32>], texts: usize, wanted: Option<usize>) -> Result<usize, String> {
    if vectors.len() != texts {
        return Err(format!("{} vectors for {texts} texts", vectors.len()));
    }
    let length = wanted.or(vectors.first().map(Vec::len)).unwrap_or_default();
    for vector in &mut *vectors {
        if vector.is_empty() || vector.len() != length {
            return Err(format!(
                "a vector of {} dimensions instead of {length}",
                vector.len()
            ));
        }
        if vector.iter().any(|number| !number.is_finite()) {
            return Err("a vector with a value that is not a finite number".to_owned());
        }
        if !super::hash::normalise(vector) {
            return Err("a vector of zeros".to_owned());
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_no_vector() {
        for number in [f32::NAN, f32::INFINITY] {
            let error = check(&mut [vec![1.0, number]], 1, None).unwrap_err();
            assert_eq!(error, "a vector with a value that is not a finite number");
        }
        let mut vectors = [vec![3.0, 4.0]];
        assert_eq!(check(&mut vectors, 1, Some(2)), Ok(2));
        assert_eq!(vectors, [vec![0.6, 0.8]]);
    }
}
