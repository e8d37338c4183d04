//! Statements of `docs/algorithms.md`, `docs/session-rules.md` and `docs/path-rules.md` about code
//! that could drift.

use std::fs;
use std::path::Path;

fn source(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("src").join(name)).unwrap()
}

/// Returns a document, with one space between words.
fn document(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("../../docs").join(name)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A file, its constant, and the statement about it.
const STATEMENTS: [(&str, &str, &str); 24] = [
    (
        "copies.rs",
        "COPY_SHARE: f64 = 0.05",
        "a budget: 5 % of the new data",
    ),
    (
        "copies.rs",
        "MEDIA_BYTES: f64 = 20_000.0",
        "at once 20 kB of media",
    ),
    (
        "copies.rs",
        "STREAM_BYTES: f64 = 131_072.0",
        "128 KiB of a stream",
    ),
    (
        "session/stream/answers.rs",
        "DUPLICATED_PACKETS: u64 = 10",
        "at most ten packets on each further path",
    ),
    (
        "path/forecast.rs",
        "STANDING_QUEUE: Duration = Duration::from_millis(20)",
        "min_RTT + max_feedback_delay + max(20 ms, jitter)",
    ),
    (
        "path/forecast.rs",
        "MEMORY: Duration = Duration::from_millis(150)",
        "acknowledged bytes, fading over 150 ms",
    ),
    (
        "path/forecast.rs",
        "DELAY_MARGIN_DEVIATIONS: u64 = 2",
        "two mean deviations of the RTT",
    ),
    (
        "path/forecast.rs",
        "RATE_MARGIN: f64 = 1.1",
        "congested, up to 1.1 times",
    ),
    (
        "path/forecast.rs",
        "RATE_CHANGE: f64 = 1.25",
        "estimate has changed by a quarter",
    ),
    (
        "forecast.rs",
        "UNKNOWN_RTT: Duration = Duration::from_millis(100)",
        "50 ms, and half",
    ),
    (
        "session/media/reconsider.rs",
        "MOST_COPIES: u32 = 3",
        "Three copies count as certain",
    ),
    (
        "session/media/reconsider.rs",
        "MOST_COPIES_IN_BURSTS: u32 = 2",
        "and two where b is 1.5 or more",
    ),
    (
        "session/media/reconsider.rs",
        "SHORT_BURST: f64 = 1.5",
        "where b is 1.5 or more",
    ),
    (
        "media/send_buffer/reconsider.rs",
        "Importance::Key | Importance::Reference => 0.999",
        "chance ≥ 0.999",
    ),
    (
        "media/send_buffer/reconsider.rs",
        "Importance::Disposable => 0.5",
        "(disposable frames: 0.5)",
    ),
    (
        "../../schedulers/src/reinjection/linux.rs",
        "MUCH_SLOWER: u64 = 4",
        "over four times the round trip",
    ),
    (
        "../../schedulers/src/reinjection/linux.rs",
        "HARDLY_A_WINDOW: u64 = 4",
        "a window of four packets",
    ),
    (
        "session/media/admission.rs",
        "WAIT_OF_OVERLOAD: u64 = 2",
        "once a frame has waited for half of its deadline",
    ),
    (
        "session/stream/queue.rs",
        "MAX_BOUND_BYTES: u64 = 64 << 10",
        "At most 64 KiB are bound to paths",
    ),
    (
        "session/stream/timers.rs",
        "MAX_BLOCKED_WAIT: Duration = Duration::from_secs(60)",
        "StreamBlocked | 1 s | doubles to 60 s",
    ),
    (
        "session/media/admission.rs",
        "SPARE_OF_NEW: u64 = 8",
        "new, of another kind | deadline / 8",
    ),
    (
        "session/media/admission.rs",
        "SPARE_OF_WAITING: u64 = 32",
        "waiting, of another kind | deadline / 32",
    ),
    (
        "path.rs",
        "SPARE_LIFETIME: u64 = 16",
        "repairs need deadline / 16 to spare",
    ),
    (
        "session/media/reinjection.rs",
        "LONG_WAIT: u64 = 4",
        "takes longer than deadline / 4",
    ),
];

#[test]
fn constants_have_the_values_that_the_document_states() {
    let documents = ["algorithms.md", "session-rules.md", "path-rules.md"].map(document);
    for (file, code, statement) in STATEMENTS {
        assert!(
            source(file).contains(code),
            "{file}: no longer {code}; see {statement:?}"
        );
        assert!(
            documents.iter().any(|text| text.contains(statement)),
            "algorithms.md, session-rules.md, path-rules.md: no longer {statement:?}"
        );
    }
}

/// Returns the body of a function of a file.
fn body(file: &str, signature: &str) -> String {
    let code = source(file);
    let begin = code.find(signature).expect(signature);
    let end = code[begin..].find("\n    }\n").expect("it ends");
    code[begin..begin + end].to_owned()
}

/// The order inside a report, with one refresh of the views.
#[test]
fn a_report_is_handled_in_the_order_of_the_document() {
    // The path's state follows between the two hooks of the content.
    let session = body("session/receive.rs", "    fn on_feedback(");
    let (before, after) = session.split_once("content.on_report(").expect("its hook");
    assert!(!before.contains("judge_answer("));
    let (between, _) = after
        .split_once("content.act_on_report(")
        .expect("its hook");
    let parts = [
        body("session/media/feedback.rs", "pub(super) fn record_report("),
        between.to_owned(),
        body("session/media.rs", "    fn act_on_report("),
    ];
    let body = parts.concat();
    let calls = [
        "on_acked(",
        "notify_controller(",
        "judge_answer(",
        "refresh_views(",
        "follow_rates(",
        "answer_losses(",
        "reconsider_unrepaired(",
        "reinject(",
        "admit(",
    ];
    let places = calls.map(|call| body.find(call).expect(call));
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(body.matches("refresh_views(").count(), 1);
}

/// The short page names each decision, links to its details, and stays short.
#[test]
fn two_pages_have_the_behaviour_of_a_session() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("../../docs/algorithms.md")).unwrap();
    let words = text
        .split_whitespace()
        .filter(|word| word.contains(char::is_alphanumeric))
        .count();
    assert!(words <= 1_400, "{words} words are more than two pages");
    for page in ["session-rules.md", "path-rules.md"] {
        let details = fs::read_to_string(root.join("../../docs").join(page)).unwrap();
        let headings = details.lines().filter_map(|line| line.strip_prefix("### "));
        let anchors = headings.map(|heading| heading.to_lowercase().replace(' ', "-"));
        for anchor in anchors.filter(|anchor| anchor != "jitter") {
            assert!(
                text.contains(&format!("{page}#{anchor})")),
                "algorithms.md does not lead to {anchor}"
            );
        }
    }
}
