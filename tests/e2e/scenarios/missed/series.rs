//! The series that the expression of an alert selects.

/// A series by its name, with the matchers for its labels: label, operator and value.
type Selector<'e> = (&'e str, Vec<(&'e str, &'e str, &'e str)>);

/// The selectors of an expression. Prometheus adds the namespace of the servers when it scrapes.
fn selectors(expression: &str) -> Vec<Selector<'_>> {
    let found = expression.match_indices('{').map(|(at, _)| {
        let head = &expression[..at];
        let name = head.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
        let matchers = expression[at + 1..].split('}').next().unwrap().split(',').map(|matcher| {
            let (label, rest) = matcher.split_at(matcher.find(['=', '!']).unwrap());
            let (operator, value) = rest.split_at(rest.find('"').unwrap());
            (label.trim(), operator, value.trim_matches('"'))
        });
        (name.unwrap(), matchers.filter(|(label, ..)| *label != "namespace").collect())
    });
    found.collect()
}

/// The samples of metrics as text that an expression selects, and that have these labels, added up.
pub(super) fn selected(metrics: &str, expression: &str, labels: &[(&str, &str)]) -> f64 {
    let selectors = selectors(expression);
    let value = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, rest) = series.split_once('{').unwrap_or((series, ""));
        let label = |key: &str| {
            let mut pairs = rest.trim_end_matches('}').split("\",");
            pairs
                .find_map(|pair| pair.split_once("=\"").filter(|(name, _)| *name == key))
                .map(|(_, value)| value.trim_end_matches('"'))
        };
        let is_matched = |(key, operator, wanted): &(&str, &str, &str)| {
            let is_one = wanted.split('|').any(|one| label(key).unwrap_or_default() == one);
            is_one != operator.starts_with('!')
        };
        let is_selected = selectors.iter().any(|(wanted, all)| *wanted == name && all.iter().all(is_matched));
        let has_labels = labels.iter().all(|(key, wanted)| label(key) == Some(wanted));
        (is_selected && has_labels).then(|| value.parse::<f64>().ok())?
    };
    metrics.lines().filter(|line| !line.starts_with('#')).filter_map(value).sum()
}
