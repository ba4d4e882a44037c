use super::*;

/// The settings of a file with this text.
fn gather(text: &str) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bifrost.toml");
    std::fs::write(&file, text).unwrap();
    Config::gather(&file, BTreeMap::<String, u64>::new())
}

fn read(text: &str) -> BTreeMap<String, Checked> {
    check(&gather(text).unwrap()).unwrap().expect("there are roles")
}

/// The message about settings with a mistake.
fn mistake(text: &str) -> String {
    match gather(text) {
        Ok(config) => check(&config).expect_err(text).to_string(),
        Err(error) => error.to_string(),
    }
}

fn tables() -> &'static Tables {
    let mut sources = bifrost_theta::Sources::new();
    let text = "remote search_all () returns (int) return (1) end search_all\n\
        remote other () returns (int) return (2) end other\n";
    sources.add("test.theta", text);
    let run = bifrost_engine::Run::kept(bifrost_engine::Mode::Interpreted);
    Tables::new(crate::program::load_sources(sources, &bifrost_theta::Options::default(), run).unwrap())
}

fn roles(text: &str) -> Roles {
    Roles::new(read(text), tables(), None)
}

/// The name of the role that a client gets.
fn admitted(roles: &Roles, identity: &Identity, token: &str) -> Result<String, NoRole> {
    roles.admit(identity, token).map(|role| role.name().to_owned())
}

fn user(uid: u32) -> Identity {
    Identity::Local { uid }
}

fn certificate(names: &[&str], pin: &str) -> Identity {
    let names = names.iter().map(|name| format!("dns:{name}")).collect();
    Identity::Certificate { names, pin: pin.to_owned() }
}

fn entry(token: &str) -> String {
    token_entry(token)
}

#[test]
fn a_token_leads_to_its_role_and_to_no_other() {
    let all = roles(&format!(
        "[roles.reader]\ntokens = [\"{}\", \"{}\"]\n[roles.editor]\ntokens = [\"{}\"]\nuids = [7]\n",
        entry("abc"),
        entry("second"),
        entry("abcdef")
    ));
    let of = |token: &str| admitted(&all, &Identity::None, token);
    assert_eq!(of("abc").unwrap(), "reader");
    assert_eq!(of("second").unwrap(), "reader");
    assert_eq!(of("abcdef").unwrap(), "editor");
    // Beginnings, longer ones, the hash itself, and nothing.
    for wrong in [
        "a",
        "ab",
        "abcd",
        "abcde",
        "abcdefg",
        " abc",
        "abc ",
        "ABC",
        "\0",
        &entry("abc"),
        &entry("abc")[7..],
    ] {
        assert_eq!(of(wrong), Err(NoRole::Token), "{wrong}");
    }
    assert_eq!(of(""), Err(NoRole::Nothing));
    // A token that is shown decides alone.
    assert_eq!(admitted(&all, &user(7), "abc").unwrap(), "reader");
    assert_eq!(admitted(&all, &user(7), "wrong"), Err(NoRole::Token));
    assert_eq!(admitted(&all, &user(7), "").unwrap(), "editor");
    assert_eq!(admitted(&all, &certificate(&["x.y"], "sha256-p"), "second").unwrap(), "reader");
}

#[test]
fn the_empty_token_is_none_even_with_its_hash() {
    let all = roles(&format!("[roles.open]\ntokens = [\"{}\"]\n", entry("")));
    assert_eq!(admitted(&all, &Identity::None, ""), Err(NoRole::Nothing));
    assert_eq!(admitted(&all, &user(0), ""), Err(NoRole::User(0)));
}

#[test]
fn a_user_has_the_role_of_its_number() {
    let all = roles("[roles.one]\nuids = [0, 1000]\n[roles.two]\nuids = [1001]\n");
    assert_eq!(admitted(&all, &user(0), "").unwrap(), "one");
    assert_eq!(admitted(&all, &user(1001), "").unwrap(), "two");
    for uid in [1, 100, 10_000, u32::MAX] {
        assert_eq!(admitted(&all, &user(uid), ""), Err(NoRole::User(uid)));
    }
    assert_eq!(admitted(&all, &Identity::None, ""), Err(NoRole::Nothing));
    assert!(all.has_other_users(0) && !roles("[roles.one]\nuids = [5]\n").has_other_users(5));
}

