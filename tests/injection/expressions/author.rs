//! Expressions at random that read a pod in all the ways that the language has.

use super::kinds::{CONTAINER, Fields, KEYS, KINDS, Kind, LISTS, OBJECTS, POD, empty, literal};
use crate::properties::generator::Dice;
use Kind::{Flag, List, Number, Object, Text, Texts, Words};

pub(super) struct Author<'d> {
    dice: &'d mut Dice,
    /// The names that can be read, the variables of macros behind those of the engine.
    scope: Vec<(String, Kind)>,
}

impl<'d> Author<'d> {
    pub(super) fn new(dice: &'d mut Dice) -> Self {
        let names = [
            ("node", Texts),
            ("containerEnv", Texts),
            ("container", Object(CONTAINER)),
            ("pod", Object(POD)),
        ];
        Self { dice, scope: names.map(|(name, kind)| (name.to_owned(), kind)).into() }
    }

    pub(super) fn expression(mut self, kind: Option<Kind>) -> String {
        let kind = kind.unwrap_or_else(|| self.dice.pick(&KINDS));
        let depth = 1 + self.dice.below(3);
        self.computed(kind, depth)
    }

    fn value(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.dice.chance(40) { self.selected(kind) } else { self.computed(kind, depth - 1) }
    }

    /// A value that the pod has, or a literal.
    fn selected(&mut self, kind: Kind) -> String {
        let Some((source, optional)) = self.place(kind) else { return literal(self.dice, kind) };
        match self.dice.below(10) {
            _ if !optional => source,
            0 => format!("{source}.value()"),
            1 => match self.place(kind) {
                Some((other, true)) => format!("{source}.or({other}).orValue({})", empty(kind)),
                _ => format!("{source}.orValue({})", literal(self.dice, kind)),
            },
            _ => format!("{source}.orValue({})", empty(kind)),
        }
    }

    /// Goes from a name to a value of this kind. Also says whether it is an optional one.
    fn place(&mut self, kind: Kind) -> Option<(String, bool)> {
        for _ in 0..80 {
            // The variables of macros are few, and should be read often.
            let at =
                if self.dice.chance(50) { self.scope.len() - 1 } else { self.dice.below(self.scope.len()) };
            let (mut source, mut at) = self.scope[at].clone();
            let mut optional = false;
            while at != kind || matches!(at, Object(_)) && self.dice.chance(20) {
                (source, at) = match at {
                    Object(fields) => {
                        let (key, kind) = self.dice.pick(fields);
                        (self.step(&source, key, &mut optional), kind)
                    }
                    Texts => {
                        let key = self.dice.pick(&KEYS);
                        (self.step(&source, key, &mut optional), Text)
                    }
                    Words => (self.index(&source, &mut optional), Text),
                    List(fields) => (self.index(&source, &mut optional), Object(fields)),
                    Flag | Text | Number => break,
                };
                if optional && self.dice.chance(10) {
                    source = format!("{source}.orValue({})", empty(at));
                    optional = false;
                }
            }
            if at == kind {
                return Some((source, optional));
            }
        }
        None
    }

    fn step(&mut self, source: &str, key: &str, optional: &mut bool) -> String {
        let is_first =
            !source.contains(['.', '[']) || source.matches('.').count() == 1 && source.starts_with("pod.");
        *optional |= self.dice.chance(if is_first { 30 } else { 75 });
        let key_of =
            |author: &mut Self| if author.dice.chance(40) { author.key(key) } else { format!("'{key}'") };
        match (*optional, self.dice.chance(65)) {
            (true, true) => format!("{source}.?{key}"),
            (true, false) => format!("{source}[?{}]", key_of(self)),
            (false, true) => format!("{source}.{key}"),
            (false, false) => format!("{source}[{}]", key_of(self)),
        }
    }

