//! The closed matrix of client languages: every language has every part, or the gap is listed.
//!
//! A language counts from when its folder in `veneers` exists; Rust counts always. A cell is a part
//! of one language, as `python: sample lists`. The evidence of a cell is a file, or a name in the
//! tests of the language. [`gaps`] returns the cells without evidence; `veneers/gaps.txt` lists
//! those that are known, and only ever gets shorter.
//!
//! | cell | evidence |
//! | --- | --- |
//! | `runtime`, `generator`, `tables`, `package`, `readme`, `script`, `bench` | the file |
//! | `sample NAME` | its folder |
//! | `vectors NAME` | the name of the file, or folder, of vectors in a test |
//! | `replay FILE`, `live FILE` | a test that reads `cases/generated` and has the word in a name |
//! | `evaluated` | the same of this word: cases with a flush after each step |
//! | `covers TAG` | the name of a case with this tag in a test: through the typed layer |
//! | `typed NAME` | the name of a case with several sessions, or with a loop, in a test |

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::{files, read};

/// The samples that each language has.
const SAMPLES: &[&str] = &["auctions", "database", "lists", "points"];

/// The vectors that each recorder reads.
const VECTORS: &[&str] = &["commands.json", "malformed.json", "replies.json", "recorder", "random.jsonl"];

/// A client language.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// Its name, which is that of its folder.
    pub name: &'static str,
    /// Its name as it is written.
    pub title: &'static str,
    /// True if its recorder is written in it, and not the one in Rust.
    pub records: bool,
    /// The folders of its tests.
    tests: &'static [&'static str],
    /// Its files: runtime, generator, tables, package, README, script, bench. Of several one will
    /// do; an end with `/` is a folder with a file in it. A client of the text form has neither
    /// stubs nor tables: these are empty.
    parts: [&'static str; 7],
    /// The folder of a sample, with `NAME` for its name.
    sample: &'static str,
}

/// The names of the parts, in the order of [`Language::parts`].
const PARTS: [&str; 7] = ["runtime", "generator", "tables", "package", "readme", "script", "bench"];

