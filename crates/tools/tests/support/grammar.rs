//! Texts of the whole grammar, at random: they parse, and mean nothing.

/// Makes texts from the numbers of a seed.
pub struct Grammar {
    state: u64,
    depth: u32,
    out: String,
}

const NAMES: &[&str] = &["a", "b", "count", "item", "x1", "a_rather_long_name_of_something", "on", "times"];
const TYPES: &[&str] = &["int", "string", "T", "Thing", "real"];

impl Grammar {
    /// A file.
    pub fn file(seed: u64) -> String {
        let mut grammar =
            Grammar { state: seed.wrapping_mul(2).wrapping_add(1), depth: 0, out: String::new() };
        for _ in 0..grammar.below(3) {
            grammar.put("\n");
        }
        for _ in 0..1 + grammar.below(4) {
            grammar.item();
            grammar.put("\n");
        }
        grammar.out
    }

    fn below(&mut self, limit: u64) -> u64 {
        // Knuth's multiplier; the high bits are the good ones.
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % limit
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push(' ');
    }

    /// A place where a line may end.
    fn gap(&mut self) {
        match self.below(14) {
            0 => self.out.push('\n'),
            1 => self.out.push_str("\n\n"),
            2 => self.out.push_str(" % why\n"),
            3 => self.out.push_str("\n% how\n\n"),
            _ => {}
        }
    }