#[test]
fn the_closest_entry_for_a_certificate_wins() {
    let all = roles(
        "[roles.pinned]\ncertificates = [\"sha256-PIN\"]\n\
         [roles.named]\ncertificates = [\"dns:db.clients.example\"]\n\
         [roles.any]\ncertificates = [\"dns:*.clients.example\"]\n\
         [roles.other]\ncertificates = [\"dns:*.other.example\", \"dns:www.other.example\"]\n",
    );
    let of = |names: &[&str], pin: &str| admitted(&all, &certificate(names, pin), "");
    assert_eq!(of(&["db.clients.example"], "sha256-PIN").unwrap(), "pinned");
    assert_eq!(of(&["db.clients.example"], "sha256-pin").unwrap(), "named");
    assert_eq!(of(&["DB.Clients.Example"], "").unwrap(), "named");
    assert_eq!(of(&["web.clients.example"], "").unwrap(), "any");
    assert_eq!(of(&["nobody.example", "web.clients.example"], "").unwrap(), "any");
    // One label, and no less.
    for no in [
        "clients.example",
        ".clients.example",
        "a.b.clients.example",
        "*.clients.example",
        "xclients.example",
    ] {
        assert_eq!(of(&[no], "sha256-"), Err(NoRole::Certificate), "{no}");
    }
    assert_eq!(of(&[], ""), Err(NoRole::Certificate));
    let two = of(&["web.clients.example", "a.other.example"], "");
    assert_eq!(two, Err(NoRole::Two("any".into(), "other".into())));
    // A certificate whose name is closer to one of them has that one.
    assert_eq!(of(&["web.clients.example", "www.other.example"], "").unwrap(), "other");
}

#[test]
fn a_role_has_so_many_sessions_and_counts_on_when_it_is_read_again() {
    let text = "[roles.reader]\nuids = [7]\nsessions_max = 2\n";
    let before = roles(text);
    let role = before.admit(&user(7), "").unwrap().clone();
    let one = role.take_seat().unwrap();
    let two = role.take_seat().unwrap();
    let told = role.take_seat().unwrap_err();
    assert!(
        told.contains("2 sessions of the role `reader`") && told.contains("roles.reader.sessions_max"),
        "{told}"
    );
    // Its sessions are sessions of the role that replaces it.
    let after = Roles::new(read(&text.replace("= 2", "= 3")), tables(), Some(&before));
    let role = after.admit(&user(7), "").unwrap();
    let three = role.take_seat().unwrap();
    assert!(role.take_seat().is_err());
    drop((one, two));
    assert!(role.take_seat().is_ok());
    drop(three);
    assert_eq!(role.open.load(Ordering::Relaxed), 0);
}

#[test]
fn limits_and_rights_come_from_the_server_where_a_role_has_none() {
    let all = read(
        "root_names = \"read-write\"\n[limits]\nfuel_max = 9\ndepth_max = 8\n[roles.one]\nlimits = { fuel_max = 5 }\n\
         root_names = \"read-only\"\n[roles.two]\n",
    );
    let (one, two) = (&all["one"], &all["two"]);
    assert_eq!((one.limits.get(Limit::Fuel), one.limits.get(Limit::Depth)), (5, 8));
    assert_eq!((two.limits.get(Limit::Fuel), two.limits.get(Limit::Depth)), (9, 8));
    assert_eq!(one.root_names, bifrost_session::RootNames::ReadOnly);
    assert_eq!(two.root_names, bifrost_session::RootNames::ReadWrite);
    // It may do only what its settings say.
    assert_eq!((two.roots.clone(), two.routines.clone()), (Names::default(), Names::default()));
    assert!(check(&gather("sessions_max = 3\n").unwrap()).unwrap().is_none());
}