/// All languages that have a place in the matrix.
pub const LANGUAGES: &[Language] = &[
    Language {
        name: "rust",
        title: "Rust",
        records: true,
        tests: &[
            "crates/veneer/tests/",
            "crates/recorder/tests/",
            "crates/wire/tests/",
            "crates/cases/",
            "crates/cli/tests/",
        ],
        parts: [
            "crates/veneer/src/lib.rs",
            "crates/veneergen/src/rust.rs",
            "crates/recorder/src/error.rs",
            "crates/veneer/Cargo.toml",
            "README.md",
            "test.sh",
            "crates/cli/src/bench/",
        ],
        sample: "examples/NAME/",
    },
    Language {
        name: "python",
        title: "Python",
        records: true,
        tests: &["veneers/python/tests/"],
        parts: [
            "veneers/python/src/bifrost_veneer/__init__.py",
            "crates/veneergen/src/python.rs",
            "veneers/python/src/bifrost_veneer/_tables.py",
            "veneers/python/pyproject.toml",
            "veneers/python/README.md",
            "veneers/python/test.sh",
            "veneers/python/bench/",
        ],
        sample: "veneers/python/samples/NAME/",
    },
    Language {
        name: "typescript",
        title: "TypeScript",
        records: true,
        tests: &["veneers/typescript/tests/"],
        parts: [
            "veneers/typescript/src/index.ts",
            "crates/veneergen/src/typescript.rs",
            "veneers/typescript/src/tables.ts",
            "veneers/typescript/package.json",
            "veneers/typescript/README.md",
            "veneers/typescript/test.sh",
            "veneers/typescript/bench/",
        ],
        sample: "veneers/typescript/samples/NAME/",
    },
    Language {
        name: "c",
        title: "C",
        records: false,
        tests: &["veneers/c/tests/"],
        parts: [
            "veneers/c/include/bifrost/bifrost.h",
            "crates/veneergen/src/c.rs",
            "veneers/c/include/bifrost/abi.h",
            "veneers/c/CMakeLists.txt",
            "veneers/c/README.md",
            "veneers/c/test.sh",
            "veneers/c/bench/",
        ],
        sample: "veneers/c/samples/NAME",
    },
    Language {
        name: "cpp",
        title: "C++",
        records: false,
        tests: &["veneers/cpp/tests/"],
        parts: [
            "veneers/cpp/include/bifrost/bifrost.hpp",
            "crates/veneergen/src/cpp.rs",
            "veneers/c/include/bifrost/abi.h",
            "veneers/c/CMakeLists.txt",
            "veneers/cpp/README.md",
            "veneers/cpp/test.sh",
            "veneers/cpp/bench/",
        ],
        sample: "veneers/cpp/samples/NAME",
    },
    Language {
        name: "go",
        title: "Go",
        records: true,
        tests: &["veneers/go/"],
        parts: [
            "veneers/go/session.go",
            "crates/veneergen/src/go.rs",
            "veneers/go/tables.go",
            "veneers/go/go.mod",
            "veneers/go/README.md",
            "veneers/go/test.sh",
            "veneers/go/bench/",
        ],
        sample: "veneers/go/samples/NAME/",
    },
    Language {
        name: "java",
        title: "Java",
        records: true,
        tests: &["veneers/java/src/test/"],
        parts: [
            "veneers/java/src/main/",
            "crates/veneergen/src/java.rs",
            "veneers/java/src/main/java/org/bifrost/veneer/Tables.java",
            "veneers/java/pom.xml",
            "veneers/java/README.md",
            "veneers/java/test.sh",
            "veneers/java/bench/",
        ],
        sample: "veneers/java/samples/NAME/",
    },
    Language {
        name: "perl",
        title: "Perl",
        records: false,
        tests: &["veneers/perl/t/"],
        parts: [
            "veneers/perl/lib/Bifrost.pm",
            "",
            "",
            "veneers/perl/Makefile.PL",
            "veneers/perl/README.md",
            "veneers/perl/test.sh",
            "veneers/perl/bench/",
        ],
        sample: "veneers/perl/samples/NAME/",
    },
    Language {
        name: "tcl",
        title: "Tcl",
        records: false,
        tests: &["veneers/tcl/tests/"],
        parts: [
            "veneers/tcl/bifrost.tcl",
            "",
            "",
            "veneers/tcl/pkgIndex.tcl",
            "veneers/tcl/README.md",
            "veneers/tcl/test.sh",
            "veneers/tcl/bench/",
        ],
        sample: "veneers/tcl/samples/NAME/",
    },
    Language {
        name: "elisp",
        title: "Emacs Lisp",
        records: false,
        tests: &["veneers/elisp/tests/"],
        parts: [
            "veneers/elisp/bifrost.el",
            "",
            "",
            "veneers/elisp/bifrost.el",
            "veneers/elisp/README.md",
            "veneers/elisp/test.sh",
            "veneers/elisp/bench/",
        ],
        sample: "veneers/elisp/samples/NAME/",
    },
];

/// The cases: the name of each, with its tags, by their files in `cases`.
#[derive(Debug, Default)]
pub struct Cases {
    /// The files without ending.
    files: BTreeSet<String>,
    /// The cases with each tag.
    tags: BTreeMap<String, BTreeSet<String>>,
    /// The cases with several sessions or with a loop: each is tested through the typed layer.
    typed: BTreeSet<String>,
}

impl Cases {
    /// Reads the names and tags of all cases: lines that begin with `- case:`, `covers:`,
    /// `sessions:` and `loop:`.
    pub fn read() -> Cases {
        let mut cases = Cases::default();
        for path in files(&[".yaml"]) {
            let Some(file) = path.strip_prefix("cases/").and_then(|file| file.strip_suffix(".yaml")) else {
                continue;
            };
            cases.files.insert(file.to_owned());
            let mut name = String::new();
            for line in read(&path).lines() {
                if let Some(case) = line.strip_prefix("- case: ") {
                    name = case.trim().to_owned();
                } else if line.starts_with("  sessions: [") || line.starts_with("    - loop: ") {
                    cases.typed.insert(name.clone());
                } else if let Some(tags) = line.strip_prefix("  covers: [") {
                    for tag in
                        tags.trim_end_matches(']').split(',').map(str::trim).filter(|tag| !tag.is_empty())
                    {
                        cases.tags.entry(tag.to_owned()).or_default().insert(name.clone());
                    }
                }
            }
        }
        assert!(!cases.tags.is_empty() && !cases.typed.is_empty(), "there are no cases");
        cases
    }
}

