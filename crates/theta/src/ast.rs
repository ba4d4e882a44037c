//! The syntax tree of a text, before anything is known about its names (section 3 of the
//! definition).
//!
//! Trees are bounded: nesting by the parser's depth limit, long operator and call chains by
//! [`Expr::height`]. A walk over a tree may therefore recurse.
//!
//! Read [`File`] first, then [`Stmt`] and [`Expr`]. Each node has the [`Span`] of its text. The
//! parser makes the nodes. A compilation replaces persistent actors by their parts
//! (`persistent.rs`), and nothing else changes the nodes later.

use std::sync::Arc;

use crate::source::{FileId, Span};

/// A name and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ident {
    /// Its spelling; empty if the text had none where one was needed.
    pub name: Arc<str>,
    /// The place in the text.
    pub span: Span,
}

impl std::fmt::Display for Ident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// One source text.
#[derive(Debug)]
pub struct File {
    /// The text.
    pub id: FileId,
    /// `import` lines.
    pub imports: Vec<Import>,
    /// Everything else.
    pub items: Vec<Item>,
}

/// `import a.b (x, y as z)`.
#[derive(Debug)]
pub struct Import {
    /// `a`, `b`.
    pub path: Vec<Ident>,
    /// Name there and name here; `None` imports all public names.
    pub names: Option<Vec<(Ident, Ident)>>,
    /// The whole line.
    pub span: Span,
}

/// A definition.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Item {
    Module(Module),
    Equate(Equate),
    Type(TypeDef),
    Class(Box<ClassDef>),
    Routine(Routine),
    NativeRoutine(NativeRoutine),
}

impl Item {
    /// Returns the name it defines.
    pub fn name(&self) -> &Ident {
        match self {
            Item::Module(it) => &it.name,
            Item::Equate(it) => &it.name,
            Item::Type(it) => &it.name,
            Item::Class(it) => &it.name,
            Item::Routine(it) => &it.heading.name,
            Item::NativeRoutine(it) => &it.heading.name,
        }
    }
}

/// `module m exports x ... end m`.
#[derive(Debug)]
pub struct Module {
    /// Its name.
    pub name: Ident,
    /// Names seen outside.
    pub exports: Vec<Ident>,
    /// Its definitions.
    pub items: Vec<Item>,
    /// All of it.
    pub span: Span,
}

/// `n = e`: a type or a constant.
#[derive(Debug)]
pub struct Equate {
    /// The new name.
    pub name: Ident,
    /// The type or constant that it stands for.
    pub value: Expr,
    /// The comment block directly above.
    pub doc: String,
}

/// Name, parameters and results of a routine or method.
#[derive(Clone, Debug)]
pub struct Heading {
    /// Its name.
    pub name: Ident,
    /// Type parameters.
    pub parms: Vec<Ident>,
    /// Arguments, one entry for each name.
    pub args: Vec<Formal>,
    /// The results or yields of a call.
    pub result: Outcome,
    /// Exceptions.
    pub signals: Vec<Signal>,
    /// Needs of the type parameters.
    pub wheres: Vec<Where>,
    /// The span from the name to the last clause.
    pub span: Span,
    /// The comment block directly after it.
    pub doc: String,
    /// The word `remote` before it, by which clients may call a routine.
    pub remote: Option<Span>,
}

impl Heading {
    /// Returns the span from the word `remote`, if it has that, to the last clause.
    pub fn whole(&self) -> Span {
        self.remote.map_or(self.span, |word| word.to(self.span))
    }
}

/// `a: T`.
#[derive(Clone, Debug)]
pub struct Formal {
    /// `a`.
    pub name: Ident,
    /// `T`.
    pub ty: TypeExpr,
}

/// The results of a heading.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// True if they are yielded, that is, whether this is an iterator.
    pub yields: bool,
    /// The types.
    pub types: Vec<TypeExpr>,
}

/// An exception of a heading.
#[derive(Clone, Debug)]
pub struct Signal {
    /// Its name.
    pub name: Ident,
    /// Types of its values.
    pub types: Vec<TypeExpr>,
}

