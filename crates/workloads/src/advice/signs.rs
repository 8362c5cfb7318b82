//! The signs that pods work together: launchers, variables, and parallelism beyond the GPUs of a pod.

use serde_json::Value;

use fabric_engine::CONTAINER_LISTS;
use fabric_yaml::json::items;

use super::kinds::{self, Signs, Together};

/// All containers of a pod.
pub(super) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.iter().flat_map(|list| items(spec, list))
}

/// Returns whether the commands or variables of a container are a sign, for pods of a kind with so many GPUs.
pub(super) fn of_container(container: &Value, together: Together, gpus: i64) -> bool {
    let words = ["command", "args"].into_iter().flat_map(|list| items(container, list));
    let text = words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    let mut options = text.clone();
    for variable in items(container, "env") {
        let (Some(name), value) = (variable["name"].as_str(), variable["value"].as_str()) else { continue };
        // Replicas of a service have it, too.
        let is_any = together == Together::Sometimes && name.starts_with("NCCL_DEBUG");
        if !is_any && is_variable(name, value) {
            return true;
        }
        options.extend([" ", name, "=", value.unwrap_or_default()]);
    }
    has_command(&text) || has_more_ranks(&options, gpus)
}

/// Returns whether a text is a sign.
pub(super) fn of_text(text: &str, gpus: i64) -> bool {
    has_command(text) || has_more_ranks(text, gpus)
}

fn has_command(text: &str) -> bool {
    let text = text.replace("\\\n", " ");
    text.split(['\n', ';', '&', '|']).any(|command| of_command(&words(command).collect::<Vec<_>>()))
}

/// Returns whether the options for parallelism need more GPUs than these.
fn has_more_ranks(text: &str, gpus: i64) -> bool {
    let Signs { tensor_parallel, pipeline_parallel, .. } = &kinds::table().signs;
    let words: Vec<&str> = words(text).collect();
    let largest = |names| values_of(&words, names).filter_map(|value| value.parse().ok()).fold(1, i64::max);
    largest(tensor_parallel).saturating_mul(largest(pipeline_parallel)) > gpus
}

/// Returns whether a variable is a sign; one without a value gets it from elsewhere.
fn is_variable(name: &str, value: Option<&str>) -> bool {
    let Signs { env, local, .. } = &kinds::table().signs;
    let is_known = env.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == known,
    });
    is_known && !value.is_some_and(|value| local.iter().any(|local| local == value))
}

/// The words of a text, without the characters around them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| {
        c.is_whitespace()
            || matches!(c, '"' | '\'' | ',' | ';' | '&' | '|' | '(' | ')' | '{' | '}' | '[' | ']')
    };
    text.split(ends).filter(|word| !matches!(*word, "" | ":"))
}

/// Returns whether a command starts a job of several nodes.
fn of_command(words: &[&str]) -> bool {
    let Signs { programs, except, nodes, .. } = &kinds::table().signs;
    let is = |known: &[String], word: &str| known.iter().any(|known| known == word);
    let nodes = values_of(words, nodes).next();
    let runs = words.iter().any(|word| is(programs, word.rsplit('/').next().unwrap_or_default()));
    let sets = |word: &&str| word.split_once('=').is_some_and(|(name, value)| is_variable(name, Some(value)));
    let is_other = nodes == Some("1") || words.iter().any(|word| is(except, word));
    !is_other && (runs || nodes.is_some() || words.iter().any(sets))
}

/// The values of an option, or of a variable whose name ends like it.
fn values_of<'w>(words: &'w [&str], names: &'w [String]) -> impl Iterator<Item = &'w str> {
    words.iter().enumerate().filter_map(|(at, word)| {
        let (name, value) = word.split_once(['=', ':']).unwrap_or((word, ""));
        let is_variable = name.starts_with(|c: char| c.is_ascii_uppercase());
        let name = name.trim_start_matches('-').replace('_', "-").to_ascii_lowercase();
        let is_named = |known: &String| {
            let before = name.strip_suffix(known.as_str());
            before.is_some_and(|before| before.is_empty() || is_variable && before.ends_with('-'))
        };
        let value = if value.is_empty() { words.get(at + 1).copied().unwrap_or_default() } else { value };
        names.iter().any(is_named).then(|| value.trim_start_matches(':'))
    })
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
            "export MASTER_ADDR=a-0.a\npython train.py",
            "cd /x&&torchrun train.py",
            "torchrun \\\n --nnodes $N train.py",
            "accelerate launch --num_machines 2 a.py",
            "NIM_TENSOR_PARALLEL_SIZE=16",
        ] {
            assert!(sign(text), "{text}");
        }
        for text in [
            "torchrun --standalone train.py",
            "python train.py",
            "torchrun --nnodes 1 train.py",
            "torchrun \\\n --nnodes=1 train.py",
            "pip install deepspeed && python train.py",
            "export MASTER_ADDR=localhost; WORLD_SIZE=1 python a.py",
            "vllm serve x --tensor-parallel-size 8",
            "--tp",
            "cp a b",
            "",
        ] {
            assert!(!sign(text), "{text}");
        }
    }
}
