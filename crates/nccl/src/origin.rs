//! The origin of a line: the pod before it, and the process within it.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// The process before a line of UCX, `[host:pid:tid]` with spaces between the numbers.
static UCX: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\[(?<host>[A-Za-z][\w.-]*):(?<pid>\d+)\s*(?::\d+)+\]").ok());

/// Groups in brackets, numbers and times, the names of a pod and of its container, the name of a host.
static PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^(?:\s|\[[^\]]*\]|\([^)]*\)|<\w+>|[:|›]|\d[\w:.,+-]*|[\w.]+(?:-[\w.]+)+ [\w.-]+ |[\w.-]+: )*$",
    )
    .ok()
});

/// The keys of the line in the JSON of docker and of log collectors.
const LINE_KEYS: [&str; 4] = ["log", "message", "msg", "textPayload"];

const TAGS: [&str; 2] = ["NCCL INFO ", "NCCL WARN "];

/// The prefixes that log collectors and launchers write before a line, and the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin<'l> {
    /// The pod, of the prefix of `kubectl logs --prefix` or `stern`.
    pub(super) pod: Option<&'l str>,
    /// Host and process, if NCCL, a plugin of it or UCX wrote the line.
    pub(super) process: Option<(&'l str, u32)>,
    /// True for a line that is only there with `NCCL_DEBUG=INFO`.
    pub(super) is_info: bool,
    /// True for a line of NCCL, even if an editor or a collector took its process away.
    pub(super) is_nccl: bool,
}

impl<'l> Origin<'l> {
    /// The line from its process on. UCX writes that in brackets.
    pub(super) fn own(&self, line: &'l str) -> &'l str {
        let begin = self.process.map_or(0, |(host, _)| host.as_ptr() as usize - line.as_ptr() as usize);
        &line[begin - usize::from(line[..begin].ends_with('['))..]
    }

    /// Reads a line without colors. A line that a script quotes is none of NCCL's.
    pub(super) fn parse(line: &'l str) -> Self {
        let found =
            TAGS.iter().chain(&[" INFO ", " WARN "]).find_map(|level| Some((*level, line.find(level)?)));
        let of_nccl = found.and_then(|(_, at)| process(&line[..at]));
        let process = of_nccl.or_else(|| ucx_process(line));
        let head = process.map_or(line, |(host, _)| &line[..host.as_ptr() as usize - line.as_ptr() as usize]);
        let process = process.filter(|_| !is_quotation(head));
        let is_tagged = || TAGS.iter().filter_map(|tag| line.find(tag)).any(|at| is_prefix(&line[..at]));
        let is_nccl = process.is_some() || is_tagged();
        let is_info = is_nccl && found.is_some_and(|(level, _)| level.contains("INFO"));
        Self { pod: pod(head), process, is_info, is_nccl }
    }
}

/// Returns whether a text before a line begins a quotation, such as the commands that `set -x` prints.
fn is_quotation(head: &str) -> bool {
    head.contains(['"', '\'', '`']) || head.starts_with("+ ")
}

/// Returns whether a text consists of what launchers and collectors write before a line.
fn is_prefix(head: &str) -> bool {
    !is_quotation(head) && PREFIX.as_ref().is_some_and(|prefix| prefix.is_match(head))
}

/// The process of a line that UCX wrote.
fn ucx_process(line: &str) -> Option<(&str, u32)> {
    let is_ucx = [" UCX ", "] Caught signal ", "]   | "].iter().any(|text| line.contains(text));
    let found = UCX.as_ref().filter(|_| is_ucx)?.captures(line)?;
    Some((found.name("host")?.as_str(), found["pid"].parse().ok()?))
}

/// The last `host:pid:tid [device]` of a text. A plugin writes its function between that and the level.
fn process(head: &str) -> Option<(&str, u32)> {
    head.rmatch_indices(" [").find_map(|(at, _)| {
        let device = head[at + 2..].split(']').next()?;
        device.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
        let word = head[..at].rsplit([' ', '>', '\t', '|']).next()?;
        let (rest, thread) = word.rsplit_once(':')?;
        thread.parse::<u64>().ok()?;
        let (host, process) = rest.rsplit_once(':')?;
        // A launcher puts `[1,0]<stdout>:` or `[trainer3]:` before it.
        let host = host.rsplit([':', ']', '/']).next()?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        (!host.is_empty() && host.bytes().all(is_name)).then_some((host, process.parse().ok()?))
    })
}

/// The records of a line: processes that share a pipe can write theirs into one.
pub(super) fn records(line: &str) -> Vec<&str> {
    let (mut begins, mut from) = (vec![0], 0);
    while let Some(tag) = TAGS.iter().filter_map(|tag| line[from..].find(tag)).min().map(|at| from + at) {
        if from > 0
            && let Some((host, _)) = process(&line[from..tag])
            && !is_quotation(&line[..from])
        {
            begins.push(host.as_ptr() as usize - line.as_ptr() as usize);
        }
        from = tag + TAGS[0].len();
    }
    let ends = begins.iter().skip(1).copied().chain([line.len()]);
    begins.iter().zip(ends).map(|(begin, end)| &line[*begin..end]).collect()
}

/// The pod of `[pod/NAME/CONTAINER] `, or of stern's `NAME CONTAINER `.
fn pod(head: &str) -> Option<&str> {
    if let Some(rest) = head.strip_prefix("[pod/") {
        return rest.split('/').next();
    }
    let mut words = head.split(' ').filter(|word| *word != "›");
    let (name, container) = (words.next()?, words.next()?);
    let is_name = |word: &str| {
        let is_character =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        word.contains(|c: char| c.is_ascii_lowercase()) && word.bytes().all(is_character)
    };
    (is_name(name) && is_name(container) && name.contains('-')).then_some(name)
}

/// The line without the container runtime's format, its own or docker's JSON, and without colors.
pub(super) fn unwrapped(line: &str) -> Cow<'_, str> {
    if line.starts_with('{')
        && let Ok(serde_json::Value::Object(mut entry)) = serde_json::from_str(line)
        && let Some(serde_json::Value::String(text)) =
            LINE_KEYS.iter().find_map(|key| entry.shift_remove(*key))
    {
        return Cow::Owned(without_colours(text.trim_end()).into_owned());
    }
    let of_cri = || {
        let (time, rest) = line.split_once(' ')?;
        let rest = rest.strip_prefix("stdout ").or_else(|| rest.strip_prefix("stderr "))?;
        let text = rest.strip_prefix("F ").or_else(|| rest.strip_prefix("P "))?;
        time.contains('T').then_some(text)
    };
    without_colours(of_cri().unwrap_or(line))
}

