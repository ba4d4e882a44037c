//! OO7 once more, in plain structures, for the numbers that operations must give, and for what is loaded into others'
//! databases (`bench/oo7/peers`). Ids are positions plus one.

use std::collections::HashSet;

/// The additive feedback generator of the C library.
pub struct Random {
    numbers: Vec<u32>,
}

impl Random {
    pub fn new(seed: u32) -> Random {
        let mut word = if seed == 0 { 1 } else { seed as i32 };
        let mut numbers = vec![word as u32];
        for _ in 1..31 {
            word = 16807_i32.wrapping_mul(word % 127_773).wrapping_sub(2836_i32.wrapping_mul(word / 127_773));
            if word < 0 {
                word += i32::MAX;
            }
            numbers.push(word as u32);
        }
        for i in 0..3 {
            numbers.push(numbers[i]);
        }
        let mut random = Random { numbers };
        for _ in 0..310 {
            random.draw();
        }
        random
    }

    pub fn draw(&mut self) -> i64 {
        let n = self.numbers.len();
        let next = self.numbers[n - 3].wrapping_add(self.numbers[n - 31]);
        self.numbers.push(next);
        i64::from(next >> 1)
    }

    pub fn below(&mut self, n: i64) -> i64 {
        self.draw() % n
    }
}

#[derive(Clone, Copy)]
pub struct Sizes {
    pub atomic: usize,
    pub fan: usize,
    pub document: usize,
    pub manual: usize,
    pub composites: usize,
    pub levels: usize,
    pub modules: usize,
}

impl Sizes {
    pub fn named(name: &str) -> Sizes {
        if name == "test3x3" {
            return Sizes { modules: 3, ..Sizes::named("test3") };
        }
        let fan = name.trim_start_matches(char::is_alphabetic).parse().unwrap_or(3);
        let (atomic, document, manual, composites, levels, modules) =
            match name.trim_end_matches(char::is_numeric) {
                "test" => (20, 20, 1_000, 5, 3, 1),
                "tiny" => (20, 20, 1_000, 50, 7, 1),
                "small" => (20, 2_000, 100_000, 500, 7, 1),
                "medium" => (200, 20_000, 1_000_000, 500, 7, 1),
                "large" => (200, 20_000, 1_000_000, 500, 7, 10),
                other => panic!("no size {other}"),
            };
        Sizes { atomic, fan, document, manual, composites, levels, modules }
    }

    pub fn total(&self) -> usize {
        self.modules * self.composites
    }
}

pub struct Module {
    pub kind: i64,
    pub date: i64,
    pub title: String,
    pub manual: String,
    pub root: usize,
}

#[derive(Clone, Copy)]
pub enum Assembly {
    Complex(usize),
    Base(usize),
}

pub struct Complex {
    pub kind: i64,
    pub date: i64,
    pub above: Option<usize>,
    pub below: Vec<Assembly>,
}

pub struct Base {
    pub kind: i64,
    pub date: i64,
    pub above: usize,
    pub private: Vec<usize>,
    pub shared: Vec<usize>,
}

pub struct Composite {
    pub kind: i64,
    pub date: i64,
    pub title: String,
    pub text: String,
    /// In the order in which base assemblies began to use it.
    pub private_users: Vec<usize>,
    pub shared_users: Vec<usize>,
}

pub struct Atomic {
    pub kind: i64,
    pub date: i64,
    pub x: i64,
    pub y: i64,
    pub document: usize,
    /// Kind, length and target.
    pub to: Vec<(i64, i64, usize)>,
    pub from: Vec<usize>,
}

pub struct Oracle {
    pub sizes: Sizes,
    pub random: Random,
    pub modules: Vec<Module>,
    pub complexes: Vec<Complex>,
    pub bases: Vec<Base>,
    pub composites: Vec<Composite>,
    pub atomics: Vec<Atomic>,
}

fn text(line: &str, size: usize) -> String {
    line.chars().cycle().take(size - 1).collect()
}

