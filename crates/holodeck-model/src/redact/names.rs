//! Recognises secrets by the name of a field, variable, header or query parameter.

/// Parts of names whose values are secrets.
const SECRET_PARTS: [&str; 11] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSW",
    "PASSPHRASE",
    "AUTH",
    "CREDENTIAL",
    "CONNECTION",
    "SIGNATURE",
    "COOKIE",
    "BEARER",
];

/// The same at the end of a word; inside a word they are parts of other words (`recordsNumber`, `desigN`).
const SECRET_ENDINGS: [&str; 3] = ["PWD", "DSN", "SIG"];

/// Parts of names that contain one of the parts above and mean something else.
const HARMLESS_PARTS: [&str; 8] = [
    "KEYWORD",
    "TOKENIZER",
    "MAXTOKENS",
    "BUDGETTOKENS",
    "CHUNKTOKENS",
    "AUTHPROVIDER",
    "CREDENTIALSENVPREFIX",
    "SSHAUTHSOCK",
];

/// Whole names that mean something else: folders of the shell, and a header about the network connection.
const HARMLESS_NAMES: [&str; 4] = ["PWD", "OLDPWD", "CONNECTION", "PROXYCONNECTION"];

/// Whether a name indicates that its value is a secret. Case and separators do not matter.
pub fn names_a_secret(name: &str) -> bool {
    let is_letter = |c: &char| c.is_ascii_alphanumeric();
    let mut joined: String = name.chars().filter(is_letter).collect();
    joined.make_ascii_uppercase();
    if HARMLESS_NAMES.contains(&joined.as_str()) {
        return false;
    }
    for harmless in HARMLESS_PARTS {
        if joined.contains(harmless) {
            joined = joined.replace(harmless, "");
        }
    }
    if joined.contains("AUTHOR") {
        joined = joined.replace("AUTHORIZ", "AUTH").replace("AUTHOR", "");
    }
    SECRET_PARTS.iter().any(|part| joined.contains(part)) || words_end_in_a_secret(name)
}

fn words_end_in_a_secret(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        SECRET_ENDINGS.iter().any(|ending| {
            let start = word.len().wrapping_sub(ending.len());
            word.get(start..)
                .is_some_and(|end| end.eq_ignore_ascii_case(ending))
        })
    })
}

/// The meaning of the names below a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// They are fields of the YAML.
    Fields,
    /// They are fields of `serve:`, which names the variables that hold its tokens.
    Serve,
    /// They are fields of `oauth:`. Whatever is not known not to be a secret is one.
    Login,
    /// They are settings of an external program: each may name a secret.
    Settings,
    /// They are test data: masked where they are shown, but their values are not masked elsewhere.
    Data,
    /// They name properties of a schema; their values are descriptions, not data.
    Schema,
}

/// The kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A secret.
    Secret,
    /// A mapping from names to values, each of which may be a secret.
    Variables,
    /// Arguments of a program.
    Arguments,
    /// Text for a model, masked as any other text so that changes in it stay visible.
    Prose,
    /// Anything else, with the meaning of the names in it.
    Plain(Names),
}

/// The role of the value of `key`, a key among `names`.
pub fn role(key: &str, names: Names) -> Role {
    if names == Names::Schema {
        return Role::Plain(names);
    }
    if names == Names::Login {
        return match key {
            "client_id" | "redirect_port" | "scopes" => Role::Plain(names),
            _ => Role::Secret,
        };
    }
    match key {
        "env" | "headers" | "environment" => return Role::Variables,
        "args" | "cli_args" => return Role::Arguments,
        "config" | "options" => return Role::Plain(Names::Settings),
        _ if names == Names::Settings => {}
        "serve" if names == Names::Fields => return Role::Plain(Names::Serve),
        "auth" | "tokens" | "token_env" if names == Names::Serve => return Role::Plain(names),
        "description" | "inline" | "prompt" | "template" => return Role::Prose,
        "parameters" | "properties" | "response_format" | "schema" => return Role::Plain(Names::Schema),
        "mock" | "expected_tools" | "forbidden_tools" | "ground_truth" | "input" | "context" => {
            return Role::Plain(Names::Data);
        }
        _ => {}
    }
    if names_a_secret(key) {
        Role::Secret
    } else {
        Role::Plain(names)
    }
}

/// The role of a value that is a mapping: `oauth` has fields, while anything else in its place may be a secret.
pub fn role_of_mapping(key: &str, names: Names) -> Role {
    match key {
        "oauth" if names == Names::Fields => Role::Plain(Names::Login),
        _ => role(key, names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_variables_with_tokens_are_no_secrets() {
        assert_eq!(role("serve", Names::Fields), Role::Plain(Names::Serve));
        for name in ["auth", "tokens", "token_env"] {
            assert_eq!(role(name, Names::Serve), Role::Plain(Names::Serve));
            assert_eq!(role(name, Names::Fields), Role::Secret);
        }
        assert_eq!(role("token", Names::Serve), Role::Secret);
    }

    #[test]
    fn a_field_of_a_login_is_a_secret_unless_it_is_known_not_to_be() {
        assert_eq!(role("oauth", Names::Fields), Role::Secret);
        for names in [Names::Serve, Names::Settings, Names::Login] {
            assert_eq!(role_of_mapping("oauth", names), Role::Secret, "{names:?}");
        }
        let names = Names::Login;
        assert_eq!(role_of_mapping("oauth", Names::Fields), Role::Plain(names));
        for name in ["client_id", "redirect_port", "scopes"] {
            assert_eq!(role(name, names), Role::Plain(names), "{name}");
        }
        for name in [
            "client_secret",
            "clientsecrt",
            "value",
            "env",
            "args",
            "input",
            "schema",
            "x",
        ] {
            assert_eq!(role(name, names), Role::Secret, "{name}");
        }
    }

    #[test]
    fn names_of_secrets_are_recognised_and_others_are_not() {
        for name in [
            "api_key",
            "api_keyy",
            "apikey",
            "X-Api-Key",
            "OPENAI_API_KEY",
            "accessToken",
            "password",
            "PGPASSWORD",
            "MYSQL_PWD",
            "SENTRY_DSN",
            "AZURE_CONNECTION",
            "connection_string",
            "Authorization",
            "authorizations",
            "sig",
            "X-Amz-Signature",
            "client-secret",
            "Cookie",
            "API_TOKENS",
            "AWS_CREDENTIALS",
        ] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in [
            "name",
            "max_tokens",
            "context_max_tokens",
            "budget_tokens",
            "keyword_index",
            "author",
            "auth_provider",
            "GIT_AUTHOR_NAME",
            "PWD",
            "OLDPWD",
            "Connection",
            "Content-Type",
            "recordsNumber",
            "config",
            "design",
            "SSH_AUTH_SOCK",
            "authority",
        ] {
            assert!(!names_a_secret(name), "{name}");
        }
    }
}