/// `T has m (...) ..., n (...) ...`.
#[derive(Clone, Debug)]
pub struct Where {
    /// `T`.
    pub parm: Ident,
    /// The methods.
    pub methods: Vec<WhereMethod>,
}

/// One method a type parameter needs.
#[derive(Clone, Debug)]
pub struct WhereMethod {
    /// Its name.
    pub name: Ident,
    /// Argument types.
    pub args: Vec<TypeExpr>,
    /// Results.
    pub result: Outcome,
    /// Exceptions.
    pub signals: Vec<Signal>,
}

/// `S = type < T {m2 for m} ... end S`.
#[derive(Debug)]
pub struct TypeDef {
    /// Its name.
    pub name: Ident,
    /// Marked `immutable`.
    pub immutable: bool,
    /// Marked `actor`.
    pub actor: bool,
    /// Type parameters.
    pub parms: Vec<Ident>,
    /// Supertypes with their renamings.
    pub supers: Vec<(TypeExpr, Vec<Rename>)>,
    /// Needs of the parameters.
    pub wheres: Vec<Where>,
    /// Own methods.
    pub methods: Vec<Heading>,
    /// Equates.
    pub equates: Vec<Equate>,
    /// The comment block directly above, and the one directly behind the head.
    pub doc: String,
    /// All of it.
    pub span: Span,
}

/// `new for old`.
#[derive(Clone, Debug)]
pub struct Rename {
    /// `new`.
    pub new: Ident,
    /// `old`.
    pub old: Ident,
}

/// `C = class ... end C` or `A = actor ... end A`; a native one has no variables and no bodies.
#[derive(Debug)]
pub struct ClassDef {
    /// Its name.
    pub name: Ident,
    /// The parts of an actor, if it is one; then nothing is inherited, and there are no makers.
    pub actor: Option<ActorPart>,
    /// The Rust name of a native class.
    pub native: Option<(String, Span)>,
    /// Type parameters.
    pub parms: Vec<Ident>,
    /// The types it implements.
    pub implements: Vec<TypeExpr>,
    /// Its superclass.
    pub inherits: Option<(TypeExpr, Vec<Rename>)>,
    /// Needs of the parameters.
    pub wheres: Vec<Where>,
    /// Makers for subclasses.
    pub provides: Vec<Ident>,
    /// Methods kept from subclasses.
    pub hides: Vec<Ident>,
    /// Instance variables.
    pub ivars: Vec<Formal>,
    /// Equates.
    pub equates: Vec<Equate>,
    /// Methods.
    pub methods: Vec<Routine>,
    /// Makers.
    pub makers: Vec<Maker>,
    /// Headings of native methods.
    pub headings: Vec<Heading>,
    /// The comment block directly above, and the one directly behind the head.
    pub doc: String,
    /// All of it.
    pub span: Span,
}

/// `m (...) makes (C) ... end m`.
#[derive(Debug)]
pub struct Maker {
    /// Its heading; the result is the class.
    pub heading: Heading,
    /// `C`.
    pub class: TypeExpr,
    /// Its statements.
    pub body: Body,
    /// The closing `end m`.
    pub end: Span,
}

/// The parts that an actor has and no class has.
#[derive(Debug, Default)]
pub struct ActorPart {
    /// Marked `functional`.
    pub functional: bool,
    /// The word `persistent`, if it is marked so.
    pub persistent: Option<Span>,
    /// `new`s.
    pub creators: Vec<Creator>,
    /// `disable` lines.
    pub disables: Vec<Disable>,
    /// `stop when failure` lines.
    pub stops: Vec<Span>,
}

/// `new (...) ... end new`.
#[derive(Debug)]
pub struct Creator {
    /// Arguments.
    pub args: Vec<Formal>,
    /// Statements; none in a native actor.
    pub body: Body,
    /// The word `new`.
    pub span: Span,
}

/// `disable m (x) when e`.
#[derive(Debug)]
pub struct Disable {
    /// `m`.
    pub method: Ident,
    /// `x`.
    pub args: Vec<Ident>,
    /// `e`.
    pub condition: Expr,
}

