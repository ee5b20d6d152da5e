//! Checks serving, deployment and observability.

use holodeck_model::{AllowedOrigin, Code, Diagnostic};
use regex::Regex;

use super::{Rules, View};

pub(super) fn check_operations(rules: &mut Rules<'_>, agent: &View) {
    if let Some(serve) = rules.child(agent, "serve") {
        check_serve(rules, &serve);
    }
    if let Some(events) = rules.child(agent, "events") {
        let store = rules.text(&events, "store").unwrap_or("sqlite");
        if store == "memory" {
            rules.warn_no_effect(
                &events,
                "retention_days",
                "conversations in memory end with the process",
            );
        }
        if store != "sqlite" {
            rules.warn_no_effect(&events, "path", "only `store: sqlite` has a file");
        }
        if store != "postgres" {
            rules.warn_no_effect(&events, "url_env", "only `store: postgres` has a URL");
        }
    }
    if let Some(deployment) = rules.child(agent, "deployment") {
        check_deployment(rules, &deployment);
    }
    if let Some(observability) = rules.child(agent, "observability") {
        check_observability(rules, &observability);
    }
}

fn check_serve(rules: &mut Rules<'_>, serve: &View) {
    if let Some(listen) = rules.text(serve, "listen") {
        let port = listen.rsplit_once(':').map(|(_, port)| port);
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            rules.report_inconsistent(serve, "listen", "the port of `listen` is above 65535", None);
        }
    }
    let mut has_any_page = false;
    for (node, origin) in rules.texts(serve, "cors_origins") {
        let why = match AllowedOrigin::parse(origin) {
            Ok(allowed) => {
                has_any_page |= allowed.is_any_page();
                continue;
            }
            Err(why) => why,
        };
        let message = format!("no page can match the origin `{origin}` of `cors_origins`");
        let diagnostic = Diagnostic::warning(Code::NoEffect, message)
            .about(serve.path.pointer(Some("cors_origins")))
            .with_help(why);
        rules.add(rules.tree.place(node), diagnostic);
    }
    let Some(auth) = rules.child(serve, "auth") else {
        return;
    };
    if rules.text(&auth, "mode") == Some("none") {
        for key in ["token_env", "tokens"] {
            if rules.has(&auth, key) {
                let message =
                    format!("`mode: none` of `serve.auth` asks for no token, and `{key}` names one");
                rules.report_inconsistent(&auth, key, message, Some("remove one of them"));
            }
        }
        if has_any_page {
            let message =
                "with the origin `*` or `null` and without a token, any web page could use the agent";
            rules.report_inconsistent(
                serve,
                "cors_origins",
                message,
                Some("name the origins, or use a token"),
            );
        }
    } else if rules.has(&auth, "token_env") && rules.has(&auth, "tokens") {
        rules.report_conflict(&auth, "token_env", "tokens");
    }
}

fn check_deployment(rules: &mut Rules<'_>, deployment: &View) {
    if let Some(registry) = rules.child(deployment, "registry")
        && rules.text(&registry, "tag_strategy") == Some("custom")
        && !rules.has(&registry, "custom_tag")
    {
        rules.report_missing(
            &registry,
            "custom_tag",
            ": `tag_strategy: custom` needs it",
            "the tag of the image",
        );
    }
    let Some(target) = rules.child(deployment, "target") else {
        return;
    };
    if let Some(provider) = rules.text(&target, "provider") {
        for cloud in ["aws", "gcp", "azure"] {
            if cloud == provider && !rules.has(&target, cloud) {
                rules.report_missing(
                    &target,
                    cloud,
                    &format!(": provider `{provider}` needs it"),
                    "the settings of that cloud",
                );
            } else if cloud != provider && rules.entry(&target, cloud).is_some() {
                let message = format!("`{cloud}` does not belong to provider `{provider}`");
                let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
                    .about(target.path.pointer(Some(cloud)));
                let place = rules.key_place(&target, cloud);
                rules.add(place, diagnostic);
            }
        }
    }
    if let Some(aws) = rules.child(&target, "aws") {
        let least = rules.number(&aws, "auto_scaling_min").unwrap_or(1.0);
        let most = rules.number(&aws, "auto_scaling_max").unwrap_or(5.0);
        if least > most {
            let key = if rules.has(&aws, "auto_scaling_min") {
                "auto_scaling_min"
            } else {
                "auto_scaling_max"
            };
            let message = format!("`auto_scaling_min` {least} is more than `auto_scaling_max` {most}");
            rules.report_inconsistent(&aws, key, message, None);
        }
    }
}

fn check_observability(rules: &mut Rules<'_>, observability: &View) {
    if let Some(traces) = rules.child(observability, "traces") {
        for (node, pattern) in rules.texts(&traces, "redaction_patterns") {
            if let Err(error) = Regex::new(pattern) {
                let reason = error.to_string();
                let reason = reason
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                let message =
                    format!("`redaction_patterns` contains an invalid regular expression: {reason}");
                let diagnostic = Diagnostic::error(Code::BadPattern, message)
                    .about(traces.path.pointer(Some("redaction_patterns")));
                let place = rules.tree.place(node);
                rules.add(place, diagnostic);
            }
        }
        let queue = rules.number(&traces, "max_queue_size").unwrap_or(2048.0);
        let batch = rules.number(&traces, "max_export_batch_size").unwrap_or(512.0);
        if batch > queue {
            let key = if rules.has(&traces, "max_export_batch_size") {
                "max_export_batch_size"
            } else {
                "max_queue_size"
            };
            let message = format!("`max_export_batch_size` {batch} is more than `max_queue_size` {queue}");
            rules.report_inconsistent(&traces, key, message, None);
        }
    }
    if let Some(exporters) = rules.child(observability, "exporters")
        && let Some(azure) = rules.child(&exporters, "azure_monitor")
        && rules.flag(&azure, "enabled") == Some(true)
        && !rules.has(&azure, "connection_string")
    {
        rules.report_missing(
            &azure,
            "connection_string",
            ": it is enabled",
            "where telemetry is sent",
        );
    }
}
