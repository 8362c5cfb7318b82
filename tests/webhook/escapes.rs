//! What is not for any policy is told from the bytes of a review. Every spelling of the annotation that triggers
//! has to be found there.

use fabric_engine::Outcome;
use fabric_engine::admission::{OnError, respond};
use fabric_policy::PodContext as About;
use serde_json::{Value, json};

use crate::answers::assert_unmatched;
use crate::golden;
use crate::random;
use crate::reviews::{TRIGGER, UID, other_pod, pod, pod_with, pod_with_env, review_of, unmatched_pod, with};
use crate::server::{LAB, Server, engine, lab_with, policies};

/// How one letter of a string may be written in JSON.
fn spellings(letter: char) -> Vec<String> {
    let mut units = [0; 2];
    let units = letter.encode_utf16(&mut units).to_vec();
    let escaped = |digits: &dyn Fn(u16) -> String| units.iter().map(|unit| digits(*unit)).collect::<String>();
    let mut spellings =
        vec![escaped(&|unit| format!("\\u{unit:04x}")), escaped(&|unit| format!("\\u{unit:04X}"))];
    match letter {
        '"' | '\\' => spellings.push(format!("\\{letter}")),
        '/' => spellings.extend(["\\/".to_owned(), "/".to_owned()]),
        '\u{8}' => spellings.push("\\b".to_owned()),
        '\u{c}' => spellings.push("\\f".to_owned()),
        '\n' => spellings.push("\\n".to_owned()),
        '\r' => spellings.push("\\r".to_owned()),
        '\t' => spellings.push("\\t".to_owned()),
        '\0'..'\u{20}' => {}
        _ => spellings.push(letter.to_string()),
    }
    spellings
}

/// The shortest spelling of a text, but that of one letter.
fn spelled(text: &str, at: usize, spelling: &str) -> String {
    let letters = text.chars().enumerate();
    let plain = |letter| spellings(letter).pop().unwrap();
    letters.map(|(place, letter)| if place == at { spelling.to_owned() } else { plain(letter) }).collect()
}

/// Every text that differs from the shortest one in how one letter is written, and those that differ in all.
fn all_spellings(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (at, letter) in text.chars().enumerate() {
        all.extend(spellings(letter).iter().map(|spelling| spelled(text, at, spelling)));
    }
    for which in 0..4 {
        let one = |letter| {
            let spellings = spellings(letter);
            spellings[which % spellings.len()].clone()
        };
        all.push(text.chars().map(one).collect());
    }
    all
}

/// JSON in which every letter of every string is spelled by chance.
fn by_chance(value: &Value, random: &mut fastrand::Rng, text: &mut String) {
    let mut string = |letters: &str, text: &mut String| {
        text.push('"');
        for letter in letters.chars() {
            let spellings = spellings(letter);
            let usual = random.u8(..) < 200;
            let which = if usual { spellings.len() - 1 } else { random.usize(..spellings.len()) };
            text.push_str(&spellings[which]);
        }
        text.push('"');
    };
    match value {
        Value::String(letters) => string(letters, text),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at == 0 { "[ " } else { ",\n" });
                by_chance(item, random, text);
            }
            text.push_str(if items.is_empty() { "[]" } else { "\t]" });
        }
        Value::Object(map) => {
            for (at, (key, item)) in map.iter().enumerate() {
                text.push_str(if at == 0 { "{ " } else { " ,\r\n" });
                let mut spelled_key = String::new();
                by_chance(&Value::from(key.as_str()), random, &mut spelled_key);
                text.push_str(&spelled_key);
                text.push_str(" : ");
                by_chance(item, random, text);
            }
            text.push_str(if map.is_empty() { "{}" } else { " }" });
        }
        other => text.push_str(&other.to_string()),
    }
}

#[tokio::test]
async fn every_spelling_of_the_annotation_that_triggers_is_recognised() {
    let server = Server::lab();
    let review = review_of(&pod()).to_string();
    let usual = server.post(review.clone()).await;
    assert_eq!(usual.response(UID)["patchType"], "JSONPatch");
    let all = all_spellings(TRIGGER);
    assert!(all.len() > 3 * TRIGGER.len(), "{}", all.len());
    for spelling in all {
        let text = review.replace(TRIGGER, &spelling);
        assert_eq!(server.post(text).await, usual, "{spelling}");
    }
}

#[tokio::test]
async fn every_spelling_of_what_is_around_the_annotation_is_recognised() {
    let server = Server::lab();
    let review = review_of(&pod()).to_string();
    let usual = server.post(review.clone()).await;
    let words = [
        "kind",
        "AdmissionReview",
        "apiVersion",
        "admission.k8s.io/v1",
        "request",
        "uid",
        UID,
        "operation",
        "CREATE",
        "object",
        "metadata",
        "annotations",
        "on",
        "Pod",
        "containers",
        "nvidia.com/gpu",
    ];
    for word in words {
        let quoted = format!("\"{word}\"");
        assert!(review.contains(&quoted), "{word}");
        for spelling in all_spellings(word) {
            let text = review.replace(&quoted, &format!("\"{spelling}\""));
            assert_eq!(server.post(text).await, usual, "{spelling}");
        }
    }
}

