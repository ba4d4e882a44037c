//! Persistent actors: a class marked `persistent` becomes ordinary definitions of the language.
//!
//! Read [`expand`] first. It replaces the class `A` in the tree of a text by these parts:
//!
//! | part | is |
//! | --- | --- |
//! | class `A_state` | the instance variables; its objects are stored |
//! | routine `A.new` | makes the first state of an actor: the text of `new` |
//! | routine `A.at` | makes the stand-in of an actor on its node |
//! | actor `A` | the stand-in; its only variable is the actor's name |
//! | method `A.turn_m` | the text of the method `m`, over the state |
//! | method `A.m` | a turn: the transaction around `turn_m`, and its repetitions |
//!
//! Names with a dot are those that no program can write. The directory of actors and the claims are
//! in `std/persistent.theta`, which a text with such a class imports. The checker knows a turn by
//! the dot in its name (`check/persistent.rs`).

use std::sync::Arc;

use crate::ast::{
    ClassDef, Creator, Expr, ExprKind, File, Formal, Heading, Ident, Import, Init, Item, Routine, Stmt,
    StmtKind, TypeExpr, TypeExprKind,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::{HIDDEN, written};
use crate::source::Span;

/// The text that has the directory of persistent actors, as a path of an import.
const LIBRARY: [&str; 2] = ["std", "persistent"];

/// The routines of that text which the parts use; there each begins with `persistent_`.
const USED: [&str; 9] =
    ["claim", "enter", "made", "state", "set_state", "epoch", "again", "claim_ms", "home"];

/// Replaces the persistent actors of a text by their parts. Returns the mistakes in them.
pub(crate) fn expand(file: &mut File) -> Vec<Diagnostic> {
    let mut found = vec![];
    if let Some(word) = expand_items(&mut file.items, &mut found) {
        let ident = |name: &str| Ident { name: Arc::from(name), span: word };
        let used = |name: &&str| (ident(&format!("persistent_{name}")), ident(&format!(".{name}")));
        file.imports.push(Import {
            path: LIBRARY.iter().map(|part| ident(part)).collect(),
            names: Some(USED.iter().map(used).collect()),
            span: word,
        });
    }
    found
}

/// Returns the name of the class of an actor's state.
fn state_of(actor: &str) -> String {
    format!("{actor}_state")
}

/// Returns the name of the routine that finds an actor.
pub(crate) fn finder_of(actor: &str) -> String {
    format!(".at_{actor}")
}

/// Returns the name of the method that has the text of another one.
pub(crate) fn turn_of(method: &str) -> String {
    format!(".turn_{method}")
}

/// Returns the name of a method or routine as the program has written it.
pub(crate) fn written_name(name: &str) -> &str {
    name.strip_prefix(".turn_").unwrap_or(name)
}

/// Replaces the persistent classes among the items of a text or module. Returns the word
/// `persistent` of one of them.
fn expand_items(items: &mut Vec<Item>, found: &mut Vec<Diagnostic>) -> Option<Span> {
    let (mut word, mut parts) = (None, vec![]);
    for item in items.iter_mut() {
        match item {
            Item::Module(module) => word = expand_items(&mut module.items, found).or(word),
            Item::Class(class) => {
                let Some(marked) = class.actor.as_ref().and_then(|actor| actor.persistent) else { continue };
                word = Some(marked);
                check_form(class, found);
                expand_class(class, &mut parts, found);
            }
            _ => {}
        }
    }
    items.append(&mut parts);
    word
}

/// Reports the forms of actors that a persistent one cannot have.
fn check_form(class: &ClassDef, found: &mut Vec<Diagnostic>) {
    let Some(actor) = &class.actor else { return };
    let name = &class.name;
    let mut refuse = |span: Span, message: String, help: &str| {
        found.push(Diagnostic::error(Code::E0412, span, message).help(help));
    };
    if actor.functional {
        let message = format!("persistent actor `{name}` cannot be functional");
        refuse(name.span, message, "drop `functional`");
    }
    if class.native.is_some() {
        let message = format!("persistent actor `{name}` cannot be native");
        refuse(name.span, message, "call a native actor by `send` from its methods");
    }
    if let Some(parm) = class.parms.first() {
        let message = format!("persistent actor `{name}` cannot have type parameters");
        refuse(parm.span, message, "declare one class for each type");
    }
    if let Some(disable) = actor.disables.first() {
        let message = format!("persistent actor `{name}` cannot disable messages");
        refuse(disable.method.span, message, "test the condition in the method, and signal an exception");
    }
    if let Some(stop) = actor.stops.first() {
        let message = format!("persistent actor `{name}` cannot end");
        refuse(*stop, message, "leave the line out: a turn that fails is undone");
    }
    if let Some(creator) = actor.creators.first().filter(|creator| creator.args.len() > 1) {
        let message = format!("`new` of persistent actor `{name}` has more than one argument");
        refuse(creator.span, message, "write `new ()`, or `new (name: string)` for the actor's name");
    }
    for method in &class.methods {
        let aborted = method.heading.signals.iter().find(|signal| &*signal.name.name == "aborted");
        if let Some(aborted) = aborted {
            let message = "a turn of a persistent actor cannot signal `aborted`".to_owned();
            refuse(aborted.name.span, message, "choose another name: transactions signal `aborted`");
        }
    }
}

/// Makes the parts of a class; those beside it are added to `parts`.
fn expand_class(class: &mut ClassDef, parts: &mut Vec<Item>, found: &mut Vec<Diagnostic>) {
    let (actor, span) = (class.name.clone(), class.name.span);
    let state = Ident { name: Arc::from(state_of(&actor.name)), span };
    let named =
        |name: &Ident| TypeExpr { kind: TypeExprKind::Name { name: name.clone(), args: vec![] }, span };
    let own = Formal {
        name: Ident { name: Arc::from(".name"), span },
        ty: named(&Ident { name: Arc::from("string"), span }),
    };
    let ivars = std::mem::replace(&mut class.ivars, vec![own]);
    let has_variables = !ivars.is_empty();
    // What was refused is left out.
    class.parms.clear();
    let creators = match &mut class.actor {
        Some(actor) => {
            actor.functional = false;
            actor.disables.clear();
            actor.stops.clear();
            std::mem::take(&mut actor.creators)
        }
        None => return,
    };
    // The actor's own `new`, and the routine that calls it.
    let text = format!(
        "part = actor
  new ({HIDDEN}given: string) make {{{HIDDEN}name := {HIDDEN}given}} end new
end part
part ({HIDDEN}given: string) returns ({actor})
  return ({actor}.new({HIDDEN}given) on ({HIDDEN}home({HIDDEN}given)))
end part
"
    );
    for item in written(&text, span) {
        match (item, &mut class.actor) {
            (Item::Class(part), Some(actor)) => {
                actor.creators = part.actor.map_or(vec![], |part| part.creators);
            }
            (Item::Routine(mut finder), _) => {
                finder.heading.name.name = Arc::from(finder_of(&actor.name));
                parts.push(Item::Routine(finder));
            }
            _ => {}
        }
    }
    parts.push(Item::Routine(maker(&actor, &state, creators, has_variables, found)));
    let mut turns = vec![];
    for method in &mut class.methods {
        let heading = method.heading.clone();
        let Some(body) = turn(&actor, &state, &heading) else { continue };
        let mut inner = std::mem::replace(method, Routine { heading, body, end: method.end });
        inner.heading.name.name = Arc::from(turn_of(&inner.heading.name.name));
        let first = Formal { name: Ident { name: Arc::from(".own"), span }, ty: named(&state) };
        inner.heading.args.insert(0, first);
        turns.push(inner);
    }
    class.methods.append(&mut turns);
    parts.push(Item::Class(Box::new(ClassDef {
        name: state,
        actor: None,
        native: None,
        parms: vec![],
        implements: vec![],
        inherits: None,
        wheres: vec![],
        provides: vec![],
        hides: vec![],
        ivars,
        equates: vec![],
        methods: vec![],
        makers: vec![],
        headings: vec![],
        doc: String::new(),
        span,
    })));
}

/// Returns the routine `A.new`, which makes the state of an actor that was not there before.
fn maker(
    actor: &Ident,
    state: &Ident,
    creators: Vec<Creator>,
    has_variables: bool,
    found: &mut Vec<Diagnostic>,
) -> Routine {
    let span = actor.span;
    let Creator { mut args, mut body, span: word } = match creators.into_iter().next() {
        Some(creator) => creator,
        None => {
            if has_variables {
                let message = format!("actor `{actor}` has instance variables and no `new`");
                let help = "add `new (…) … make {x := e, …} end new`";
                found.push(Diagnostic::error(Code::E0214, span, message).help(help));
            }
            Creator { args: vec![], body: vec![], span }
        }
    };
    args.truncate(1);
    if args.is_empty() {
        let ty = TypeExpr {
            kind: TypeExprKind::Name { name: Ident { name: Arc::from("string"), span }, args: vec![] },
            span,
        };
        args.push(Formal { name: Ident { name: Arc::from(".name"), span }, ty });
    }
    let construct = |inits: Vec<Init>, at: Span| {
        let height = inits.iter().map(|init| init.value.height).max().unwrap_or(0);
        let class = Box::new(Expr { kind: ExprKind::Name(state.clone()), span: at, height: 1 });
        let kind = ExprKind::Construct { class, inits, maker: None };
        StmtKind::Return(vec![Expr { kind, span: at, height: height.saturating_add(1) }])
    };
    match body.last_mut() {
        Some(last) if matches!(last.kind, StmtKind::Make { .. }) => {
            let at = last.core;
            if let StmtKind::Make { inits, maker, then } = std::mem::replace(&mut last.kind, StmtKind::Error)
            {
                if maker.is_some() || then.is_some() {
                    let message = "an actor is made only from its instance variables";
                    let help = "remove the parts after them";
                    found.push(Diagnostic::error(Code::E0214, at, message).help(help));
                }
                last.kind = construct(inits, at);
            }
        }
        _ if has_variables => {
            if word != span {
                let help = "write `make {x := e, …}` as its last statement";
                let message = "`new` does not end with `make`";
                found.push(Diagnostic::error(Code::E0214, word, message).help(help));
            }
            let name = Ident { name: Arc::from("failure"), span };
            let value = Expr { kind: ExprKind::Str(Arc::from("")), span, height: 1 };
            let kind = StmtKind::Signal { name, values: vec![value] };
            body.push(Stmt { kind, handlers: vec![], span, core: span, same_line: false });
        }
        _ => {}
    }
    if !has_variables {
        let kind = construct(vec![], span);
        body.push(Stmt { kind, handlers: vec![], span, core: span, same_line: false });
    }
    let ty = TypeExpr { kind: TypeExprKind::Name { name: state.clone(), args: vec![] }, span };
    let heading = Heading {
        name: Ident { name: Arc::from(format!(".new_{actor}")), span },
        parms: vec![],
        args,
        result: crate::ast::Outcome { types: vec![ty], yields: false },
        signals: vec![],
        wheres: vec![],
        span,
        doc: String::new(),
        remote: None,
    };
    Routine { heading, body, end: word }
}

/// Returns the statements of a turn: the transaction around the method's text. They run again
/// after a conflict, and after a wait for a claim that another server has. Returns nothing for a
/// heading with a mistake that has been reported.
fn turn(actor: &Ident, state: &Ident, heading: &Heading) -> Option<Vec<Stmt>> {
    let args: Vec<&str> =
        std::iter::once("persistent__own").chain(heading.args.iter().map(|arg| &*arg.name.name)).collect();
    let call = format!("self.{HIDDEN}turn_{}({})", heading.name, args.join(", "));
    let signals: Vec<&str> = heading.signals.iter().map(|signal| &*signal.name.name).collect();
    let call = match heading.result.types.is_empty() {
        true => call,
        false => format!("{HIDDEN}result := {call}"),
    };
    let call = if signals.is_empty() { call } else { format!("{call} resignal {}", signals.join(", ")) };
    // An answer is given when the turn is committed: that of a turn which is run again is none.
    let reply = if heading.result.types.is_empty() { "" } else { "reply (persistent__result)" };
    let text = format!(
        "part ()
  {HIDDEN}tries: int := 0
  {HIDDEN}seen: int := 0
  while true do
    begin
      transaction
        {HIDDEN}held: any := {HIDDEN}claim(\"{actor}\", {HIDDEN}name)
        if {HIDDEN}enter({HIDDEN}held, {HIDDEN}seen) then
          if ~{HIDDEN}made({HIDDEN}held) then
            {HIDDEN}set_state({HIDDEN}held, {HIDDEN}new_{actor}({HIDDEN}name))
          end
          typecase {HIDDEN}state({HIDDEN}held)
            when {state} ({HIDDEN}own):
              {call}
              break
            others:
          end
          signal failure(\"the state of this actor is of another class\")
        end
        {HIDDEN}seen := {HIDDEN}epoch({HIDDEN}held)
      end
    end except when aborted ({HIDDEN}why: string):
      {HIDDEN}tries := {HIDDEN}again({HIDDEN}tries, {HIDDEN}why)
      continue
    end
    wait after {HIDDEN}claim_ms(): end
  end
  {reply}
end part
"
    );
    let Item::Routine(part) = written(&text, actor.span).pop()? else { return None };
    let mut body = part.body;
    if let Some(ty) = heading.result.types.first() {
        let span = actor.span;
        let name = Ident { name: Arc::from(".result"), span };
        let kind = StmtKind::Declare { names: vec![name], ty: ty.clone(), values: vec![] };
        body.insert(0, Stmt { kind, handlers: vec![], span, core: span, same_line: false });
    }
    Some(body)
}