fn without_colours(line: &str) -> Cow<'_, str> {
    if !line.contains('\x1b') {
        return Cow::Borrowed(line);
    }
    let mut parts = line.split('\x1b');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part.strip_prefix('[').and_then(|rest| {
            let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
            Some(&rest[end + 1..])
        });
        text.push_str(after.unwrap_or(part));
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_line_is_no_part_of_it() {
        let nccl = "pod-0:12:34 [0] NCCL INFO Using network IB";
        for (line, pod) in [
            (nccl.to_owned(), None),
            (format!("[pod/train-0/main] {nccl}"), Some("train-0")),
            (format!("train-0 main {nccl}"), Some("train-0")),
            (format!("train-0 › main {nccl}"), Some("train-0")),
            (format!("[1,0]<stdout>:{nccl}"), None),
            (format!("[trainer3]:{nccl}"), None),
            (format!("[155] {nccl}"), None),
            (format!("(RayWorker pid=1148) {nccl}"), None),
            (format!("2024-11-28T07:42:11.527123456Z {nccl}"), None),
            (format!("[2026-03-13 22:26:02] {nccl}"), None),
            ("pod-0:12:34 [0] transport/net.cc:12 (f) NCCL INFO a".to_owned(), None),
            ("pod-0:12:34 [0] int create(a_t**):352 NCCL INFO NET/OFI a".to_owned(), None),
            ("[1716918990.470197] [pod-0:12  :0]      ucp_worker.c:1888 UCX  INFO  a".to_owned(), None),
        ] {
            let origin = Origin::parse(&line);
            assert_eq!((origin.process, origin.is_info), (Some(("pod-0", 12)), true), "{line}");
            assert_eq!(origin.pod, pod, "{line}");
        }
        for line in ["hello world", "a b", "12:34 [0] NCCL INFO", "NCCL WARN x", ""] {
            assert_eq!(Origin::parse(line).process, None, "{line}");
        }
    }

    #[test]
    fn quotations_are_no_lines_of_nccl() {
        let nccl = "pod-0:12:34 [0] NCCL INFO Using network IB";
        for line in [
            format!("+ echo {nccl}"),
            format!("+ echo '{nccl}'"),
            format!("looking for \"{nccl}\""),
            format!("looking for \"the line {nccl}\""),
            "+ grep -c 'NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA' log".to_owned(),
            "looking for NCCL INFO Using network IB".to_owned(),
            "echo train NCCL INFO Using network IB".to_owned(),
        ] {
            let origin = Origin::parse(&line);
            assert_eq!((origin.process, origin.is_nccl), (None, false), "{line}");
        }
        for line in [
            "",
            "[pod/a/b] ",
            "a-0 main ",
            "[1,0]<stdout>:",
            "2026-01-01T00:00:00Z ",
            "0: ",
            "(Ray pid=1, ip=2) ",
        ] {
            assert!(Origin::parse(&format!("{line}NCCL INFO Using network IB")).is_nccl, "{line}");
        }
    }

    #[test]
    fn records_that_share_a_line_are_told_apart() {
        let (one, other) =
            ("a:1:1 [0] NCCL INFO Using network IB", "b:2:2 [0] NCCL INFO Using network Socket");
        assert_eq!(records(&format!("{one} {other}")), [&format!("{one} "), other]);
        assert_eq!(records(one), [one]);
        assert_eq!(records("x NCCL INFO y NCCL INFO z"), ["x NCCL INFO y NCCL INFO z"]);
    }

    #[test]
    fn runtimes_and_colours_are_taken_off() {
        assert_eq!(unwrapped("2024-01-01T00:00:00.0Z stdout F a b"), "a b");
        assert_eq!(unwrapped("{\"log\":\"a \\u001b[36mb\\u001b[0m\\n\",\"stream\":\"stdout\"}"), "a b");
        assert_eq!(unwrapped("{\"severity\":\"INFO\",\"message\":\"a b\"}"), "a b");
        assert_eq!(unwrapped("{\"log\": broken"), "{\"log\": broken");
        assert_eq!(unwrapped("\x1b[1;36ma\x1b[0m b \x1b"), "a b ");
    }
}
