//! Expressions.

use super::{Generator, Heading, Ty};

impl Generator {
    pub(super) fn local(&mut self, wanted: &Ty) -> Option<String> {
        let mut found: Vec<String> =
            self.locals.iter().filter(|l| l.ty == *wanted).map(|l| l.name.clone()).collect();
        found.extend(self.context.ivars.iter().filter(|(_, t)| t == wanted).map(|(n, _)| n.clone()));
        if found.is_empty() {
            return None;
        }
        Some(found.swap_remove(self.below(found.len())))
    }

    /// A local of some type that fits.
    pub(super) fn local_where(&mut self, fits: impl Fn(&Ty) -> bool) -> Option<(String, Ty)> {
        let mut found: Vec<(String, Ty)> =
            self.locals.iter().filter(|l| fits(&l.ty)).map(|l| (l.name.clone(), l.ty.clone())).collect();
        found.extend(self.context.ivars.iter().filter(|(_, t)| fits(t)).cloned());
        if found.is_empty() {
            return None;
        }
        Some(found.swap_remove(self.below(found.len())))
    }

    pub(super) fn raise(&mut self, signals: &[&'static str]) {
        self.raised.extend(signals);
    }

    pub(super) fn list(&mut self, types: &[Ty], depth: usize) -> String {
        types.iter().map(|t| self.expr(t, depth)).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn several(&mut self, ty: &Ty, depth: usize) -> String {
        let n = self.below(5).min(3);
        let types = vec![ty.clone(); n];
        self.list(&types, depth)
    }

    /// An expression of a type. At depth 0 it is small.
    pub(super) fn expr(&mut self, ty: &Ty, depth: usize) -> String {
        if self.chance(if depth == 0 { 1 } else { 3 })
            && let Some(local) = self.local(ty)
        {
            return local;
        }
        if depth > 0
            && self.chance(4)
            && let Some(call) = self.call_of(ty, depth - 1)
        {
            return call;
        }
        if depth > 0
            && self.chance(6)
            && let Some(part) = self.part_of(ty, depth - 1)
        {
            return part;
        }
        if depth > 0 && self.chance(10) && !matches!(ty, Ty::Proc(..)) {
            let (a, b, c) =
                (self.expr(ty, depth - 1), self.expr(ty, depth - 1), self.expr(&Ty::Bool, depth - 1));
            return format!("pick[{}]({a}, {b}, {c})", ty.name());
        }
        let less = depth.saturating_sub(1);
        match ty {
            Ty::Int => self.int(depth),
            Ty::Real => self.real(depth),
            Ty::Bool => self.bool(depth),
            Ty::Char => self.char(depth),
            Ty::String => self.string(depth),
            Ty::Array(t) => self.array(t, less),
            Ty::Sequence(t) => {
                if depth > 0 && self.chance(3) {
                    let (s, v) = (self.expr(ty, less), self.expr(t, less));
                    return match self.below(3) {
                        0 => format!("extended[{}]({s}, {v})", t.name()),
                        1 => {
                            self.raise(&["bounds"]);
                            format!("{s}.replace(1, {v})")
                        }
                        _ => {
                            self.raise(&["bounds"]);
                            format!("{s}.subseq(1, 1).append({v})")
                        }
                    };
                }
                match self.several(t, less) {
                    e if e.is_empty() => format!("sequence_of[{}](..)", t.name()),
                    e => format!("sequence_of[{}](.. {e})", t.name()),
                }
            }
            Ty::List(t) => match self.below(3) {
                0 if depth > 0 => {
                    let (l, v) = (self.expr(ty, less), self.expr(t, less));
                    format!("longer[{}]({l}, {v})", t.name())
                }
                1 if depth > 0 => {
                    let (l, v) = (self.expr(ty, less), self.expr(t, less));
                    self.raise(&["empty"]);
                    format!("{l}.cons({v}).reverse().next()")
                }
                _ => match self.several(t, less) {
                    e if e.is_empty() => format!("list_empty[{}]()", t.name()),
                    e => format!("list_of[{}](.. {e})", t.name()),
                },
            },
            Ty::Cell(t) => format!("cell_new[{}]()", t.name()),
            Ty::Vector(t) => {
                let (n, v) = (self.below(4), self.expr(t, less));
                self.raise(&["bounds"]);
                format!("vector_new[{}]({n}, {v})", t.name())
            }
            Ty::Maybe(t) => match self.below(3) {
                0 => format!("none[{}]()", t.name()),
                1 => format!("maybe[{}]{{some: {}}}", t.name(), self.expr(t, less)),
                _ => format!("some[{}]({})", t.name(), self.expr(t, less)),
            },
            Ty::Map(k, v) => format!("map_new[{}, {}]()", k.name(), v.name()),
            Ty::Record(fields) | Ty::Struct(fields) => {
                let fields: Vec<_> =
                    fields.iter().enumerate().map(|(i, t)| format!("f{i}: {}", self.expr(t, less))).collect();
                format!("{}{{{}}}", ty.name(), fields.join(", "))
            }
            Ty::Oneof(tags) => {
                let i = self.below(tags.len());
                format!("{}{{f{i}: {}}}", ty.name(), self.expr(&tags[i], less))
            }
            Ty::Proc(a, r) => self.procedure(a, r, less),
            Ty::Boxed(t) => format!("new_box[{}]()", t.name()),
            Ty::Any => {
                let ty = self.ty(1);
                self.expr(&ty, less)
            }
            Ty::Object(i) => {
                // The first takes objects of earlier types only, so that the calls end.
                let creators = &self.objects[*i].creators;
                let at = if depth == 0 { 0 } else { self.random.below(creators.len()) };
                let (name, args) = creators[at].clone();
                format!("{name}({})", self.list(&args, less))
            }
        }
    }

    pub(super) fn procedure(&mut self, arg: &Ty, result: &Ty, depth: usize) -> String {
        let fits: Vec<Heading> = self.routines[..self.context.routines]
            .iter()
            .filter(|(h, leaf)| *leaf && h.results == [result.clone()] && h.signals.is_empty())
            .filter(|(h, _)| h.args.iter().filter(|t| *t == arg).count() > 0)
            .map(|(h, _)| h.clone())
            .collect();
        if !fits.is_empty() && self.chance(2) {
            let heading = fits[self.below(fits.len())].clone();
            if heading.args.len() == 1 {
                return heading.name;
            }
            let open = heading.args.iter().position(|t| t == arg).expect("filtered above");
            let args: Vec<String> = (heading.args.iter().enumerate())
                .map(|(i, t)| if i == open { "*".to_owned() } else { self.expr(t, depth) })
                .collect();
            return format!("bind({}, {})", heading.name, args.join(", "));
        }
        let value = self.expr(result, depth.min(1));
        format!("bind(second[{}, {}], *, {value})", arg.name(), result.name())
    }

    pub(super) fn array(&mut self, element: &Ty, depth: usize) -> String {
        let t = element.name();
        match self.below(3) {
            0 => format!("array_new[{t}]()"),
            1 => {
                let low = self.below(4) as i64 - 1;
                match self.several(element, depth) {
                    e if e.is_empty() => format!("array_create[{t}]({low}, ..)"),
                    e => format!("array_create[{t}]({low}, .. {e})"),
                }
            }
            _ => {
                let (low, n) = (self.below(3), self.below(5));
                self.raise(&["bounds"]);
                format!("array_fill[{t}]({low}, {n}, {})", self.expr(element, depth))
            }
        }
    }

    /// A call whose one result has the type.
    pub(super) fn call_of(&mut self, ty: &Ty, depth: usize) -> Option<String> {
        if self.context.calls == 0 {
            return None;
        }
        let in_loop = self.context.loops > 0;
        let mut found: Vec<(Option<usize>, Heading)> = self.routines[..self.context.routines]
            .iter()
            .filter(|(h, leaf)| h.results == [ty.clone()] && (*leaf || !in_loop))
            .map(|(h, _)| (None, h.clone()))
            .collect();
        if !in_loop {
            for (i, object) in self.objects[..self.context.objects].iter().enumerate() {
                let methods = object.methods.iter().filter(|h| h.results == [ty.clone()]);
                found.extend(methods.map(|h| (Some(i), h.clone())));
            }
        }
        if found.is_empty() {
            return None;
        }
        let (object, heading) = found.swap_remove(self.below(found.len()));
        self.context.calls -= 1;
        let receiver = object.map(|i| self.expr(&Ty::Object(i), depth.min(1)));
        let args = self.list(&heading.args, depth.min(1));
        self.raise(&heading.signals);
        Some(match receiver {
            Some(receiver) => format!("{receiver}.{}({args})", heading.name),
            None => format!("{}({args})", heading.name),
        })
    }

    /// Something of the type out of a local that has such a thing inside.
    pub(super) fn part_of(&mut self, ty: &Ty, depth: usize) -> Option<String> {
        let (name, whole) = self.local_where(|t| match t {
            Ty::Array(e) | Ty::Sequence(e) | Ty::List(e) | Ty::Cell(e) | Ty::Vector(e) => **e == *ty,
            Ty::Maybe(e) | Ty::Map(_, e) | Ty::Boxed(e) | Ty::Proc(_, e) => **e == *ty,
            Ty::Record(f) | Ty::Struct(f) | Ty::Oneof(f) => f.contains(ty),
            _ => false,
        })?;
        Some(match &whole {
            Ty::Array(_) | Ty::Sequence(_) | Ty::Vector(_) => {
                self.raise(&["bounds"]);
                match self.below(3) {
                    0 if !matches!(whole, Ty::Vector(_)) => format!("{name}.top()"),
                    1 if !matches!(whole, Ty::Vector(_)) => format!("{name}.bottom()"),
                    _ => format!("{name}[{}]", self.index(depth)),
                }
            }
            Ty::List(_) => {
                self.raise(&["empty"]);
                format!("{name}.first()")
            }
            Ty::Cell(_) => {
                self.raise(&["not_possible"]);
                format!("{name}.get()")
            }
            Ty::Maybe(_) if self.chance(2) => {
                let other = self.expr(ty, depth);
                format!("{name}.value_or({other})")
            }
            Ty::Maybe(_) => {
                self.raise(&["wrong_tag"]);
                format!("{name}.value()")
            }
            Ty::Map(k, _) => {
                self.raise(&["not_found"]);
                let key = self.expr(k, depth);
                format!("{name}[{key}]")
            }
            Ty::Boxed(_) => {
                self.raise(&["empty"]);
                format!("{name}.take()")
            }
            Ty::Proc(arg, _) => {
                let arg = self.expr(arg, depth);
                format!("{name}({arg})")
            }
            Ty::Record(f) | Ty::Struct(f) => {
                let i = f.iter().position(|t| t == ty).expect("filtered above");
                format!("{name}.f{i}")
            }
            Ty::Oneof(f) => {
                let i = f.iter().position(|t| t == ty).expect("filtered above");
                self.raise(&["wrong_tag"]);
                format!("{name}.value_f{i}()")
            }
            _ => return None,
        })
    }

    pub(super) fn index(&mut self, depth: usize) -> String {
        if self.chance(6) { self.expr(&Ty::Int, depth) } else { (1 + self.below(2)).to_string() }
    }

    pub(super) fn int(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.below(40) {
                0 => "9223372036854775807".to_owned(),
                1 => "(-9223372036854775808)".to_owned(),
                2 => "0x7fff_ffff".to_owned(),
                3 => format!("(-{})", self.below(100)),
                _ => self.below(12).to_string(),
            };
        }
        let less = depth - 1;
        let one = |g: &mut Self| g.expr(&Ty::Int, less);
        match self.below(20) {
            op @ 0..=8 => {
                let (a, b) = (one(self), one(self));
                let sign = ["+", "+", "-", "*", "/", "//", "&", "|", "<<"][op];
                match sign {
                    "+" | "-" | "*" => self.raise(&["overflow"]),
                    "/" => self.raise(&["zero", "overflow"]),
                    "//" => self.raise(&["zero"]),
                    "<<" => self.raise(&["bounds"]),
                    _ => {}
                }
                if sign == "<<" && !self.chance(4) {
                    return format!("({a} << ({b} & 31))");
                }
                format!("({a} {sign} {b})")
            }
            9 => {
                let a = one(self);
                self.raise(&["overflow"]);
                // `-7` is a literal, which raises nothing.
                let zero = if a.starts_with(|c: char| c.is_ascii_digit()) { "0 " } else { "" };
                format!("({zero}-{a})")
            }
            10 => format!("(~{})", one(self)),
            11 => {
                let (a, b) = (one(self), one(self));
                format!("{a}.{}({b})", self.random.pick(&["min", "max", "bxor"]))
            }
            12 => {
                let a = one(self);
                self.raise(&["overflow"]);
                format!("{a}.abs()")
            }
            13 => format!("{}.length()", self.expr(&Ty::String, less)),
            14 => format!("{}.to_int()", self.expr(&Ty::Char, less)),
            15 => {
                let r = self.expr(&Ty::Real, less);
                self.raise(&["overflow"]);
                format!("{r}.{}()", self.random.pick(&["floor", "ceiling", "round", "truncate"]))
            }
            16 => {
                let (a, n) = (one(self), self.below(5));
                self.raise(&["negative", "overflow"]);
                format!("({a} ** {n})")
            }
            17 => {
                let s = if self.chance(4) {
                    self.expr(&Ty::String, less)
                } else {
                    format!("{}.unparse()", one(self))
                };
                self.raise(&["bad_format", "overflow"]);
                format!("{s}.to_int()")
            }
            18 => {
                let ty = [Ty::Int, Ty::String, Ty::Char, Ty::Bool][self.below(4)].clone();
                let (a, v) = (self.expr(&Ty::Array(Box::new(ty.clone())), less), self.expr(&ty, less));
                format!("count_like[{}]({a}, {v})", ty.name())
            }
            _ => match self
                .local_where(|t| matches!(t, Ty::Array(_) | Ty::Sequence(_) | Ty::List(_) | Ty::Map(..)))
            {
                Some((name, _)) => format!("{name}.length()"),
                None => one(self),
            },
        }
    }

    pub(super) fn real(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.random.pick(&["0.0", "1.5", "2.25", "(-0.5)", "1.0e10", "3.0"]).to_owned();
        }
        let less = depth - 1;
        let one = |g: &mut Self| g.expr(&Ty::Real, less);
        match self.below(10) {
            op @ 0..=4 => {
                let (a, b) = (one(self), one(self));
                format!("({a} {} {b})", ["+", "-", "*", "/", "+"][op])
            }
            5 => format!("{}.sqrt()", one(self)),
            6 => format!("{}.abs()", one(self)),
            7 => format!("(-{})", one(self)),
            8 => {
                let (a, b) = (one(self), one(self));
                format!("{a}.{}({b})", self.random.pick(&["min", "max"]))
            }
            _ => format!("{}.to_real()", self.expr(&Ty::Int, less)),
        }
    }