    /// A key that is computed.
    fn key(&mut self, key: &str) -> String {
        let texts = self.scope.iter().filter(|(_, kind)| *kind == Text);
        let texts: Vec<String> = texts.map(|(name, _)| name.clone()).collect();
        match self.dice.below(5) {
            0 => format!("'{}' + '{}'", &key[..1], &key[1..]),
            1 => format!("['{key}'][0]"),
            2 => format!("(totalGpus == 3 ? '{key}' : 'x')"),
            _ if !texts.is_empty() => self.dice.pick(&texts),
            _ => format!("'{key} '.trim()"),
        }
    }

    fn index(&mut self, source: &str, optional: &mut bool) -> String {
        let at = self.dice.pick(&["0", "0", "1", "int('0')", "totalGpus - 3"]);
        *optional |= self.dice.chance(70);
        format!("{source}[{}{at}]", if *optional { "?" } else { "" })
    }

    fn computed(&mut self, kind: Kind, depth: usize) -> String {
        if kind != Flag && self.dice.chance(15) {
            let (then, other) = (self.value(kind, depth), self.value(kind, depth));
            return format!("({} ? {then} : {other})", self.value(Flag, depth));
        }
        match kind {
            Flag => self.flag(depth),
            Number => {
                let of = self.dice.pick(&KINDS[2..]);
                let value = self.value(of, depth);
                if self.dice.chance(50) { format!("size({value})") } else { format!("{value}.size()") }
            }
            Text => self.text(depth),
            Texts | Object(_) => self.map(kind, depth),
            Words => self.words(depth),
            List(fields) => self.list(fields, depth),
        }
    }

    fn flag(&mut self, depth: usize) -> String {
        match self.dice.below(12) {
            0 | 1 => self.exists(depth),
            2 | 3 => self.quantified(depth),
            4 => self.by_names(depth),
            5 => {
                let kind = self.dice.pick(&KINDS);
                let (one, other) = (self.value(kind, depth), self.value(kind, depth));
                let other = if self.dice.chance(40) { literal(self.dice, kind) } else { other };
                format!("({one} {} {other})", self.dice.pick(&["==", "!="]))
            }
            6 => {
                let map = if self.dice.chance(50) { Texts } else { Object(self.dice.pick(&OBJECTS)) };
                let key = match map {
                    Object(fields) => self.dice.pick(fields).0,
                    _ => self.dice.pick(&KEYS),
                };
                let key = if self.dice.chance(50) { format!("'{key}'") } else { self.key(key) };
                format!("({key} in {})", self.value(map, depth))
            }
            7 => {
                let fields = self.dice.pick(&LISTS);
                format!("({} in {})", self.value(Object(fields), depth), self.value(List(fields), depth))
            }
            8 => format!(
                "({} {} {})",
                self.value(Flag, depth),
                self.dice.pick(&["&&", "||"]),
                self.value(Flag, depth)
            ),
            9 => format!(
                "({} {} {})",
                self.value(Number, depth),
                self.dice.pick(&["<", ">="]),
                self.value(Number, 0)
            ),
            10 => {
                let call = self.dice.pick(&["startsWith", "endsWith", "contains"]);
                format!("{}.{call}({})", self.value(Text, depth), literal(self.dice, Text))
            }
            _ => format!("!{}", self.value(Flag, depth)),
        }
    }

    /// Whether something is there.
    fn exists(&mut self, depth: usize) -> String {
        let kind = self.dice.pick(&KINDS);
        let Some((source, optional)) = self.place(kind) else { return "true".to_owned() };
        let is_selection =
            source.rsplit_once('.').is_some_and(|(_, last)| last.chars().all(char::is_alphanumeric));
        match self.dice.below(4) {
            _ if optional => format!("{source}.hasValue()"),
            0 => format!("optional.of({source}).hasValue()"),
            1 => format!("optional.ofNonZeroValue({}).hasValue()", self.value(kind, depth)),
            2 if is_selection => format!("has({source})"),
            _ => format!("(type({source}) == type({}))", empty(kind)),
        }
    }

