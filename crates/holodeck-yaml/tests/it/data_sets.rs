//! Data sets of test cases: what they mean, and that no row is lost without an error.

use std::path::Path;

use holodeck_model::{Env, MemoryFiles};
use holodeck_yaml::{Load, load_agent};
use pretty_assertions::assert_eq;
use secrecy::ExposeSecret;
use serde_json::json;

use crate::support::render;

const WORKBOOK: &[u8] = include_bytes!("../../../../fixtures/yaml/files/cases.xlsx");
const BAD_WORKBOOK: &[u8] = include_bytes!("../../../../fixtures/yaml/files/cases-bad.xlsx");

fn load(name: &str, content: impl Into<Vec<u8>>) -> Load {
    let agent = format!(
        "name: a\nmodel: {{provider: openai, name: m, temperature: 0, max_tokens: 1}}\n\
         instructions: {{inline: Hi}}\nevaluations: {{metrics: [{{type: standard, metric: equality, threshold: 1}}]}}\n\
         test_cases_file: {name}\n"
    );
    let files = MemoryFiles::new()
        .with("agent.yaml", agent)
        .with(name, content)
        .with("a.txt", "")
        .with("b.pdf", "");
    load_agent(Path::new("agent.yaml"), &Env::empty(), &files)
}

/// The cases as JSON without absent fields.
fn cases(load: &Load) -> Vec<serde_json::Value> {
    let agent = load
        .agent
        .as_ref()
        .unwrap_or_else(|| panic!("{}", render(&load.diagnostics)));
    let cases = serde_json::to_value(&agent.config.test_cases).unwrap();
    let mut cases = cases.as_array().unwrap().clone();
    for case in &mut cases {
        case.as_object_mut()
            .unwrap()
            .retain(|key, value| !value.is_null() && *value != json!([]) && key != "expected_tools_order");
    }
    cases
}

/// The errors of a data set that must not load.
fn errors(name: &str, content: impl Into<Vec<u8>>) -> String {
    let load = load(name, content);
    assert!(load.agent.is_none(), "it must not load");
    let errors: Vec<_> = load
        .diagnostics
        .into_iter()
        .filter(holodeck_model::Diagnostic::is_error)
        .collect();
    render(&errors)
}