    pub(super) fn bool(&mut self, depth: usize) -> String {
        if depth == 0 {
            return if self.chance(2) { "true" } else { "false" }.to_owned();
        }
        let less = depth - 1;
        match self.below(8) {
            0 | 1 => {
                let (a, b) = (self.expr(&Ty::Bool, less), self.expr(&Ty::Bool, less));
                format!("({a} {} {b})", self.random.pick(&["&", "|"]))
            }
            2 => format!("(~{})", self.expr(&Ty::Bool, less)),
            3 => {
                let ty = self.ty(1);
                if ty == Ty::Any {
                    return format!("same_object({}, {})", self.expr(&ty, less), self.expr(&ty, less));
                }
                if !ty.compares() {
                    return self.bool(0);
                }
                let (a, b) = (self.expr(&ty, less), self.expr(&ty, less));
                format!("({a} {} {b})", self.random.pick(&["=", "~="]))
            }
            4 => format!("{}.empty()", self.expr(&Ty::String, less)),
            5 => format!("{}.is_nan()", self.expr(&Ty::Real, less)),
            6 => match self
                .local_where(|t| matches!(t, Ty::Maybe(_) | Ty::Oneof(_) | Ty::Cell(_) | Ty::Boxed(_)))
            {
                Some((name, Ty::Maybe(_))) => format!("{name}.is_some()"),
                Some((name, Ty::Oneof(_))) => format!("{name}.is_f0()"),
                Some((name, _)) => format!("{name}.full()"),
                None => self.bool(0),
            },
            _ => {
                let ty = [Ty::Int, Ty::Int, Ty::Real, Ty::Char, Ty::String][self.below(5)].clone();
                let (a, b) = (self.expr(&ty, less), self.expr(&ty, less));
                format!("({a} {} {b})", self.random.pick(&["<", "<=", ">", ">="]))
            }
        }
    }