/// A routine or method with its body.
#[derive(Debug)]
pub struct Routine {
    /// Its heading.
    pub heading: Heading,
    /// Its statements.
    pub body: Body,
    /// The closing `end name`.
    pub end: Span,
}

/// `native "crate::f" f (...)`.
#[derive(Debug)]
pub struct NativeRoutine {
    /// The Rust name.
    pub rust: (String, Span),
    /// Its heading.
    pub heading: Heading,
}

/// A type as written.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    /// The form of the type.
    pub kind: TypeExprKind,
    /// The place in the text.
    pub span: Span,
}

/// The forms of types.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum TypeExprKind {
    Name { name: Ident, args: Vec<TypeExpr> },
    Tagged { kind: Tagged, fields: Vec<Formal> },
    Routine { iterator: bool, args: Vec<TypeExpr>, result: Outcome, signals: Vec<Signal> },
    Error,
}

/// The kinds of tagged types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Tagged {
    Record,
    Struct,
    Oneof,
}

/// Statements in a row.
pub type Body = Vec<Stmt>;

/// A statement with its handlers.
#[derive(Debug)]
pub struct Stmt {
    /// The statement proper.
    pub kind: StmtKind,
    /// `except ... end` and `resignal`, innermost first.
    pub handlers: Vec<Handler>,
    /// Statement and handlers.
    pub span: Span,
    /// The statement proper.
    pub core: Span,
    /// True if it starts on the line on which the statement before it ends.
    pub same_line: bool,
}

/// The handler at the end of a statement.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Handler {
    Except { arms: Vec<WhenArm>, others: Option<OthersArm> },
    Resignal(Vec<Ident>),
}

/// `when a, b (x: int): ...`.
#[derive(Debug)]
pub struct WhenArm {
    /// `a`, `b`.
    pub names: Vec<Ident>,
    /// The values; `None` for `(*)` and for nothing, that is, ignored.
    pub values: Option<Vec<Formal>>,
    /// Statements.
    pub body: Body,
}

/// `others (name: string): ...`.
#[derive(Debug)]
pub struct OthersArm {
    /// The variable for the exception's name.
    pub name: Option<Formal>,
    /// Statements.
    pub body: Body,
}

/// The forms of statements.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum StmtKind {
    Declare { names: Vec<Ident>, ty: TypeExpr, values: Vec<Expr> },
    Assign { targets: Vec<Expr>, values: Vec<Expr> },
    Expr(Expr),
    If { arms: Vec<(Expr, Body)>, otherwise: Option<Body> },
    While { condition: Expr, body: Body },
    For { vars: Vec<LoopVar>, iterator: Expr, body: Body },
    Break,
    Continue,
    Begin(Body),
    Transaction(Body),
    Return(Vec<Expr>),
    Yield(Vec<Expr>),
    Signal { name: Ident, values: Vec<Expr> },
    Exit { name: Ident, values: Vec<Expr> },
    Tagcase { subject: Expr, arms: Vec<TagArm>, others: Option<Body>, head: Span },
    Typecase { subject: Expr, arms: Vec<TypeArm>, others: Option<Body>, head: Span },
    Make { inits: Vec<Init>, maker: Option<MakerCall>, then: Option<Body> },
    Send(Expr),
    Delegate(Expr),
    Reply(Option<Expr>),
    Wait { arms: Vec<WaitArm>, after: Option<(Expr, Body)> },
    Error,
}

/// A variable of `for`, with or without its type.
#[derive(Debug)]
pub struct LoopVar {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub ty: Option<TypeExpr>,
}

/// `when t (x: T): ...`.
#[derive(Debug)]
pub struct TagArm {
    /// The tags.
    pub tags: Vec<Ident>,
    /// The variable for the value.
    pub var: Option<Formal>,
    /// Statements.
    pub body: Body,
}

/// `when T (x): ...`.
#[derive(Debug)]
pub struct TypeArm {
    /// `T`.
    pub ty: TypeExpr,
    /// `x`.
    pub var: Option<Ident>,
    /// Statements.
    pub body: Body,
}