impl Oracle {
    pub fn new(size: &str, seed: u32) -> Oracle {
        let sizes = Sizes::named(size);
        let mut o = Oracle {
            sizes,
            random: Random::new(seed),
            modules: Vec::new(),
            complexes: Vec::new(),
            bases: Vec::new(),
            composites: Vec::new(),
            atomics: Vec::new(),
        };
        for module in 0..sizes.modules {
            let (kind, date) = o.kind_and_date();
            let manual = text(&format!("I am the manual for module #{:08}.\n", module + 1), sizes.manual);
            let title = format!("Manual         {:08}", module + 1);
            let root = o.complex(module, None, 1);
            o.modules.push(Module { kind, date, title, manual, root });
        }
        for _ in 0..sizes.total() {
            o.composite();
        }
        for base in 0..o.bases.len() {
            for composite in o.bases[base].private.clone() {
                o.composites[composite].private_users.push(base);
            }
            for composite in o.bases[base].shared.clone() {
                o.composites[composite].shared_users.push(base);
            }
        }
        o
    }

    fn kind_and_date(&mut self) -> (i64, i64) {
        (self.random.below(10), 1000 + self.random.below(1000))
    }

    fn complex(&mut self, module: usize, above: Option<usize>, level: usize) -> usize {
        let (kind, date) = self.kind_and_date();
        let this = self.complexes.len();
        self.complexes.push(Complex { kind, date, above, below: Vec::new() });
        for _ in 0..3 {
            let below = match level < self.sizes.levels - 1 {
                true => Assembly::Complex(self.complex(module, Some(this), level + 1)),
                false => Assembly::Base(self.base(module, this)),
            };
            self.complexes[this].below.push(below);
        }
        this
    }

    fn base(&mut self, module: usize, above: usize) -> usize {
        let (kind, date) = self.kind_and_date();
        let (own, all) = (self.sizes.composites, self.sizes.total() as i64);
        let private = (0..3).map(|_| module * own + self.random.below(own as i64) as usize).collect();
        let shared = (0..3).map(|_| self.random.below(all) as usize).collect();
        self.bases.push(Base { kind, date, above, private, shared });
        self.bases.len() - 1
    }

    fn composite(&mut self) {
        let id = self.composites.len() + 1;
        let kind = self.random.below(10);
        let date = self.random.below(1000) + if id.is_multiple_of(10) { 2000 } else { 0 };
        let text =
            text(&format!("I am the documentation for composite part #{id:08}.\n"), self.sizes.document);
        let title = format!("Composite Part {id:08}");
        let (private_users, shared_users) = (Vec::new(), Vec::new());
        self.composites.push(Composite { kind, date, title, text, private_users, shared_users });
        let (first, n) = (self.atomics.len(), self.sizes.atomic);
        for _ in 0..n {
            let (kind, date) = self.kind_and_date();
            let (x, y) = (self.random.below(100_000), self.random.below(100_000));
            let document = self.random.below(self.sizes.total() as i64) as usize;
            self.atomics.push(Atomic { kind, date, x, y, document, to: Vec::new(), from: Vec::new() });
        }
        for i in 0..n {
            for k in 0..self.sizes.fan {
                let target = first + if k == 0 { (i + 1) % n } else { self.random.below(n as i64) as usize };
                let (kind, length) = (self.random.below(10), self.random.below(100_000));
                self.atomics[first + i].to.push((kind, length, target));
                self.atomics[target].from.push(first + i);
            }
        }
    }