/// Letters and digits in lower case: a name is spelled as the language likes it.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the languages that count.
pub fn languages(paths: &[String]) -> impl Iterator<Item = &'static Language> {
    LANGUAGES.iter().filter(move |language| language.counts(paths))
}

impl Language {
    /// The word behind the fence of a block in it.
    pub fn fence(&self) -> &'static str {
        self.name
    }

    /// True if a file is one of its tests, and not generated.
    pub fn has_test(&self, path: &str) -> bool {
        let is_there = self.tests.iter().any(|folder| path.starts_with(folder));
        // The tests of Go stand beside the files that they test.
        let is_tested = self.name == "go" && !path.ends_with("_test.go");
        is_there && !is_tested && !path.contains("stubs") && !path.ends_with(".json")
    }

    /// True if the language counts.
    pub fn counts(&self, paths: &[String]) -> bool {
        let folder = format!("veneers/{}/", self.name);
        // Tables alone are written before anything else is there.
        self.name == "rust" || paths.iter().any(|path| path.starts_with(&folder) && path != self.parts[2])
    }

    /// Returns all cells of the language, each with true if there is evidence.
    pub fn cells(&self, paths: &[String], cases: &Cases) -> BTreeMap<String, bool> {
        let there = |part: &str| match part.ends_with('/') {
            true => paths.iter().any(|path| path.starts_with(part)),
            false => paths.iter().any(|path| path == part || path.starts_with(&format!("{part}/"))),
        };
        let mut cells = BTreeMap::new();
        let mut cell = |name: String, is_there: bool| {
            cells.insert(name, is_there);
        };
        for (name, part) in PARTS.iter().zip(self.parts).filter(|(_, part)| !part.is_empty()) {
            cell((*name).to_owned(), there(part));
        }
        for sample in SAMPLES {
            let folder = self.sample.replace("NAME", sample);
            // A sample may be a file: `samples/lists.c`.
            let file = format!("{}.", folder.trim_end_matches('/'));
            cell(
                format!("sample {sample}"),
                there(&folder) || paths.iter().any(|path| path.starts_with(&file)),
            );
        }
        let tests: Vec<String> = paths
            .iter()
            .filter(|path| self.has_test(path))
            .map(|path| format!("{path}\n{}", read(path)))
            .collect();
        if self.records {
            for vectors in VECTORS {
                cell(format!("vectors {vectors}"), tests.iter().any(|test| test.contains(vectors)));
            }
        }
        // A layer over the recorder in Rust has run them with it.
        if self.records {
            let runs =
                |way: &str| tests.iter().any(|test| test.contains("generated") && plain(test).contains(way));
            for file in &cases.files {
                for way in ["replay", "live"] {
                    cell(format!("{way} {file}"), runs(way));
                }
            }
            cell("evaluated".to_owned(), runs("evaluated"));
        }
        let named: Vec<String> = tests.iter().map(|test| plain(test)).collect();
        let is_typed = |name: &String| named.iter().any(|test| test.contains(&plain(name)));
        for (tag, names) in &cases.tags {
            cell(format!("covers {tag}"), names.iter().any(is_typed));
        }
        for name in &cases.typed {
            cell(format!("typed {name}"), is_typed(name));
        }
        cells
    }
}

/// Returns the cells without evidence, as `LANGUAGE: CELL`, and the number of all cells.
pub fn gaps() -> (BTreeSet<String>, usize) {
    let (paths, cases) = (files(&[]), Cases::read());
    let (mut gaps, mut count) = (BTreeSet::new(), 0);
    for language in languages(&paths) {
        for (cell, is_there) in language.cells(&paths, &cases) {
            count += 1;
            if !is_there {
                gaps.insert(format!("{}: {cell}", language.name));
            }
        }
    }
    (gaps, count)
}

/// Returns the folders in `veneers` that no language of the matrix has.
pub fn strangers() -> Vec<String> {
    let paths = files(&[]);
    let folders = paths.iter().filter_map(|path| path.strip_prefix("veneers/")?.split_once('/'));
    let folders: BTreeSet<&str> = folders.map(|(folder, _)| folder).collect();
    let known = |folder: &&str| !LANGUAGES.iter().any(|language| language.name == *folder);
    folders.into_iter().filter(known).map(str::to_owned).collect()
}
