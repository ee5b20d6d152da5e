/// A key that stands in the YAML itself is not copied into a log. As long as before, so that places stay right.
pub(super) fn mask_secrets(text: &str) -> String {
    const SECRET: [&str; 5] = ["api_key", "password", "secret", "token", "connection_string"];
    let mut masked = String::with_capacity(text.len());
    // Where the key stands whose value goes on in the next lines.
    let mut secret_at = None;
    for line in text.split_inclusive('\n') {
        let rest = line.trim_start_matches([' ', '-']);
        let indent = line.len() - rest.len();
        if secret_at.is_some_and(|at| indent > at) {
            mask(line, &mut masked);
            continue;
        }
        let (key, value) = rest.split_once(':').unwrap_or((rest, ""));
        let is_secret = SECRET.contains(&key.trim_matches(['"', '\'', ' ']));
        let is_variable = value
            .trim_start()
            .trim_start_matches(['"', '\''])
            .starts_with("${");
        secret_at = (is_secret && !is_variable).then_some(indent);
        if secret_at.is_some() {
            let (head, value) = line.split_at(line.len() - value.len());
            masked.push_str(head);
            mask(value, &mut masked);
        } else {
            masked.push_str(line);
        }
    }
    masked
}

fn mask(text: &str, masked: &mut String) {
    for c in text.chars() {
        if c.is_whitespace() || matches!(c, '"' | '\'' | '-') {
            masked.push(c);
        } else {
            masked.extend(std::iter::repeat_n('*', c.len_utf8()));
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::mask_secrets;

    #[test]
    fn values_of_secrets_go_and_lengths_stay() {
        assert_eq!(mask_secrets("  api_key: ${KEY}\n"), "  api_key: ${KEY}\n");
        assert_eq!(mask_secrets("- password: 'pä'\r\n"), "- password: '***'\r\n");
        assert_eq!(
            mask_secrets("  api_key:\n    - sk\n  name: x\n"),
            "  api_key:\n    - **\n  name: x\n"
        );
    }
}
