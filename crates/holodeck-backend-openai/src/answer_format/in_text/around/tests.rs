//! Tests which texts around an object leave it the answer.

use super::super::find_object;

const OBJECT: &str = r#"{"score": 8, "reason": "It is right in 3 of 4 points."}"#;

fn is_read(text: &str) -> bool {
    find_object(&text.replace('@', OBJECT)).is_ok()
}

#[test]
fn what_models_write_around_their_verdict_is_read() {
    for text in [
        "@",
        " \n@\n",
        "`@`",
        "```\n@\n```",
        "```json\n@\n```",
        "```json\n@",
        "```JSON5\n@```",
        "```@```",
        "<answer>@</answer>",
        "<json>\n@\n</json>",
        "Sure! @",
        "Verdict: @",
        "**Verdict:** @",
        "Verdict:\n\n@.",
        "Here is my evaluation:\n```json\n@\n```",
        "Here is my evaluation:\n```json\n@\n```\n🙂",
        "Here is the score: ```json\n@\n```",
        "Let me try again:\n@",
        "Here are the claims:\n@",
        "I would put it so:\n@",
        "My verdict would be: @",
        "Checking if it is right:\n@",
        "Sure! @ Bye.",
        "```json\n@\n```\nHope this helps!",
        "@\nThank you. Let me know if you need more!",
        "~~~json\n@\n~~~\n\nExplanation: the answer covers 3 of 4 points",
        "@\n\nExplanation: the answer covers 3 of 4 points",
        "@\n\n**Explanation:** I gave a score of 8 because the answer is right.",
        "Explanation: the answer covers 3 of 4 points.\n@",
        "**Explanation:** I gave a score of 8 because the answer is right.\n\n@",
        "The score reflects that the capital is right.\n@",
        "Score: 8\n@",
        "I give it 8/10.\n@",
        "8/10\n@",
        "1. It names the city.\n2) It gives no source.\n@",
        "The source gives 30 days, and so does the answer, in 2 sentences, e.g. the first.\n@",
        "It was asked of gpt-4o in 2024.\n@",
        "Turn 3: the user says that it is \"good\".\nMy assessment:\n@",
        "@\n@",
        "The answer contains `@`, as I do. My own:\n@",
    ] {
        assert!(is_read(text), "{text}");
    }
}

#[test]
fn no_object_counts_after_which_something_is_said() {
    for after in [
        " Bye. It is wrong.",
        "\nLet me know if you need more. Or not: it is wrong.",
        "\nThe score reflects nothing.",
        "\nThanks, it is wrong.",
        "\nHope this helps, it is all wrong.",
        "\nThe explanation is bad.",
        "\nExplanation: I meant a score of 1, not of 10.",
        "\nIt does not answer the question at all.",
        "\nScratch that. The right score is two.",
        "\nI meant 1, not 10.",
        "\nActually no: zero",
        "\nFinal: F",
        "\nKorrektur: die richtige Note ist 1",
        "\n分数：二分",
        "\nCorrection: claim 2 is contradicted: no.",
        "\n<think>it is bad</think>",
    ] {
        for before in [
            "",
            "The output to evaluate was:\n",
            "La réponse contient :\n",
            "回答中包含：\n",
        ] {
            for object in ["@", "```json\n@\n```"] {
                let text = format!("{before}{object}{after}");
                assert!(!is_read(&text), "{text}");
            }
        }
    }
}

#[test]
fn answers_to_single_claims_beside_the_object_are_another_verdict() {
    for before in ["1. no\n2. no", "Claim 1: no", "no", "- idk", "1) yes"] {
        assert!(!is_read(&format!("{before}\n\n@")), "{before}");
    }
}

#[test]
fn an_object_that_is_only_quoted_is_no_verdict() {
    for text in [
        "The answer contains `@`, which tries to decide for me. I give it 0 of 10.",
        "The answer contains `@`, which tries to decide for me.",
        "The answer contains `@`",
        "The answer contains @",
        "The answer contains @, which tries to decide for me.",
        "The answer contains: @",
        "The answer contains this:\n@",
        "The answer contains this:\n@\nThat decides nothing.",
        "The answer contains this:\n```json\n@\n```\nThat decides nothing.",
        "Here:\n```json\n@\n```\nwhich decides nothing.",
        "For example @",
        "For example:\n@",
        "If it were right:\n```json\n@\n```",
        "Otherwise: @",
        "Suppose that it is right.\n@",
        "The following would be wrong:\n@",
        "It could be this: @",
        "A wrong verdict might be: @",
        "E.g.:\n@",
        "It is (@).",
        "It wants: \"@\" and fails.",
        "It wants: “@”",
        "It wants: '@'",
        "> @\n\nThat is what it wants.",
        "It wants:\n> @",
        "<thinking>@</thinking> That is wrong.",
        "<thinking>\n@\n</thinking>\nThat is wrong.",
        "<thinking>@</thinking>",
        "<!-- @ -->",
        "<!--\n@\n-->\nWrong.",
        "Text `code: @` text",
        "```python\nx = @\n```",
        "```\n@\n```\nor\n```\nnothing\n```",
        "```\nnothing\n```\nor\n```\n@\n```",
    ] {
        assert!(!is_read(text), "{text}");
    }
}

#[test]
fn an_object_beside_another_verdict_is_no_verdict() {
    let others = [
        "2",
        "**2**",
        "2.",
        "2.0",
        "2/10",
        "2 / 10",
        "2 of 10",
        "2 out of 10",
        "My verdict: 2",
        "My verdict is 2",
        "My verdict: bad",
        "My verdict is bad",
        "Final score = 2",
        "I give it 2",
        "I'd give it a 2 because it is wrong",
        "I rate this answer 2",
        "I give it zero",
        "It deserves 2",
        "2 stars",
        "Note: 2",
        "Note: 2/20",
        "评分：2",
        "我给它2分",
        "评分：２",
        "| 2 |",
        "20%",
        "However, so much is wrong that the score should be 2",
        "I first thought of 8/10, and now of 2/10",
    ];
    for other in others {
        for text in [
            "%\n@",
            "@\n%",
            "@ \n\n%!",
            "%\n```json\n@\n```",
            "```json\n@\n```\nSo: it is wrong.\n%",
            "It is wrong. %.\n@",
        ] {
            let text = text.replace('%', other);
            assert!(!is_read(&text), "{text}");
        }
    }
    for text in [
        "[@, 2]",
        "[2, @]",
        "<thinking>@</thinking> 2",
        "For example @. My verdict: 2",
        "@ 2",
        "2 @",
    ] {
        assert!(!is_read(text), "{text}");
    }
}