    /// What the operation gives, as the program prints it.
    pub fn run(&mut self, op: &str) -> String {
        let n = match op {
            "check" => return "right".to_owned(),
            "T1" | "T1WW" => self.visited(0).len() as i64,
            "T2a" => self.change(true, 1, swap),
            "T2b" => self.change(false, 1, swap),
            "T2c" => self.change(false, 4, swap),
            "T3a" => self.change(true, 1, toggle),
            "T3b" => self.change(false, 1, toggle),
            "T3c" => self.change(false, 4, toggle),
            "T4" => self.uses(0).iter().map(|c| letters(&self.composites[*c].text)).sum(),
            "T5do" => self.replace("I am", "This is"),
            "T5undo" => self.replace("This is", "I am"),
            "T6" => self.uses(0).len() as i64,
            "T7" => self.above_random(),
            "T8" => letters(&self.modules[0].manual),
            "T9" => i64::from(self.modules[0].manual.chars().next() == self.modules[0].manual.chars().last()),
            "T10" => (0..self.modules.len()).map(|m| self.visited(m).len() as i64).sum(),
            "CU" => self.change(true, 1, swap),
            "Q1" => 10,
            "Q2" => self.atomics.iter().filter(|a| a.date >= 1990).count() as i64,
            "Q3" => self.atomics.iter().filter(|a| a.date >= 1900).count() as i64,
            "Q4" => self.users_of_random(),
            "Q5" => (0..self.bases.len())
                .filter(|b| self.newest(Assembly::Base(*b)) > self.bases[*b].date)
                .count() as i64,
            "Q6" => self.outdated(),
            "Q7" => self.atomics.len() as i64,
            "Q8" => self.atomics.iter().filter(|a| a.document < self.composites.len()).count() as i64,
            "insert" => self.insert(),
            "delete" => self.delete(),
            "fingerprint" => self.fingerprint(),
            other => panic!("no operation {other}"),
        };
        n.to_string()
    }

    /// The base assemblies below, in order.
    fn bases_below(&self, at: Assembly, found: &mut Vec<usize>) {
        match at {
            Assembly::Base(b) => found.push(b),
            Assembly::Complex(c) => self.complexes[c].below.iter().for_each(|a| self.bases_below(*a, found)),
        }
    }

    /// The composite parts that a traversal of the module comes to.
    fn uses(&self, module: usize) -> Vec<usize> {
        let mut bases = Vec::new();
        self.bases_below(Assembly::Complex(self.modules[module].root), &mut bases);
        bases.into_iter().flat_map(|b| self.bases[b].private.clone()).collect()
    }

    /// The atomic parts that it comes to, and whether each is a root part.
    fn visited(&self, module: usize) -> Vec<(usize, bool)> {
        let mut visited = Vec::new();
        for composite in self.uses(module) {
            let root = composite * self.sizes.atomic;
            let (mut seen, mut open) = (HashSet::new(), vec![root]);
            while let Some(at) = open.pop() {
                if seen.insert(at) {
                    visited.push((at, at == root));
                    open.extend(self.atomics[at].to.iter().map(|(_, _, target)| *target));
                }
            }
        }
        visited
    }

    fn change(&mut self, roots: bool, times: usize, change: fn(&mut Atomic)) -> i64 {
        let mut n = 0;
        for (at, is_root) in self.visited(0) {
            if is_root || !roots {
                (0..times).for_each(|_| change(&mut self.atomics[at]));
                n += times as i64;
            }
        }
        n
    }

    fn replace(&mut self, old: &str, new: &str) -> i64 {
        let mut n = 0;
        for composite in self.uses(0) {
            let text = &mut self.composites[composite].text;
            if let Some(rest) = text.strip_prefix(old) {
                *text = format!("{new}{rest}");
                n += 1;
            }
        }
        n
    }

    fn generated_atomics(&self) -> i64 {
        (self.sizes.total() * self.sizes.atomic) as i64
    }

    fn above_random(&self) -> i64 {
        let part = Random::new(1).below(self.generated_atomics()) as usize;
        let users: HashSet<usize> =
            self.composites[part / self.sizes.atomic].private_users.iter().copied().collect();
        let mut above = HashSet::new();
        for base in &users {
            let mut next = Some(self.bases[*base].above);
            while let Some(complex) = next {
                above.insert(complex);
                next = self.complexes[complex].above;
            }
        }
        (users.len() + above.len()) as i64
    }

    fn users_of_random(&self) -> i64 {
        let mut random = Random::new(1);
        let parts = (0..10).map(|_| random.below(self.sizes.total() as i64) as usize);
        parts.map(|p| self.bases.iter().flat_map(|b| &b.private).filter(|c| **c == p).count() as i64).sum()
    }

    fn date(&self, at: Assembly) -> i64 {
        match at {
            Assembly::Base(b) => self.bases[b].date,
            Assembly::Complex(c) => self.complexes[c].date,
        }
    }

