//! Tests of reading records from tables and JSON: ids, fields, paths, and errors with their places.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn options(id: &str, text: &[&str], meta: &[&str]) -> RecordOptions {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    RecordOptions {
        id_field: id.to_owned(),
        vector_fields: owned(text),
        meta_fields: owned(meta),
        field_separator: "\n".to_owned(),
        ..RecordOptions::default()
    }
}

/// Each record as `id: text metadata`, or the error, and the notices.
fn shown(format: Format, content: &str, options: &RecordOptions) -> String {
    match read_records("data/file", format, content.as_bytes(), options) {
        Ok(read) => {
            let records = read.records.iter().map(|record| {
                let metadata = Value::Object(record.metadata.clone());
                format!("{}: {} {metadata}", record.id, record.text.replace('\n', "⏎"))
            });
            let notes = read.notes.iter().map(|note| format!("note: {note}"));
            records.chain(notes).collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_table_has_a_record_per_row() {
    let content = "id;name;text\n1;Bolt;\"A bolt;\nM6\"\n2;Nut;A nut\n3;Air;\n";
    insta::assert_snapshot!(shown(
        Format::Csv,
        content,
        &options("id", &["name", "text"], &["name"])
    ));
    insta::assert_snapshot!(shown(Format::Csv, content, &options("id", &["text"], &[])));
}

#[test]
fn the_delimiter_is_configurable() {
    let content = "id|text\n1|a, b\n";
    let with_delimiter = |delimiter: &str| RecordOptions {
        delimiter: Some(delimiter.to_owned()),
        ..options("id", &["text"], &[])
    };
    assert_eq!(shown(Format::Csv, content, &with_delimiter("|")), "1: a, b {}");
    assert_eq!(
        shown(Format::Csv, &content.replace('|', "\t"), &with_delimiter("\\t")),
        "1: a, b {}"
    );
    insta::assert_snapshot!(shown(Format::Csv, content, &with_delimiter("||")));
    insta::assert_snapshot!(shown(Format::Csv, content, &with_delimiter(",")));
}

#[test]
fn errors_of_a_table_have_a_place() {
    let all = options("id", &["text"], &["year"]);
    let mistakes = [
        "id,text\n1,a\n",
        "key,text,year\n1,a,2\n",
        "id,text,year\n1,a,2\n,b,3\n",
        "id,text,year\n1,\"a\na\",2\n1,b,3\n",
        "id,text,year\n1,a,2\n2,b\n",
    ];
    let errors: Vec<String> = mistakes
        .iter()
        .map(|content| shown(Format::Csv, content, &all))
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_list_of_objects_has_a_record_each() {
    let content = json!([
        {"id": 1, "info": {"title": "One", "tags": ["a", "b"]}, "year": 2020},
        {"id": "two", "info": {"title": "Two", "tags": []}, "info.title": "dotted"},
        {"id": 3, "info": {"title": null, "tags": null}},
    ]);
    let wanted = options("id", &["info.title", "info.tags"], &["year", "info"]);
    insta::assert_snapshot!(shown(Format::Json, &content.to_string(), &wanted));
    let lines: Vec<String> = content.as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(
        shown(Format::JsonLines, &lines.join("\n\n"), &wanted),
        shown(Format::Json, &content.to_string(), &wanted)
    );
}

/// The example in pandas' documentation.
const STATES: &str = r#"[
    {"state": "Florida", "shortname": "FL", "info": {"governor": "Rick Scott"},
     "counties": [{"name": "Dade", "population": 12345}, {"name": "Broward", "population": 40000}]},
    {"state": "Ohio", "shortname": "OH", "info": {"governor": "John Kasich"},
     "counties": [{"name": "Summit", "population": 1234}]}
]"#;

#[test]
fn a_path_leads_to_the_records_and_outer_fields_are_included() {
    let path = RecordOptions {
        record_path: Some("counties".to_owned()),
        ..options(
            "name",
            &["name", "state"],
            &["population", "state", "info.governor"],
        )
    };
    insta::assert_snapshot!(shown(Format::Json, STATES, &path));
    let prefixed = RecordOptions {
        record_prefix: Some("county_".to_owned()),
        meta_prefix: Some("state.".to_owned()),
        id_field: "county_name".to_owned(),
        ..path
    };
    insta::assert_snapshot!(shown(Format::Json, STATES, &prefixed));
}

#[test]
fn a_path_may_have_steps_through_lists() {
    let content = r#"{"data": {"groups": [
        {"group": "g1", "items": [{"id": 1, "text": "a"}]},
        {"group": "g2", "items": [{"id": 2, "text": "b"}]},
        {"group": "g3", "items": null}]}}"#;
    for path in ["data.groups.items", "$.data.groups[*].items[*]"] {
        let path = RecordOptions {
            record_path: Some(path.to_owned()),
            ..options("id", &["text"], &["group"])
        };
        assert_eq!(
            shown(Format::Json, content, &path),
            "1: a {\"group\":\"g1\"}\n2: b {\"group\":\"g2\"}"
        );
    }
}

#[test]
fn errors_of_json_have_a_place() {
    let plain = options("id", &["text"], &["year"]);
    let path = |path: &str| RecordOptions {
        record_path: Some(path.to_owned()),
        ..plain.clone()
    };
    let mistakes = [
        (
            Format::Json,
            r#"{"total": 2, "items": [{"id": 1}]}"#,
            plain.clone(),
        ),
        (
            Format::Json,
            r#"[{"id": 1, "text": "a", "year": 1}, {"id": 2, "year": 1}]"#,
            plain.clone(),
        ),
        (
            Format::Json,
            r#"[{"id": 1, "text": "a", "year": 1}, {"id": 1, "text": "b"}]"#,
            plain.clone(),
        ),
        (Format::Json, r#"[{"id": [1], "text": "a"}]"#, plain.clone()),
        (Format::Json, r#"[{"id": " ", "text": "a"}]"#, plain.clone()),
        (Format::Json, r#"[{"id": 1, "text": "a"}]"#, plain.clone()),
        (Format::Json, "[1]", plain.clone()),
        (Format::Json, "\"a\"", plain.clone()),
        (Format::Json, "[{", plain.clone()),
        (Format::Json, r#"{"items": {"id": 1}}"#, path("items")),
        (Format::Json, r#"{"items": []}"#, path("data.items")),
        (
            Format::JsonLines,
            "{\"id\": 1, \"text\": \"a\", \"year\": 1}\n\n{",
            plain.clone(),
        ),
        (
            Format::JsonLines,
            "{\"id\": 1, \"text\": \"a\", \"year\": 1}\n\n{\"id\": 2}",
            plain.clone(),
        ),
        (Format::Pdf, "", plain.clone()),
    ];
    let errors: Vec<String> = mistakes
        .iter()
        .map(|(format, content, options)| shown(*format, content, options))
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn what_decides_is_in_the_description() {
    let options = RecordOptions {
        record_path: Some("a.b".to_owned()),
        ..options("id", &["x", "y"], &["z"])
    };
    assert_eq!(
        options.describe(),
        r#"records v1, id "id", text ["x", "y"] with "\n", meta ["z"], path "a.b""#
    );
}