    /// A macro over the entries of a list, or the keys of a map.
    fn quantified(&mut self, depth: usize) -> String {
        let (list, entry) = self.range(depth);
        let name = self.enter(entry);
        let body = self.value(Flag, depth.max(1));
        self.scope.pop();
        format!("{list}.{}({name}, {body})", self.dice.pick(&["exists", "all", "exists_one", "existsOne"]))
    }

    /// A macro over names of fields.
    fn by_names(&mut self, depth: usize) -> String {
        let fields = self.dice.pick(&OBJECTS);
        let names = [self.dice.pick(fields).0, self.dice.pick(fields).0];
        let name = self.enter(Text);
        let object = self.value(Object(fields), depth);
        let body = match self.dice.below(3) {
            0 => format!("{name} in {object}"),
            1 => format!("{object}[?{name}].hasValue()"),
            _ => format!("{object}[?{name}].orValue({{}}) != {{}}"),
        };
        self.scope.pop();
        format!(
            "['{}', '{}'].{}({name}, {body})",
            names[0],
            names[1],
            self.dice.pick(&["exists", "all", "exists_one"])
        )
    }

    fn range(&mut self, depth: usize) -> (String, Kind) {
        match self.dice.below(4) {
            0 => (self.value(Texts, depth), Text),
            1 => (self.value(Words, depth), Text),
            _ => {
                let fields = self.dice.pick(&LISTS);
                (self.value(List(fields), depth), Object(fields))
            }
        }
    }

    /// The name of another variable.
    fn enter(&mut self, kind: Kind) -> String {
        let name = format!("x{}", self.scope.len());
        self.scope.push((name.clone(), kind));
        name
    }

    fn text(&mut self, depth: usize) -> String {
        match self.dice.below(5) {
            0 => format!("({} + {})", self.value(Text, depth), self.value(Text, depth)),
            1 => format!(
                "{}.{}()",
                self.value(Text, depth),
                self.dice.pick(&["lowerAscii", "upperAscii", "trim"])
            ),
            2 => format!("string({})", self.value(Number, depth)),
            _ => format!("{}.join(',')", self.value(Words, depth)),
        }
    }

    fn words(&mut self, depth: usize) -> String {
        let (list, entry) = self.range(depth);
        let name = self.enter(entry);
        let words = match self.dice.below(4) {
            0 => format!("{list}.map({name}, {}, {})", self.value(Flag, depth), self.value(Text, depth)),
            1 if entry == Text => format!("{list}.map({name}, {name}).reverse()"),
            _ => format!("{list}.map({name}, {})", self.value(Text, depth)),
        };
        self.scope.pop();
        words
    }

    fn map(&mut self, kind: Kind, depth: usize) -> String {
        let value = self.value(kind, depth);
        match (self.dice.below(5), kind) {
            (0, _) => format!("dyn({value})"),
            (1, _) => format!("{{'m': {value}}}.m"),
            (2, _) => format!("optional.of({value}).value()"),
            (3, _) => format!("{{'m': {value}}}[?'m'].orValue({{}})"),
            (_, Object(fields)) if LISTS.contains(&fields) => {
                format!("{}[0]", self.value(List(fields), depth))
            }
            _ => format!("[{value}][0]"),
        }
    }

    fn list(&mut self, fields: Fields, depth: usize) -> String {
        let list = self.value(List(fields), depth);
        let name = self.enter(Object(fields));
        let of_entries = match self.dice.below(8) {
            0 => format!("{list}.map({name}, {name})"),
            1 => format!("{list}.reverse()"),
            2 => format!("{list}.slice(0, 1)"),
            3 => format!("[{list}].flatten()"),
            4 => format!("{list}.sortBy({name}, {})", self.selected(Text)),
            _ => format!("{list}.filter({name}, {})", self.value(Flag, depth)),
        };
        self.scope.pop();
        if self.dice.chance(20) {
            format!("({of_entries} + {})", self.value(List(fields), 0))
        } else {
            of_entries
        }
    }
}