#[test]
fn cells_are_fields() {
    let text = "\u{feff}input,name,ground_truth,expected_tools,forbidden_tools,retrieval_context,files,expected_tools_order\r\n\
        \"What is \"\"4\"\",\r\nin words?\",null,42,a; b;,c,one text,a.txt;b.pdf,strict\r\n\
        second,,${HOME},,,\"[\"\"x\"\", \"\"y\"\"]\",,\r\n";
    assert_eq!(
        json!(cases(&load("c.csv", text))),
        json!([
            {
                "input": "What is \"4\",\r\nin words?",
                "name": "null",
                "ground_truth": "42",
                "expected_tools": cases(&load("c.jsonl", r#"{"input": "i", "expected_tools": ["a", "b"]}"#))[0]["expected_tools"],
                "forbidden_tools": ["c"],
                "retrieval_context": ["one text"],
                "files": cases(&load("c.jsonl", r#"{"input": "i", "files": [
                    {"path": "a.txt", "type": "text"}, {"path": "b.pdf", "type": "pdf"}]}"#.replace('\n', "")))[0]["files"],
            },
            {"input": "second", "ground_truth": "${HOME}", "retrieval_context": ["x", "y"]},
        ])
    );
}

#[test]
fn nested_fields_are_json() {
    let csv = "input,evaluations,expected_tools\n\
        i,\"[{\"\"type\"\": \"\"standard\"\", \"\"metric\"\": \"\"bleu\"\", \"\"threshold\"\": 0.5}]\",\"[{\"\"name\"\": \"\"t\"\", \"\"args\"\": {\"\"n\"\": 1.5e3}}]\"\n";
    let lines = "\n{\"input\": \"i\", \"evaluations\": [{\"type\": \"standard\", \"metric\": \"bleu\", \"threshold\": 0.5}], \
        \"expected_tools\": [{\"name\": \"t\", \"args\": {\"n\": 1.5e3}}]}\r\n\r\n";
    let csv = cases(&load("c.csv", csv));
    assert_eq!(csv, cases(&load("c.jsonl", lines)));
    assert_eq!(csv[0]["evaluations"][0]["threshold"], 0.5);
    assert_eq!(csv[0]["expected_tools"][0]["name"], "t");
}

#[test]
fn every_bad_row_is_reported() {
    let csv = "input,ground_truth,evaluations,expected_tools,expected_tools_order\n\
        ok,1,,,\n\
        too,many,,,,cells\n\
        too few\n\
        ,no input,,,\n\
        i,,{nope,,\n\
        i,,\"[{\"\"type\"\": \"\"standard\"\", \"\"metric\"\": \"\"bleu\"\", \"\"threshold\"\": \"\"high\"\"}]\",,\n\
        i,,,a;;b,\n\
        i,,,,sideways\n\
        ,,,,\n";
    insta::assert_snapshot!(errors("c.csv", csv));
}

#[test]
fn every_bad_line_is_reported() {
    let lines = "{\"input\": \"ok\"}\n{\"input\": \n[1]\n{\"inputs\": \"i\"}\n{\"input\": \"a\", \"input\": \"b\"}\n{\"input\": \"i\"} x\n{}\n";
    insta::assert_snapshot!(errors("c.jsonl", lines));
}

#[test]
fn every_bad_column_is_reported_once() {
    insta::assert_snapshot!(errors(
        "c.csv",
        "input,grund_truth,input,,colour\na,b,c,d,e\nf,g,h,i,j\n"
    ));
    insta::assert_snapshot!(errors("c.csv", "input;ground_truth\na;b\n"));
    insta::assert_snapshot!(errors("c.csv", "name,ground_truth\na,b\nc,d\n"));
    insta::assert_snapshot!(errors("c.csv", ""));
    insta::assert_snapshot!(errors("c.ods", "x"));
}

#[test]
fn wrong_quotes_never_join_rows() {
    for text in [
        "input,name\n\"open,a\nb,c\n",
        "input\na\n\"open\nb\n",
        "input,name\n\"a\" b,c\n",
        "input,name,ground_truth\nx, \"a, b\"\n",
        "input,name\n\"a\"\"\",\"\n",
    ] {
        let errors = errors("c.csv", text);
        assert!(errors.contains("must begin and end with"), "{text:?}: {errors}");
    }
}

#[test]
fn every_line_that_is_not_utf8_is_reported() {
    insta::assert_snapshot!(errors(
        "c.csv",
        b"\xef\xbb\xbfinput\ncaf\xe9\nok\nna\xefve\n".as_slice()
    ));
    insta::assert_snapshot!(errors("c.csv", b"\xff\xfei\0\n\0x\0\0\xdc".as_slice()));
    assert!(errors("c.jsonl", b"{\"input\": \"\xe9\"}".as_slice()).contains("c.jsonl:1:12: error[HD0004]"));
}

#[test]
fn a_data_set_is_the_same_with_every_byte_order_mark() {
    for (name, text) in [
        ("c.csv", "input,ground_truth\r\nIs it?,naïve\r\n"),
        (
            "c.jsonl",
            "{\"input\": \"Is it?\", \"ground_truth\": \"naïve\"}\n",
        ),
        ("c.yaml", "- {input: Is it?, ground_truth: naïve}\n"),
    ] {
        let little = text.encode_utf16().flat_map(u16::to_le_bytes);
        let big = text.encode_utf16().flat_map(u16::to_be_bytes);
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xEF\xBB\xBF", text.as_bytes()].concat(),
            [0xFF, 0xFE].into_iter().chain(little).collect(),
            [0xFE, 0xFF].into_iter().chain(big).collect(),
        ] {
            let found = cases(&load(name, bytes));
            assert_eq!(
                found,
                [json!({"input": "Is it?", "ground_truth": "naïve"})],
                "{name}"
            );
        }
    }
}

#[test]
fn blank_rows_and_nameless_blank_columns_are_left_out() {
    let expected = [json!({"input": "Is it?", "ground_truth": "yes"})];
    for text in [
        "input,ground_truth,,\nIs it?,yes,,\n,,,\n,,,\n",
        "input,ground_truth\n\nIs it?,yes\n,\n",
        ",\n , \ninput,ground_truth\nIs it?,yes,,,\n,\n,,,,,\n",
        "input,,ground_truth\r\nIs it?,,yes\r\n,,\r\n",
        ",input,ground_truth,\n,Is it?,yes,\n\"\",\"  \",,\n",
    ] {
        assert_eq!(cases(&load("c.csv", text)), expected, "{text}");
    }
    assert_eq!(
        errors("c.csv", "input,,ground_truth\na,x,yes\nb,y,no\n"),
        "c.csv:1:7: error[HD0201]: a column with values has no name\n    \
         hint: name the field in the first row, or delete the column\n"
    );
    assert!(errors("c.csv", "input\na,,x\n").contains("too many cells"));
    assert!(errors("c.csv", ",,\n\n").contains("the table is empty"));
}

#[test]
fn the_first_sheet_of_a_workbook_is_read() {
    let load = load("c.xlsx", WORKBOOK);
    let cases = cases(&load);
    assert_eq!(cases.len(), 2);
    assert_eq!(cases[0], json!({"input": "Two\nlines", "ground_truth": "42"}));
    assert_eq!(cases[1]["ground_truth"], "0.3");
    assert_eq!(cases[1]["expected_tools"].as_array().unwrap().len(), 2);
}

#[test]
fn every_bad_row_of_a_workbook_is_reported() {
    let load = load("c.xlsx", BAD_WORKBOOK);
    assert!(load.agent.is_none());
    insta::assert_snapshot!(render(&load.diagnostics));
}

#[test]
fn a_file_that_is_no_workbook_is_reported() {
    assert!(errors("c.xlsx", "input\na\n").contains("cannot be read as a workbook"));
}

#[test]
fn many_rows_are_all_there() {
    let mut text = String::from("name,input,ground_truth\n");
    for row in 0..100_000 {
        text += &format!("case {row},\"What is {row}, doubled?\",{}\n", row * 2);
    }
    let load = load("c.csv", text);
    let cases = &load.agent.unwrap().agent.config.test_cases;
    assert_eq!(cases.len(), 100_000);
    let last = cases.get(99_999).unwrap();
    assert_eq!(last.name.as_deref(), Some("case 99999"));
    assert_eq!(last.input.as_deref(), Some("What is 99999, doubled?"));
    assert_eq!(last.ground_truth.as_deref(), Some("199998"));
}

/// Rows with nothing but texts are read without the checks of the others, so both ways must agree. An escaped letter and a
/// field without effect on the case take the other way.
#[test]
fn plain_rows_are_read_as_all_others_are() {
    let plain = [
        r#"{"name":"a","input":"What?","ground_truth":"42"}"#,
        r#"{"input":" Spaces, \t and ümläuts 🦀 ","name":null}"#,
        r#"  {"input":"null","ground_truth":"~"}  "#,
        r#"{"input":"3","ground_truth":"yes"}"#,
    ]
    .map(|line| line.replace(r"\t", "-"));
    let others = plain
        .clone()
        .map(|line| line.replace(r#""input":""#, r#""trials":null,"input":""#));
    let read = |lines: &[String]| cases(&load("c.jsonl", lines.join("\r\n")));
    assert_eq!(read(&plain), read(&others));
    assert_eq!(read(&plain).len(), 4);

    let rows =
        "name,input,ground_truth\na,What?,42\n,\" Spaces, and ümläuts 🦀 \",\nnull,null,~\nyes, 3 ,yes\n";
    let with_trials = rows.replace("ground_truth\n", "ground_truth,trials\n");
    let with_trials: Vec<String> = with_trials
        .lines()
        .enumerate()
        .map(|(row, line)| {
            if row == 0 {
                line.to_owned()
            } else {
                format!("{line},1")
            }
        })
        .collect();
    let mut others = cases(&load("c.csv", with_trials.join("\n")));
    for case in &mut others {
        assert_eq!(case.as_object_mut().unwrap().remove("trials"), Some(json!(1)));
    }
    assert_eq!(cases(&load("c.csv", rows)), others);
}

#[test]
fn a_row_that_is_not_plain_is_checked() {
    let wrong = [
        r#"{"input":"a","input":"b"}"#,
        r#"{"input":" "}"#,
        r#"{"name":"","input":"a"}"#,
        r#"{"input":null}"#,
        r#"{"input":["a"]}"#,
        r#"{"name":"a"}"#,
        r#"{"input":"a"} {"input":"b"}"#,
        r#"{"input":"a","ground_truth":"b","groundtruth":"c"}"#,
    ];
    for line in wrong {
        let errors = errors("c.jsonl", format!("{{\"input\":\"first\"}}\n{line}\n"));
        assert!(errors.contains("c.jsonl:2:"), "{line}: {errors}");
    }
    for row in [" ,r", "\"\",r", "a,b,c"] {
        let errors = errors("c.csv", format!("input,ground_truth\nfirst,\n{row}\n"));
        assert!(errors.contains("c.csv:3:"), "{row}: {errors}");
    }
}

#[test]
fn a_password_in_a_row_is_a_secret() {
    for (name, text) in [
        ("c.jsonl", r#"{"input":"Read https://ada:hunter2@example.org/a"}"#),
        (
            "d.jsonl",
            r#"{"input":"Read https:\/\/ada:hunter2@example.org/a"}"#,
        ),
        ("c.csv", "input\nRead https://ada:hunter2@example.org/a"),
    ] {
        let agent = load(name, text).agent.unwrap();
        let secrets: Vec<&str> = agent.secrets.iter().map(ExposeSecret::expose_secret).collect();
        assert!(secrets.contains(&"hunter2"), "{name}: {secrets:?}");
    }
}

#[test]
fn a_number_of_json_keeps_the_digits_that_are_written() {
    let numbers = [
        "0",
        "-0",
        "1.10",
        "1e3",
        "1E+3",
        "-2.50e-7",
        "18446744073709551616",
        "12345678901234567890123",
        "0.12345678901234567890123",
    ];
    for number in numbers {
        // Other numbers, and texts that look like them, stand before it.
        let line = format!(
            r#"{{"name": "7 \"8\\\\", "expected_tools": [{{"name": "u", "args": {{"m": [1, -2.5]}}}}], "input": "i -3", "ground_truth": {number}}}"#
        );
        let found = cases(&load("c.jsonl", line.as_str()))[0]["ground_truth"].clone();
        assert_eq!(found, number, "{line}");
        // Where a value is wanted, it is a number in every form.
        let line =
            format!(r#"{{"input": "i", "expected_tools": [{{"name": "t", "args": {{"n": {number}}}}}]}}"#);
        let found = cases(&load("c.jsonl", line.as_str()))[0]["expected_tools"][0]["args"]["n"].clone();
        let wanted: f64 = number.parse().unwrap();
        assert_eq!(found.as_f64(), Some(wanted), "{line} {found}");
    }
}