/// `when m (x: T) if e: ...`.
#[derive(Debug)]
pub struct WaitArm {
    /// `m`.
    pub method: Ident,
    /// Its arguments.
    pub args: Vec<Formal>,
    /// `e`.
    pub condition: Option<Expr>,
    /// Statements.
    pub body: Body,
}

/// `x := e` in a constructor.
#[derive(Debug)]
pub struct Init {
    /// `x`.
    pub name: Ident,
    /// `e`.
    pub value: Expr,
}

/// `; m(...)` at the end of a constructor.
#[derive(Debug)]
pub struct MakerCall {
    /// `m`.
    pub name: Ident,
    /// Type arguments.
    pub parms: Vec<TypeExpr>,
    /// Arguments.
    pub args: Args,
}

/// An expression.
#[derive(Debug)]
pub struct Expr {
    /// The form of the expression.
    pub kind: ExprKind,
    /// The place in the text.
    pub span: Span,
    /// Length of the longest way down the tree.
    pub height: u16,
}

/// The forms of expressions.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum ExprKind {
    Int(i64),
    Real(f64),
    Char(char),
    Str(Arc<str>),
    Bool(bool),
    Nil,
    SelfValue,
    Replyto,
    Name(Ident),
    /// A type that starts with a reserved word.
    Type(TypeExpr),
    /// `( e )`.
    Paren(Box<Expr>),
    Unary {
        op: Unary,
        operand: Box<Expr>,
    },
    Binary {
        op: Binary,
        op_span: Span,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Select {
        object: Box<Expr>,
        name: Ident,
    },
    Call {
        callee: Box<Expr>,
        args: Args,
    },
    /// `p[...]`: element, instantiation of a type or of a routine.
    Index {
        object: Box<Expr>,
        args: Vec<Expr>,
    },
    /// `p{...}` with `:` in it.
    Tagged {
        ty: Box<Expr>,
        fields: Vec<Init>,
    },
    /// `p{...}` with `:=` or a maker in it, or empty.
    Construct {
        class: Box<Expr>,
        inits: Vec<Init>,
        maker: Option<MakerCall>,
    },
    /// `A.new(...)`.
    New {
        actor: Box<Expr>,
        args: Args,
        place: Place,
    },
    Bind {
        callee: Box<Expr>,
        args: Vec<Option<Expr>>,
    },
    Error,
}

/// The place that a new actor goes to.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Place {
    Here,
    On(Box<Expr>),
    Anywhere,
    Times(Box<Expr>),
}

/// Arguments of a call.
#[derive(Debug)]
pub struct Args {
    /// The plain ones.
    pub plain: Vec<Expr>,
    /// Those after `..`.
    pub rest: Option<Vec<Expr>>,
    /// The span from `(` to `)`.
    pub span: Span,
}

/// Prefix operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Unary {
    Negate,
    Not,
    Clone,
    Send,
}

/// Infix operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Binary {
    Or,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Add,
    Sub,
    Concat,
    Mul,
    Div,
    Mod,
    Shl,
    Shr,
    Power,
}

impl Binary {
    /// Returns the level in the table of section 7; higher binds tighter.
    pub fn level(self) -> u8 {
        use Binary::*;
        match self {
            Or => 1,
            And => 2,
            Eq | Ne | Lt | Le | Gt | Ge => 3,
            Add | Sub | Concat => 4,
            Mul | Div | Mod | Shl | Shr => 5,
            Power => 6,
        }
    }

    /// Returns the method the operator is short for; `~=` negates the answer of its.
    pub fn method(self) -> &'static str {
        use Binary::*;
        match self {
            Or => "bor",
            And => "band",
            Eq | Ne => "equal",
            Lt => "lt",
            Le => "le",
            Gt => "gt",
            Ge => "ge",
            Add => "add",
            Sub => "sub",
            Concat => "concat",
            Mul => "mul",
            Div => "div",
            Mod => "mod",
            Shl => "shl",
            Shr => "shr",
            Power => "power",
        }
    }
}
