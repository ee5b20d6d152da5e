//! Tests of the exporter that writes JSON to the console.

use std::{
    io::{self, Write},
    sync::Mutex,
};

use holodeck_otel_bridge::{Telemetry, TelemetryOptions};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    agent::{Scripted, agent, export_all, options, with_a_tool, wrap},
    spans::run,
};

static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_gets_json_when_no_exporter_is_named_or_it_is() {
    let options = TelemetryOptions {
        console: || Box::new(Writer),
        ..options()
    };
    let plain = json!({"enabled": true, "exporters": {"console": {"pretty_print": false, "include_timestamps": false}}});
    for (observability, pretty) in [(plain, false), (json!({"enabled": true}), true)] {
        let telemetry = Telemetry::start(&agent("openai", &observability), &options);
        let backend = wrap(&telemetry, Scripted::backend([with_a_tool()]));
        run(&backend).await;
        export_all(&telemetry).await;
        let text = String::from_utf8(std::mem::take(&mut *WRITTEN.lock().unwrap())).unwrap();
        let records: Vec<Value> = serde_json::Deserializer::from_str(&text)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(text.lines().count() > records.len(), pretty);
        let named =
            |key: &str| -> Vec<&str> { records.iter().filter_map(|record| record[key].as_str()).collect() };
        let mut spans = named("span");
        spans.sort_unstable();
        assert_eq!(
            spans,
            [
                "chat m-1",
                "chat m-1",
                "execute_tool search",
                "holodeck test",
                "invoke_agent helper"
            ]
        );
        assert!(named("metric").contains(&"gen_ai.client.token.usage"));
        assert_eq!(named("start").is_empty(), !pretty);
        assert!(!text.contains("PRIVATE"));
    }
}
