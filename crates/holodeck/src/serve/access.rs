//! Who may use a server: the tokens that its configuration names, and what is refused without one.

use std::net::SocketAddr;

use holodeck_model::{AllowedOrigin, AuthMode, Env, Location, ServeAuth, ServeConfig, env};
use holodeck_serve::{Access, Token};
use secrecy::{ExposeSecret as _, SecretString};

use super::{ServeError, ServeFlags, config_error};

/// Characters of a token: shorter ones can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// The clients that may use a server at this address.
pub(super) fn access(
    config: &ServeConfig,
    env: &Env,
    address: SocketAddr,
    cors_origins: &[AllowedOrigin],
    place: &dyn Fn(&str) -> Option<Location>,
) -> Result<Access, ServeError> {
    let mut tokens = ClientTokens {
        env,
        place,
        known: Vec::new(),
    };
    let is_set = env.get(env::HOLODECK_TOKEN).is_some();
    match &config.auth {
        None if is_set => tokens.add("default", env::HOLODECK_TOKEN, "")?,
        None => {}
        Some(auth) if auth.mode == AuthMode::None => {}
        Some(auth) => {
            tokens.check_names(auth)?;
            for (at, (user, variable)) in auth.token_variables().enumerate() {
                let pointer = match &auth.token_env {
                    Some(_) => "serve.auth.token_env".to_owned(),
                    None => format!("serve.auth.tokens.{at}.token_env"),
                };
                tokens.add(user, variable, &pointer)?;
            }
            if tokens.known.is_empty() {
                tokens.add("default", env::HOLODECK_TOKEN, "serve.auth")?;
            }
        }
    }
    let known = tokens.known.into_iter();
    let tokens: Vec<Token> = known.map(|known| Token::new(known.user, &known.token)).collect();
    let access = if tokens.is_empty() {
        Access::Open
    } else {
        Access::Tokens(tokens)
    };
    if matches!(access, Access::Open) {
        if !address.ip().is_loopback() {
            let message = format!("{address} can be reached from other machines, and no token is set");
            let hint =
                "set HOLODECK_TOKEN, or `serve.auth` in the YAML; without a token, listen on 127.0.0.1";
            return Err(config_error(message, hint));
        }
        if cors_origins.iter().any(AllowedOrigin::is_any_page) {
            let message =
                "with the origin `*` or `null` and without a token, any web page could use the agent";
            return Err(config_error(message, "name the origins, or set HOLODECK_TOKEN"));
        }
    }
    Ok(access)
}

/// The origins of the YAML, whose check has warned about those that no page can match, and of the command line.
pub(super) fn allowed_origins(
    config: &ServeConfig,
    flags: &ServeFlags,
) -> Result<Vec<AllowedOrigin>, ServeError> {
    let configured = config.cors_origins.iter();
    let configured = configured.filter_map(|origin| AllowedOrigin::parse(origin).ok());
    let named = flags.cors_origins.iter().map(|origin| {
        AllowedOrigin::parse(origin).map_err(|why| {
            let message = format!("no page can match the origin `{origin}` of `--cors-origins`");
            config_error(message, why)
        })
    });
    configured.map(Ok).chain(named).collect()
}

/// The tokens of clients, checked one by one.
struct ClientTokens<'a> {
    env: &'a Env,
    place: &'a dyn Fn(&str) -> Option<Location>,
    known: Vec<ClientToken>,
}

/// The token of a user, and the variable that holds it.
struct ClientToken {
    user: String,
    variable: String,
    token: SecretString,
}

impl ClientTokens<'_> {
    /// Refuses the name of a user with a token in it: the log and stored conversations show names. Comes before everything
    /// that shows one.
    fn check_names(&self, auth: &ServeAuth) -> Result<(), ServeError> {
        let variables = auth.token_variables().map(|(_, variable)| variable);
        let variables: Vec<&str> = variables.chain([env::HOLODECK_TOKEN]).collect();
        for (at, user) in auth.tokens.iter().map(|token| &token.user).enumerate() {
            let holds = |token: &str| {
                let is_long = token.chars().count() >= SHORTEST_TOKEN;
                user.trim() == token || is_long && user.contains(token)
            };
            let found = variables
                .iter()
                .find(|variable| self.token(variable).is_some_and(holds));
            if let Some(variable) = found {
                let pointer = format!("serve.auth.tokens.{at}.user");
                let message = format!("the name in `{pointer}` has the token of `{variable}` in it");
                let hint =
                    "a name is shown in the log and in conversations: choose another one, and another token";
                return Err(self.refused(&pointer, &message, hint));
            }
        }
        Ok(())
    }

    /// The token in a variable.
    fn token(&self, variable: &str) -> Option<&str> {
        let token = self.env.get(variable).map(str::trim);
        token.filter(|token| !token.is_empty())
    }

    fn refused(&self, pointer: &str, message: &str, hint: &str) -> ServeError {
        let place = (self.place)(pointer).map_or_else(String::new, |place| format!("{place}: "));
        config_error(format!("{place}{message}"), hint)
    }

    fn add(&mut self, user: &str, variable: &str, pointer: &str) -> Result<(), ServeError> {
        const HINT: &str = "set it, for instance to the output of `openssl rand -hex 32`";
        let refused = |message: String, hint: &str| self.refused(pointer, &message, hint);
        let Some(token) = self.token(variable) else {
            let message = format!("the variable `{variable}` has no token for the user `{user}`");
            return Err(refused(message, HINT));
        };
        let length = token.chars().count();
        if length < SHORTEST_TOKEN {
            let message = format!(
                "the token of the user `{user}` in `{variable}` has {length} characters: it must have {SHORTEST_TOKEN} or more"
            );
            return Err(refused(message, HINT));
        }
        let is_same = |known: &&ClientToken| known.token.expose_secret() == token;
        if let Some(other) = self.known.iter().find(is_same) {
            let message = format!(
                "the users `{}` and `{user}` have the same token, in `{}` and `{variable}`",
                other.user, other.variable
            );
            return Err(refused(message, "a token names its user: give each token once"));
        }
        self.known.push(ClientToken {
            user: user.to_owned(),
            variable: variable.to_owned(),
            token: SecretString::from(token),
        });
        Ok(())
    }
}
