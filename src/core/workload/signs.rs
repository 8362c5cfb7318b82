//! The signs that pods work together: launchers, variables, and parallelism beyond the GPUs of a pod.

use serde_json::Value;

use super::kinds::{self, Signs};

/// All containers of a pod.
pub(super) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().filter_map(|list| spec[list].as_array()).flatten()
}

/// Returns whether the commands or variables of a container are a sign, for pods with so many GPUs.
pub(super) fn of_container(container: &Value, gpus: i64) -> bool {
    let lists = ["command", "args"].into_iter().filter_map(|list| container[list].as_array());
    let texts = lists.flatten().filter_map(Value::as_str);
    let env = container["env"].as_array().into_iter().flatten();
    let mut names = env.filter_map(|variable| variable["name"].as_str());
    let is_sign = |name: &str| {
        kinds::signs().env.iter().any(|known| match known.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == known,
        })
    };
    names.any(is_sign) || of_words(&words(texts), gpus)
}

/// The words of command lines, without the characters around them.
fn words<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let ends = |c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '(' | ')' | '{' | '}' | '[' | ']')
    };
    texts.flat_map(move |text| text.split(ends)).filter(|word| !matches!(*word, "" | ":")).collect()
}

/// Returns whether a text is a sign.
pub(super) fn of_text(text: &str, gpus: i64) -> bool {
    of_words(&words(std::iter::once(text)), gpus)
}

fn of_words(words: &[&str], gpus: i64) -> bool {
    let Signs { programs, except, tensor_parallel, pipeline_parallel, .. } = kinds::signs();
    let is = |known: &[String], word: &str| known.iter().any(|known| known == word);
    let program = |word: &&&str| is(programs, word.rsplit('/').next().unwrap_or_default());
    let runs = words.iter().find(program).is_some() && !words.iter().any(|word| is(except, word));
    runs || value_of(words, tensor_parallel).saturating_mul(value_of(words, pipeline_parallel)) > gpus
}

/// The largest value of an option; 1 if it is not there.
fn value_of(words: &[&str], names: &[String]) -> i64 {
    let mut largest = 1;
    for (at, word) in words.iter().enumerate() {
        let (name, value) = word.split_once(['=', ':']).unwrap_or((word, ""));
        let name = name.trim_start_matches('-').replace('_', "-");
        if names.contains(&name) {
            let value = if value.is_empty() { words.get(at + 1).copied().unwrap_or_default() } else { value };
            largest = largest.max(value.trim_start_matches(':').parse().unwrap_or(1));
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_parallelism_beyond_a_pod_are_signs() {
        let sign = |text: &str| of_text(text, 8);
        for text in [
            "torchrun --nnodes=2 train.py",
            "bash -c 'cd /x; /usr/bin/mpirun -np 16 ./a'",
            "python -m torch.distributed.run a.py",
            "vllm serve x --tensor-parallel-size 16",
            "vllm serve x --tensor-parallel-size=8 --pipeline-parallel-size=2",
            "engine_kwargs:\n  tensor_parallel_size: 8\n  pipeline_parallel_size: 2\n",
            "{\"tensor_parallel_size\": 16}",
            "sglang --tp 16",
        ] {
            assert!(sign(text), "{text}");
        }
        for text in [
            "torchrun --standalone train.py",
            "python train.py",
            "vllm serve x --tensor-parallel-size 8",
            "--tp",
            "cp a b",
            "",
        ] {
            assert!(!sign(text), "{text}");
        }
    }
}