    fn pick(&mut self, from: &[&'static str]) {
        let at = self.below(from.len() as u64) as usize;
        self.put(from[at]);
    }

    fn list(&mut self, least: u64, mut each: impl FnMut(&mut Self)) {
        for at in 0..least + self.below(3) {
            if at > 0 {
                self.put(",");
                self.gap();
            }
            each(self);
        }
    }

    fn name(&mut self) {
        self.pick(NAMES);
    }

    fn names(&mut self) {
        self.list(1, Self::name);
    }

    fn item(&mut self) {
        self.gap();
        self.depth += 1;
        match self.below(10) {
            0 if self.depth < 3 => {
                self.put("module m");
                if self.flip() {
                    self.put("exports");
                    self.names();
                }
                self.gap();
                for _ in 0..self.below(3) {
                    self.item();
                    self.put("\n");
                }
                self.put("end m");
            }
            1 => {
                self.put("size =");
                self.expr();
            }
            2 => self.type_def(),
            3 => self.class_def(),
            4 | 5 => self.actor_def(),
            6 => {
                self.pick(&["remote native \"a::b\"", "native \"a::b\""]);
                self.heading("f");
            }
            7 => {
                self.put("remote");
                self.routine("r");
            }
            _ => self.routine("r"),
        }
        self.depth -= 1;
    }

    fn type_def(&mut self) {
        self.put("S =");
        let mark = self.below(4);
        self.put(["", "immutable", "actor", ""][mark as usize]);
        self.put("type");
        self.parms();
        if self.flip() {
            self.put("<");
            self.list(1, |g| {
                g.ty();
                if g.below(3) == 0 {
                    g.put("{m2 for m, n2 for n}");
                }
            });
        }
        self.wheres();
        for _ in 0..self.below(4) {
            self.gap();
            if self.below(5) == 0 { self.put("k = int") } else { self.heading("m") }
        }
        self.gap();
        self.put("end S");
    }

    fn class_def(&mut self) {
        let native = self.below(4) == 0;
        self.put("C = class");
        self.put(if native { "native \"a::C\"" } else { "" });
        self.parms();
        self.implements();
        if !native && self.flip() {
            self.put("inherits Base {old_m for m}");
        }
        self.wheres();
        if self.flip() {
            self.put("provides m, n hides o");
        }
        for _ in 0..self.below(5) {
            self.gap();
            match self.below(4) {
                _ if native => self.heading("m"),
                0 | 1 => self.variables(),
                2 => {
                    self.put("make_it (x: int) makes (C)");
                    self.body();
                    self.put("end make_it");
                }
                _ => self.routine("m"),
            }
        }
        self.gap();
        self.put("end C");
    }

    fn actor_def(&mut self) {
        let native = self.below(4) == 0;
        self.put("A =");
        self.pick(&["functional actor", "actor", "actor persistent"]);
        self.put(if native { "native \"a::A\"" } else { "" });
        self.parms();
        self.implements();
        self.wheres();
        for _ in 0..self.below(5) {
            self.gap();
            match self.below(5) {
                0 if native => self.put("new (x: int)"),
                _ if native => self.heading("m"),
                0 => self.variables(),
                1 => {
                    self.put("new (x: int)");
                    self.body();
                    self.put("end new");
                }
                2 => {
                    self.put("disable m");
                    self.pick(&["(x, y)", ""]);
                    self.put("when");
                    self.expr();
                }
                _ => self.routine("m"),
            }
        }
        self.gap();
        self.put("end A");
    }

    fn variables(&mut self) {
        self.names();
        self.put(":");
        self.ty();
        self.pick(&[";", ""]);
    }

    fn implements(&mut self) {
        if self.flip() {
            self.put("implements");
            self.list(1, Self::ty);
        }
    }

    fn parms(&mut self) {
        if self.flip() {
            self.put("[T, U]");
        }
    }

    fn wheres(&mut self) {
        if self.below(3) == 0 {
            self.put("where T has");
            self.gap();
            self.put("equal (T) returns (bool), hash () returns (int), U has less (U, U)");
        }
    }

    fn heading(&mut self, name: &'static str) {
        self.put(name);
        self.parms();
        self.put("(");
        if self.flip() {
            self.decls();
        }
        self.put(")");
        self.outcome();
        self.wheres();
    }

    fn outcome(&mut self) {
        if self.flip() {
            self.gap();
            self.pick(&["returns (", "yields ("]);
            self.list(1, Self::ty);
            self.put(")");
        }
        if self.flip() {
            self.pick(&["signals (", ", signals ("]);
            self.list(1, |g| {
                g.name();
                g.pick(&["(int, string)", ""]);
            });
            self.put(")");
        }
    }

    fn decls(&mut self) {
        self.list(1, |g| {
            g.names();
            g.put(":");
            g.ty();
        });
    }

    fn ty(&mut self) {
        self.depth += 1;
        match self.below(if self.depth > 5 { 1 } else { 6 }) {
            0..3 => self.pick(TYPES),
            3 => {
                self.put("array[");
                self.list(1, Self::ty);
                self.put("]");
            }
            4 => {
                self.pick(&["record[", "struct[", "oneof["]);
                self.decls();
                self.put("]");
            }
            _ => {
                self.pick(&["proc (", "iter ("]);
                self.list(0, Self::ty);
                self.put(")");
                self.outcome();
            }
        }
        self.depth -= 1;
    }

    fn routine(&mut self, name: &'static str) {
        self.heading(name);
        self.body();
        self.put("end");
        self.put(name);
    }

    fn body(&mut self) {
        self.depth += 1;
        self.gap();
        let count = if self.depth > 6 { 0 } else { self.below(4) };
        for at in 0..count {
            if at > 0 {
                let end = self.below(3);
                self.put([";", "\n", "; ;"][end as usize]);
                self.gap();
            }
            self.stmt();
        }
        self.gap();
        self.depth -= 1;
    }

    fn closed(&mut self, opener: &'static str) {
        self.put(opener);
        self.body();
        self.put("end");
    }

    fn stmt(&mut self) {
        match self.below(20) {
            0 => {
                self.decls_of_statement();
                if self.flip() {
                    self.put(":=");
                    self.list(1, Self::expr);
                }
            }
            1 | 2 => {
                self.list(1, Self::name);
                self.put(":=");
                self.list(1, Self::expr);
            }
            3 => {
                self.put("if");
                self.expr();
                self.put("then");
                self.body();
                for _ in 0..self.below(2) {
                    self.put("elseif");
                    self.expr();
                    self.put("then");
                    self.body();
                }
                if self.flip() {
                    self.put("else");
                    self.body();
                }
                self.put("end");
            }
            4 => {
                self.put("while");
                self.expr();
                self.closed("do");
            }
            5 => {
                self.put("for");
                if self.flip() {
                    self.decls()
                } else {
                    self.names()
                }
                self.put("in");
                self.expr();
                self.closed("do");
            }
            6 => self.pick(&["break", "continue", "return", "signal gone"]),
            7 => self.closed("begin"),
            8 => self.closed("transaction"),
            9 => {
                self.pick(&["return (", "yield (", "signal bad(", "exit bad("]);
                self.list(1, Self::expr);
                self.put(")");
            }
            10 => {
                self.put("tagcase");
                self.expr();
                self.put("when a, b (v: int):");
                self.body();
                self.others();
            }
            11 => {
                self.put("typecase");
                self.expr();
                self.put("when Thing[int] (v):");
                self.body();
                self.others();
            }
            12 => {
                self.put("make {");
                self.inits();
                self.put("}");
                if self.flip() {
                    self.closed("then");
                }
            }
            13 => {
                self.pick(&["send", "delegate"]);
                self.expr();
            }
            14 => {
                self.put("reply (");
                if self.flip() {
                    self.expr();
                }
                self.put(")");
            }
            15 => {
                self.put("wait when get (x: int)");
                if self.flip() {
                    self.put("if");
                    self.expr();
                }
                self.put(":");
                self.body();
                if self.flip() {
                    self.put("after 10:");
                    self.body();
                }
                self.put("end");
            }
            _ => self.expr(),
        }
        match self.below(8) {
            0 => {
                self.gap();
                self.put("resignal");
                self.names();
            }
            1 => {
                self.gap();
                self.put("except when a, b");
                self.pick(&["", "(*)", "(x: int, y, z: real)"]);
                self.put(":");
                self.body();
                if self.flip() {
                    self.put("others");
                    self.pick(&["", "(n: string)"]);
                    self.put(":");
                    self.body();
                }
                self.put("end");
            }
            _ => {}
        }
    }

    fn decls_of_statement(&mut self) {
        self.names();
        self.put(":");
        self.ty();
    }

    fn others(&mut self) {
        if self.flip() {
            self.gap();
            self.put("others:");
            self.body();
        }
        self.put("end");
    }

    fn inits(&mut self) {
        self.list(1, |g| {
            g.name();
            g.put(":=");
            g.expr();
        });
        self.pick(&["", "; make_it(1)", ";"]);
    }

    fn expr(&mut self) {
        self.depth += 1;
        let kinds = if self.depth > 7 { 6 } else { 18 };
        match self.below(kinds) {
            0 => self.pick(&[
                "1",
                "0xFF",
                "1_000",
                "2.5e3",
                "'c'",
                "'\\''",
                "\"a % b\"",
                "- 9223372036854775808",
            ]),
            1 => self.pick(&["true", "nil", "self", "replyto"]),
            2..6 => self.name(),
            6 | 7 => {
                self.expr();
                self.pick(&["|", "&", "+", "-", "||", "*", "/", "//", "<<", "**", ">>"]);
                self.gap();
                self.expr();
            }
            8 => {
                self.put("(");
                self.expr();
                self.pick(&["=", "~=", "<", ">="]);
                self.expr();
                self.put(")");
            }
            9 => {
                self.pick(&["-", "~", "clone"]);
                self.expr();
            }
            10 | 11 => {
                self.name();
                self.put(".");
                self.name();
                self.put("(");
                self.gap();
                self.list(0, Self::expr);
                self.pick(&["", "..", ".. 1, 2"]);
                self.put(")");
            }
            12 => {
                self.put("a[");
                self.list(1, Self::expr);
                self.put("]");
            }
            13 => {
                self.put("record[a: int]{a:");
                self.expr();
                self.put("}");
            }
            14 => {
                self.put("C[int]{");
                if self.flip() {
                    self.inits();
                }
                self.put("}");
            }
            15 => {
                self.put("A.new(");
                self.list(0, Self::expr);
                self.pick(&[")", ") anywhere", ") on k", ") times n"]);
            }
            16 => {
                self.put("bind(f, *,");
                self.expr();
                self.put(")");
            }
            _ => self.put("\"another string, which is not short, so that lines have to end somewhere\""),
        }
        self.depth -= 1;
    }
}
