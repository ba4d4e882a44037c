//! A function under construction: its variables, and the blocks that are open.

use bifrost_ir::requests::{Missing, asked_in, missing};
use bifrost_ir::{
    Block, Callee, Const, Func, FuncKind, Operand, Program, Signature, Site, Stmt, TypeId, Types, Var,
    VarDecl, Written,
};
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;

/// A function under construction.
pub(crate) struct Builder {
    pub func: Func,
    /// Enclosing blocks, the innermost last.
    blocks: Vec<Vec<Stmt>>,
}

impl Builder {
    /// Returns a function with its receiver (if it is a method) and arguments as first variables.
    pub fn new(name: String, receiver: Option<TypeId>, signature: Signature) -> Builder {
        let mut vars = PrimaryMap::new();
        if let Some(ty) = receiver {
            vars.push(VarDecl { name: "self".to_owned(), ty });
        }
        for param in &signature.params {
            vars.push(VarDecl { name: param.name.clone(), ty: param.ty });
        }
        let kind = if receiver.is_some() { FuncKind::Method } else { FuncKind::Routine };
        let func = Func {
            name,
            kind,
            signature,
            vars,
            body: Block::default(),
            procedures: vec![],
            written: Written::Nowhere,
        };
        Builder { func, blocks: vec![vec![]] }
    }

    /// Makes the function a script, a method of an actor, if it is one.
    pub fn script(mut self, is_one: bool) -> Builder {
        if is_one {
            self.func.kind = FuncKind::Script;
        }
        self
    }

    /// Returns the finished function.
    pub fn finish(mut self) -> Func {
        debug_assert_eq!(self.blocks.len(), 1, "every block that was opened is closed");
        self.func.body = Block(self.blocks.pop().unwrap_or_default());
        self.func
    }

    /// Adds a variable; of type `any` if its own type is wrong, for a program that is thrown away.
    pub fn var(&mut self, name: &str, ty: Option<TypeId>) -> Var {
        self.func.vars.push(VarDecl { name: name.to_owned(), ty: ty.unwrap_or(Types::ANY) })
    }

    /// Adds a variable without a name.
    pub fn temp(&mut self, ty: Option<TypeId>) -> Var {
        self.var("", ty)
    }

    /// Returns the number of blocks open.
    pub fn depth(&self) -> usize {
        self.blocks.len()
    }

    pub fn emit(&mut self, stmt: Stmt) {
        self.blocks.last_mut().expect("a block is open").push(stmt);
    }

    /// Opens a block; the statements emitted from now on belong to it.
    pub fn open(&mut self) {
        self.blocks.push(vec![]);
    }

    /// Closes the block opened last.
    pub fn close(&mut self) -> Block {
        Block(self.blocks.pop().expect("a block is open"))
    }

    pub fn assign(&mut self, dst: Var, src: Operand) {
        if src == Operand::Var(dst) {
            return;
        }
        // A reply goes where it is wanted, so that nobody waits for it here.
        if let Some(Stmt::Request { dst: reply, element: None, .. }) =
            self.blocks.last_mut().and_then(|b| b.last_mut())
            && Operand::Var(*reply) == src
            && is_temp(&self.func, *reply)
        {
            *reply = dst;
            return;
        }
        self.emit(Stmt::Let { dst, src });
    }

    /// Lets the request that was emitted last, if its reply is `value`, store that in an element of
    /// a local array or vector.
    pub fn request_element(&mut self, value: Operand, array: Var, index: Operand) -> bool {
        match self.blocks.last_mut().and_then(|block| block.last_mut()) {
            Some(Stmt::Request { dst, element: element @ None, .. })
                if Operand::Var(*dst) == value && is_temp(&self.func, *dst) =>
            {
                (*dst, *element) = (array, Some(index));
                true
            }
            _ => false,
        }
    }

    /// Returns the variable of the request that was emitted last, if a value is its reply.
    pub fn asked_last(&self, value: Operand) -> Option<Var> {
        match self.blocks.last()?.last()? {
            Stmt::Request { dst, element: None, .. } if Operand::Var(*dst) == value => Some(*dst),
            _ => None,
        }
    }

    /// Returns the variables that take the replies of requests in the open blocks from one on, and
    /// in the blocks inside them.
    pub fn requested(&self, from: usize) -> SmallVec<[Var; 2]> {
        asked_in(self.blocks[from..].iter().flatten())
    }

    /// Looks where replies to the requests of the innermost open block may be missing.
    pub fn missing(&self, program: &Program) -> Missing {
        missing(program, self.blocks.last().map_or(&[], Vec::as_slice))
    }

    pub fn call(
        &mut self,
        callee: Callee,
        args: impl IntoIterator<Item = Operand>,
        dsts: impl IntoIterator<Item = Var>,
        site: u32,
    ) {
        let args: SmallVec<[Operand; 3]> = args.into_iter().collect();
        self.emit(Stmt::Call { callee, args, dsts: dsts.into_iter().collect(), site: Site(site) });
    }

    /// Returns a copy of `value` that later assignments to variables do not change.
    pub fn snapshot(&mut self, value: Operand, ty: Option<TypeId>) -> Operand {
        match value {
            Operand::Const(_) => value,
            Operand::Var(_) => {
                let temp = self.temp(ty);
                self.assign(temp, value);
                temp.into()
            }
        }
    }
}

/// Returns true if only the next statement can use a variable: the reply of a request may go
/// elsewhere instead.
fn is_temp(func: &Func, var: Var) -> bool {
    func.vars[var].name.is_empty()
}

/// Returns the depth to which blocks nest in a block, itself included.
pub(crate) fn depth(block: &Block) -> usize {
    let inside = block.0.iter().map(|stmt| match stmt {
        Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
            depth(then).max(depth(otherwise))
        }
        Stmt::While { cond, body, .. } => depth(cond).max(depth(body)),
        Stmt::ForEach { body, .. } | Stmt::Transaction { body, .. } => depth(body),
        Stmt::Select { arms, after, .. } => {
            let arms = arms.iter().map(|arm| depth(&arm.cond).max(depth(&arm.body)));
            arms.chain(after.iter().map(|(_, body)| depth(body))).max().unwrap_or(0)
        }
        Stmt::Except { body, arms } => arms.iter().map(|arm| depth(&arm.body)).fold(depth(body), usize::max),
        _ => 0,
    });
    1 + inside.max().unwrap_or(0)
}

/// Returns the constant `nil`, which stands for values that could not be made.
pub(crate) fn nothing() -> Operand {
    Operand::Const(Const::Nil)
}
