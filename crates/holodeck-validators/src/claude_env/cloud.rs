//! Detects whether this machine belongs to a cloud whose identity may authenticate it.

use holodeck_model::Env;

/// The cloud of this machine, where a machine identity may authenticate without any environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cloud {
    Amazon,
    Google,
    Azure,
    Unknown,
}

impl Cloud {
    pub(super) fn of_this_machine(env: &Env) -> Self {
        let vendor = std::fs::read_to_string("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
        Self::of(vendor.trim(), env)
    }

    fn of(vendor: &str, env: &Env) -> Self {
        if env.non_blank("K_SERVICE").is_some() {
            return Self::Google;
        }
        match vendor {
            "Amazon EC2" => Self::Amazon,
            "Google" => Self::Google,
            "Microsoft Corporation" => Self::Azure,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_recognized_by_vendor_and_cloud_run_by_its_variable() {
        assert_eq!(Cloud::of("Amazon EC2", &Env::empty()), Cloud::Amazon);
        assert_eq!(Cloud::of("Google", &Env::empty()), Cloud::Google);
        assert_eq!(Cloud::of("Microsoft Corporation", &Env::empty()), Cloud::Azure);
        assert_eq!(Cloud::of("LENOVO", &Env::empty()), Cloud::Unknown);
        assert_eq!(
            Cloud::of("", &[("K_SERVICE", "x")].into_iter().collect()),
            Cloud::Google
        );
    }
}
