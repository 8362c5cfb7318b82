//! Places in a pod, as a warning names them.

/// The keys of maps, and of lists what identifies the entry.
pub(crate) type Place = Vec<String>;

/// A limit and its request are reported once.
pub(crate) fn without_list(place: &[String]) -> Place {
    place.iter().map(|token| if token == "requests" { "limits".to_owned() } else { token.clone() }).collect()
}

/// `spec.containers[main].env[A]` in pieces.
pub(crate) fn tokens(path: &str) -> Place {
    let mut tokens = vec![String::new()];
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' if !inside => {
                inside = true;
                tokens.push(String::new());
            }
            ']' if inside => inside = false,
            '.' if !inside => tokens.push(String::new()),
            c => tokens.last_mut().unwrap().push(c),
        }
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

/// A path without double and trailing slashes.
pub(crate) fn clean(path: &str) -> String {
    if !path.starts_with('/') {
        return path.to_owned();
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("/{}", parts.join("/"))
}

/// The kind of field: the place without the names of entries.
pub(crate) fn class(place: &Place) -> String {
    let lists = [
        "containers",
        "initContainers",
        "env",
        "volumeMounts",
        "limits",
        "requests",
        "annotations",
        "labels",
    ];
    let mut tokens: Vec<&str> = Vec::new();
    for token in place {
        let name = tokens.last().is_some_and(|last| lists.contains(last));
        tokens.push(if name { "*" } else { token });
    }
    tokens.join("/")
}