    fn newest(&self, at: Assembly) -> i64 {
        let mut bases = Vec::new();
        self.bases_below(at, &mut bases);
        let parts = bases.into_iter().flat_map(|b| &self.bases[b].private);
        parts.map(|c| self.composites[*c].date).max().unwrap_or(i64::MIN)
    }

    fn outdated(&self) -> i64 {
        let bases = (0..self.bases.len()).map(Assembly::Base);
        let complexes = (0..self.complexes.len()).map(Assembly::Complex);
        bases.chain(complexes).filter(|a| self.newest(*a) > self.date(*a)).count() as i64
    }

    fn insert(&mut self) -> i64 {
        self.random = Random::new(1);
        for _ in 0..10 {
            self.composite();
            let base = self.random.below(self.bases.len() as i64) as usize;
            let composite = self.composites.len() - 1;
            self.bases[base].private.push(composite);
            self.composites[composite].private_users.push(base);
        }
        10
    }

    fn delete(&mut self) -> i64 {
        let n = (self.composites.len() - self.sizes.total()).min(10);
        let left = self.composites.len() - n;
        self.composites.truncate(left);
        self.atomics.truncate(left * self.sizes.atomic);
        for base in &mut self.bases {
            base.private.retain(|c| *c < left);
            base.shared.retain(|c| *c < left);
        }
        n as i64
    }

    fn fingerprint(&self) -> i64 {
        let mut mixer = Mixer(7);
        for (i, m) in self.modules.iter().enumerate() {
            mixer.object(i + 1, m.kind, m.date);
            mixer.text(i + 1, &m.title, &m.manual);
            self.mix_assembly(&mut mixer, Assembly::Complex(m.root));
        }
        for (i, c) in self.composites.iter().enumerate() {
            mixer.object(i + 1, c.kind, c.date);
            mixer.text(i + 1, &c.title, &c.text);
            c.private_users.iter().chain(&c.shared_users).for_each(|b| mixer.number(*b as i64 + 1));
            for at in i * self.sizes.atomic..(i + 1) * self.sizes.atomic {
                let a = &self.atomics[at];
                mixer.object(at + 1, a.kind, a.date);
                [a.x, a.y, a.document as i64 + 1].into_iter().for_each(|v| mixer.number(v));
                for (kind, length, target) in &a.to {
                    mixer.word(&format!("type00{kind}"));
                    mixer.number(*length);
                    mixer.number(*target as i64 + 1);
                }
                a.from.iter().for_each(|s| mixer.number(*s as i64 + 1));
            }
        }
        mixer.0
    }

    fn mix_assembly(&self, mixer: &mut Mixer, at: Assembly) {
        match at {
            Assembly::Complex(c) => {
                mixer.object(c + 1, self.complexes[c].kind, self.complexes[c].date);
                self.complexes[c].below.iter().for_each(|a| self.mix_assembly(mixer, *a));
            }
            Assembly::Base(b) => {
                let base = &self.bases[b];
                mixer.object(b + 1, base.kind, base.date);
                base.private.iter().chain(&base.shared).for_each(|c| mixer.number(*c as i64 + 1));
            }
        }
    }
}

fn swap(a: &mut Atomic) {
    (a.x, a.y) = (a.y, a.x);
}

fn toggle(a: &mut Atomic) {
    a.date += if a.date % 2 == 1 { 1 } else { -1 };
}

fn letters(text: &str) -> i64 {
    text.chars().filter(|c| *c == 'I').count() as i64
}

struct Mixer(i64);

impl Mixer {
    fn number(&mut self, v: i64) {
        self.0 = (31 * self.0 + v) % i64::from(i32::MAX);
    }

    fn word(&mut self, word: &str) {
        word.chars().for_each(|c| self.number(c as i64));
    }

    fn object(&mut self, id: usize, kind: i64, date: i64) {
        self.number(id as i64);
        self.word(&format!("type00{kind}"));
        self.number(date);
    }

    fn text(&mut self, id: usize, title: &str, text: &str) {
        self.number(id as i64);
        self.word(title);
        self.number(text.chars().count() as i64);
        self.word(&text.chars().take(80).collect::<String>());
    }
}
