//! Hides tokens of clients and secrets of agents in texts that leave the server. Tokens are known by their hashes only.

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::header;

use crate::{
    App,
    problem::{Problem, Result},
};

/// In the place of a secret.
pub(crate) const MASK: &str = "***";

impl App {
    /// Refuses what would be stored and listed with a secret in it.
    pub(crate) fn refuse_secret(&self, what: &str, text: &str) -> Result<()> {
        if self.masked(text) == text {
            return Ok(());
        }
        Err(Problem::invalid(format!(
            "{what} must not contain a token or another secret"
        )))
    }

    /// A text without the secrets of the agents, and without the tokens of clients that are the text or a word of it.
    pub(crate) fn masked(&self, text: &str) -> String {
        let access = &self.options().access;
        if access.is_token(text) {
            return MASK.to_owned();
        }
        let ends_word = |c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | ',');
        let tokens = text.split(ends_word).filter(|word| access.is_token(word));
        let shown = tokens.fold(text.to_owned(), |shown, token| shown.replace(token, MASK));
        self.agents()
            .fold(shown, |text, agent| agent.service.masked(&text))
    }
}

/// Masks errors: they repeat ids that clients name, and a client may have sent its token in the place of one.
pub(crate) async fn mask_problem(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>() else {
        return response;
    };
    if let Some(masked) = problem.masked(|text| app.masked(text)) {
        *response.body_mut() = Body::from(masked.body().to_string());
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.extensions_mut().insert(masked);
    }
    response
}