#[test]
fn mistakes_name_their_place() {
    let hash = entry("x");
    for (text, expected) in [
        (
            "[roles.reader]\ntokens = [\"s3cret\"]\n",
            &["[roles.reader]", "`tokens`, entry 1", "--role reader"][..],
        ),
        (&format!("[roles.reader]\ntokens = [\"{hash}\", \"{hash}0\"]\n"), &["`tokens`, entry 2"]),
        (
            &format!("[roles.a]\ntokens = [\"{hash}\"]\n[roles.b]\ntokens = [\"{hash}\"]\n"),
            &["[roles.b]", "`tokens`", "role `a`"],
        ),
        ("[roles.a]\nuids = [5]\n[roles.b]\nuids = [5]\n", &["[roles.b]", "`uids`: 5", "role `a`"]),
        (
            "[roles.a]\ncertificates = [\"dns:X.y\"]\n[roles.b]\ncertificates = [\"dns:x.Y\"]\n",
            &["[roles.b]", "role `a`"],
        ),
        ("[roles.a]\ncertificates = [\"db.example\"]\n", &["[roles.a]", "`certificates`", "`db.example`"]),
        ("[roles.a]\ncertificates = [\"dns:*\"]\n", &["`dns:*`"]),
        ("[roles.a]\ncertificates = [\"dns:a.*.b\"]\n", &["`dns:a.*.b`"]),
        ("[roles.a]\ncertificates = [\"sha256-\"]\n", &["`sha256-`"]),
        ("[roles.a]\nroots = [\"a*b\"]\n", &["[roles.a]", "`roots`", "`a*b`"]),
        ("[roles.a]\nroutines = [\"*x\"]\n", &["[roles.a]", "`routines`", "`*x`"]),
        ("[roles.a]\nlimits = { fule_max = 3 }\n", &["[roles.a]", "`limits`", "`fule_max`", "fuel_max"]),
        ("[roles.a]\nlimits = { fuel_max = \"many\" }\n", &["roles.a.limits.fuel_max", "bifrost.toml"]),
        ("[roles.a]\nuids = [-1]\n", &["roles.a.uids", "bifrost.toml"]),
        ("[roles.a]\nroot_names = \"all\"\n", &["roles.a.root_names", "bifrost.toml"]),
        ("[roles.a]\ntoken = \"x\"\n", &["`token`", "[roles.a]", "tokens", "bifrost.toml"]),
        ("[roles.a]\nexported = []\n", &["`exported`", "[roles.a]"]),
        ("[roles.a]\nexports = [\"a*b\"]\n", &["[roles.a]", "`exports`", "`a*b`"]),
        ("[roles.a]\nimports = [\"\"]\n", &["[roles.a]", "`imports`"]),
        ("[roles.\"a b\"]\n", &["[roles.a b]", "its name must be"]),
        ("[roles.\"\"]\n", &["its name must be"]),
        ("token = \"s3cret\"\n[roles.a]\n", &["`token` and roles exclude each other"]),
        ("anonymous_loopback = true\n[roles.a]\n", &["`anonymous_loopback` and roles"]),
    ] {
        let found = mistake(text);
        for part in expected {
            assert!(found.contains(part), "{text}: {found}");
        }
        // A token that was written by mistake is not shown.
        assert!(!found.contains("s3cret"), "{found}");
    }
    let many: String = (0..=ROLES_MAX).map(|n| format!("[roles.r{n:05}]\n")).collect();
    assert!(mistake(&many).contains(&format!("more than {ROLES_MAX} roles")));
    let many: String = (0..=TOKENS_MAX).map(|n| format!("\"{SCHEME}{n:064x}\",")).collect();
    let found = mistake(&format!("[roles.r]\ntokens = [{many}]\n"));
    assert!(found.contains(&format!("more than {TOKENS_MAX} tokens of roles")), "{found}");
    let most: String = (0..ROLES_MAX).map(|n| format!("[roles.r{n:05}]\n")).collect();
    assert_eq!(read(&most).len(), ROLES_MAX);
    let long = "x".repeat(NAME_BYTES_MAX);
    assert!(read(&format!("[roles.{long}]\n")).contains_key(&long));
    assert!(mistake(&format!("[roles.{long}x]\n")).contains("its name must be"));
}

#[test]
fn a_role_says_what_leads_to_it_and_what_the_program_lacks() {
    let all = roles(&format!(
        "[roles.a]\ntokens = [\"{}\"]\nuids = [5, 6]\nroutines = [\"search_*\", \"serch_*\", \"*\"]\n[roles.b]\n",
        entry("x")
    ));
    assert_eq!(
        all.lines(tables()),
        [
            "role a: 1 token, uid 5, 6",
            "role a: the program has no remote routine `serch_*`",
            "role b: no token, certificate or uid leads to it",
        ]
    );
}

#[test]
fn tokens_are_random_and_have_128_bits() {
    let tokens: BTreeSet<String> = (0..100).map(|_| random_token().unwrap()).collect();
    assert!(tokens.len() == 100 && tokens.iter().all(|token| token.len() == 32));
    assert_eq!(
        entry("reader-of-the-example"),
        "blake3:28107ac58beb2cc5d4b58db359be3c6d01273c331db751e3753f93d06e9cac13"
    );
}
