//! Files of specialists and skills as people have them: `run` and `validate` say what of them is not used.

use holodeck_testkit::Reply;
use pretty_assertions::assert_eq;

use crate::{
    project::Project,
    routing::{REVIEWER, project, server, with},
};

#[test]
fn run_says_what_is_left_out_of_the_file_of_a_specialist() {
    let server = server(|| Reply::text("No bugs."));
    let project = project(&server.url(), "", "");
    project.write(
        "agents/reviewer.md",
        REVIEWER.replace("tools: [read_file]", "tools: [read_file, Grep]\nmodel: sonnet"),
    );
    let validated = project.run(&["agents", "validate"]).exits(0);
    for args in [&[][..], &["--json"], &["--explain"], &["--dry-run"]] {
        let ran = project.run(&with(args)).exits(0);
        for message in [
            "`Grep` is not a tool of this agent and is dropped",
            "agents/reviewer.md:6",
            "`sonnet`",
        ] {
            assert!(
                validated.stdout.contains(message),
                "{message}: {}",
                validated.all()
            );
            assert!(ran.stderr.contains(message), "{message}: {args:?}: {}", ran.all());
        }
    }
    assert_eq!(project.run(&with(&["--quiet"])).exits(0).stderr, "");
    // A specialist that is not asked leaves nothing out.
    let disabled = project.run(&with(&["--disable-sdk"])).exits(3);
    assert!(!disabled.stderr.contains("dropped"), "{}", disabled.all());
    server.finish();
}

/// The skills of a collection, as they are found: unknown keys, texts that are not YAML, names of their own, further files.
#[test]
fn collections_of_skills_load_with_warnings() {
    let server = server(|| Reply::text("Noted."));
    let project = project(&server.url(), "  skills: {directory: skills}\n", "");
    for (path, text) in [
        (
            "skills/notes/SKILL.md",
            "---\nname: Release Notes\ndescription: Writes notes. Examples: one, two\nlicense: Apache-2.0\nversion: 1.0\n\
             allowed-tools: Read, Bash(git log:*)\nhooks: {}\n---\n# Notes\n\nSee references/style.md.\n",
        ),
        ("skills/notes/references/style.md", "---\nname: x\n---\nShort."),
        ("skills/notes/references/more/deep.md", "Deep."),
        ("skills/notes/assets/template.html", "<p>"),
        ("skills/notes/scripts/helper.py", "print(1)"),
        (
            "skills/bare/SKILL.md",
            "---\nuser-invocable: false\n---\nDoes a bare thing.\n",
        ),
        (
            "skills/documents/pdf/SKILL.md",
            "---\nname: pdf\ndescription: d\n---\nx\n",
        ),
        ("skills/README.md", "# Skills\n"),
    ] {
        project.write(path, text);
    }
    let checked = project.run(&["validate"]).exits(0);
    for warning in [
        "skills/notes/SKILL.md:3",
        "`description` needs quotes in YAML",
        "that of its folder is used",
        "its first paragraph is used",
        "skills/documents/pdf/SKILL.md` is too deep in the folder of skills and not used",
    ] {
        assert!(checked.all().contains(warning), "{warning}: {}", checked.all());
    }
    let json = project
        .run(&["run", "--json", "--command", "notes", "--disable-sdk", "1.0"])
        .exits(0)
        .json();
    assert_eq!(json["output"]["skill"], "notes", "{json:#}");
    assert_eq!(json["output"]["output"], "Noted.");
    server.finish();
}

/// Texts that need quotes in YAML, as people write them.
const UNQUOTED: [&str; 10] = [
    "Use this: when asked",
    "Examples: <example> user: \"Is it \\ done?\" </example> # not a comment",
    "Ends with a colon:",
    "*Bold* words",
    "@someone asks",
    "\"Quoted\" and more",
    "'One': two",
    "Größe: 名前: 😀 \u{a0}",
    "Next\u{85}line: one",
    "Tabs:\tand: more",
];

#[test]
fn fix_puts_texts_in_quotes_and_changes_nothing_else() {
    let project = Project::empty();
    let mut names = Vec::new();
    for (index, text) in UNQUOTED.iter().enumerate() {
        for (ending, mark) in [("\n", ""), ("\r\n", ""), ("\n", "\u{feff}")] {
            let name = format!("agent-{}", names.len());
            let more = if index == 0 { "  over two: lines\n" } else { "" };
            let file = format!(
                "---\nname: {name}\ndescription: {text}\n{more}tools: [Read]\n---\nIts: prompt \"{index}\".\n"
            );
            project.write(
                &format!("agents/{name}.md"),
                format!("{mark}{}", file.replace('\n', ending)),
            );
            names.push(name);
        }
    }
    let fine = "---\nname: fine\ndescription: 'Is: fine'\n---\nP.\n";
    project.write("agents/fine.md", fine);
    let list = ["agents", "list", "--dir", "agents", "--json"];
    let agents = || {
        let mut listed = project.run(&list).exits(0).json();
        listed.as_object_mut().unwrap().remove("diagnostics");
        listed
    };
    let before = agents();
    let warned = project
        .run(&["agents", "validate", "--dir", "agents", "--strict"])
        .exits(2);
    assert_eq!(
        warned.stdout.matches("needs quotes in YAML").count(),
        names.len(),
        "{}",
        warned.all()
    );

    let fixed = project
        .run(&["agents", "validate", "--dir", "agents", "--fix"])
        .exits(0);
    assert_eq!(
        fixed.stderr.matches("1 text put in quotes").count(),
        names.len(),
        "{}",
        fixed.all()
    );
    assert!(!fixed.all().contains("needs quotes"), "{}", fixed.all());
    assert_eq!(agents(), before);
    assert_eq!(project.read("agents/fine.md"), fine);
    for (index, name) in names.iter().enumerate() {
        let text = project.read(&format!("agents/{name}.md"));
        assert_eq!(text.starts_with('\u{feff}'), index % 3 == 2, "{text}");
        assert_eq!(
            text.matches("\r\n").count() == text.matches('\n').count(),
            index % 3 == 1,
            "{text:?}"
        );
        assert!(
            text.contains("tools: [Read]") && text.contains(&format!("Its: prompt \"{}\".", index / 3)),
            "{text}"
        );
    }
    // There is nothing left to fix.
    let again = project
        .run(&["agents", "validate", "--dir", "agents", "--fix"])
        .exits(0);
    assert!(!again.stderr.contains("fixed"), "{}", again.all());
}

#[test]
fn fix_of_an_agent_file_reaches_its_instructions_and_skills_and_a_broken_file_stays_as_it_is() {
    let server = server(|| Reply::text("Noted."));
    let project = project(&server.url(), "  skills: {directory: skills}\n", "");
    project.write(
        "skills/notes/SKILL.md",
        "---\nname: notes\ndescription: Use: this\n---\nx\n",
    );
    let broken = "---\nname: broken\ndescription: [a: b\n---\nx\n";
    project.write("skills/broken/SKILL.md", broken);
    let fixed = project.run(&["validate", "--fix"]);
    assert!(
        fixed
            .stderr
            .contains("fixed skills/notes/SKILL.md: 1 text put in quotes"),
        "{}",
        fixed.all()
    );
    assert_eq!(
        project.read("skills/notes/SKILL.md"),
        "---\nname: notes\ndescription: \"Use: this\"\n---\nx\n"
    );
    assert_eq!(project.read("skills/broken/SKILL.md"), broken);
    server.finish();
}