/// JSON can escape every letter of a key, also without need.
#[tokio::test]
async fn every_spelling_of_every_letter_that_a_key_may_have_is_recognised() {
    let keys = ["lab.example/other", "a", "A-b_c.9", "9", "x.y.z"];
    for key in keys {
        // In second place, since the first annotation has to be one that a pod can have.
        let entry = format!("      {}: \"on\"\n    exceptAnnotation:", serde_json::to_string(key).unwrap());
        let text = lab_with("    exceptAnnotation:", &entry);
        let server = Server::serving(&[&text]);
        let mut review = review_of(&pod());
        review["request"]["object"]["metadata"]["annotations"] = json!({key: "on"});
        let quoted = format!("{}:\"on\"", serde_json::to_string(key).unwrap());
        let review = review.to_string();
        assert!(review.contains(&quoted), "{review}");
        let usual = server.post(review.clone()).await;
        assert_eq!(usual.response(UID)["patchType"], "JSONPatch", "{key:?}");
        for spelling in all_spellings(key) {
            let text = review.replace(&quoted, &format!("\"{spelling}\":\"on\""));
            assert_eq!(server.post(text).await, usual, "{key:?} as {spelling}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_nearly_the_annotation_is_not_it() {
    let server = Server::lab();
    let near = [
        "lab.example/fabric ",
        "lab.example/Fabric",
        "lab.example\\/fabric",
        "lab.example/fabri\u{441}",
        "lab.example/fabric/",
        "xlab.example/fabric",
        "lab.example/fabric\u{0}",
        "lab.example/fa\u{ad}bric",
        "",
    ];
    for key in near {
        let pod = pod_with("/metadata/annotations", json!({key: "on"}));
        assert_unmatched(&server.review(&review_of(&pod)).await);
    }
}

#[tokio::test]
async fn the_annotation_elsewhere_than_among_annotations_triggers_nothing() {
    let server = Server::lab();
    let here = json!({TRIGGER: "on"});
    let places =
        ["/metadata/labels", "/spec/annotations", "/annotations", "/spec/nodeSelector", "/metadata/x"];
    for place in places {
        let mut pod = pod_with(place, here.clone());
        pod["metadata"]["annotations"] = json!({"a": TRIGGER});
        assert_unmatched(&server.review(&review_of(&pod)).await);
    }
    let mut review = review_of(&unmatched_pod());
    review["request"]["oldObject"] = pod();
    review["request"]["annotations"] = here;
    assert_unmatched(&server.review(&review).await);
}

/// The answer to each of these is what the engine says, which sees every pod as a whole.
#[tokio::test]
async fn looking_at_the_bytes_first_changes_no_answer() {
    let mut random = random(23);
    let lab = policies(&[LAB]);
    let server = Server::lab();
    let about = About { namespace: Some("team".to_owned()), ..About::default() };
    let mut pods = vec![pod(), other_pod(), pod_with_env("LAB_SEAL", "open"), pod_with("/spec", json!([]))];
    pods.push(pod_with("/metadata/annotations", json!({TRIGGER: "off"})));
    pods.push(with(other_pod(), "/metadata/annotations", json!({"a": {TRIGGER: "on"}})));
    pods.push(pod_with("/spec/containers/0/args", json!([TRIGGER, "\\u006c", "é\u{1f600}\n\u{0}"])));
    for pod in pods {
        let wanted = respond(UID, &engine(&lab, pod.clone(), &about), OnError::Deny).to_json();
        for _ in 0..30 {
            let mut text = String::new();
            by_chance(&review_of(&pod), &mut random, &mut text);
            assert_eq!(server.post(text.clone()).await.body, wanted, "{text}");
        }
    }
}

#[tokio::test]
async fn looking_at_the_bytes_first_changes_no_answer_for_any_workload() {
    let mut random = random(29);
    let mut changed = 0;
    for case in golden::cases() {
        let (server, policies) = (case.server(), case.policies());
        for (pod, request) in case.pods() {
            let about = About { namespace: request.namespace.clone(), ..About::default() };
            let mutation = engine(&policies, pod.clone(), &about);
            let wanted = respond(UID, &mutation, OnError::Deny).to_json();
            let mut review = review_of(&pod);
            review["request"]["namespace"] = json!(about.namespace);
            let mut text = String::new();
            by_chance(&review, &mut random, &mut text);
            // Without any escape, the annotation alone is what is found.
            let plain = review.to_string();
            if matches!(&mutation.outcome, Outcome::Unchanged { reason, .. } if reason.is_unmatched()) {
                // With GPUs, it is not one that the API server sends.
                assert_eq!(server.post(plain).await.body, server.post(text).await.body, "{}", case.name());
                continue;
            }
            assert_eq!(server.post(text.clone()).await.body, wanted, "{}: {text}", case.name());
            assert_eq!(server.post(plain).await.body, wanted, "{}", case.name());
            changed += usize::from(wanted.windows(9).any(|bytes| bytes == b"patchType"));
        }
    }
    assert!(changed > 80, "{changed}");
}