    pub(super) fn char(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.random.pick(&["'a'", "'Z'", "'7'", "' '", "'\\n'", "'\\u{e4}'"]).to_owned();
        }
        match self.below(4) {
            0 => format!("{}.upper()", self.expr(&Ty::Char, depth - 1)),
            1 => format!("{}.lower()", self.expr(&Ty::Char, depth - 1)),
            2 => {
                let i = self.expr(&Ty::Int, depth - 1);
                self.raise(&["illegal_char"]);
                if self.chance(4) { format!("{i}.to_char()") } else { format!("({i} & 1023).to_char()") }
            }
            _ => {
                let (s, i) = (self.expr(&Ty::String, depth - 1), self.index(0));
                self.raise(&["bounds"]);
                if self.chance(3) { format!("{s}[{i}]") } else { format!("({s} || \"no\")[{i}]") }
            }
        }
    }

    pub(super) fn string(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .random
                .pick(&["\"\"", "\"a\"", "\"42\"", "\"x y\"", "\"\\u{e4}\\n\"", "\"-7\""])
                .to_owned();
        }
        let less = depth - 1;
        match self.below(7) {
            0 | 1 => {
                let (a, b) = (self.expr(&Ty::String, less), self.expr(&Ty::String, less));
                format!("clip({a} || {b})")
            }
            2 => format!("{}.upper()", self.expr(&Ty::String, less)),
            3 => format!("{}.trim()", self.expr(&Ty::String, less)),
            4 => {
                let s = self.expr(&Ty::String, less);
                self.raise(&["bounds"]);
                format!("({s} || \" \").substr(1, {})", self.below(3))
            }
            5 => format!("{}.to_string()", self.expr(&Ty::Char, less)),
            _ => {
                let ty = self.ty(1);
                if !ty.prints() {
                    return self.string(0);
                }
                format!("clip({}.unparse())", self.expr(&ty, less))
            }
        }
    }
}
