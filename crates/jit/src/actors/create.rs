//! New actors: made in place where their creator is small, else by the runtime (003 section 5.2).

use bifrost_actors::Site;
use bifrost_ir::{ClassId, Destination, FuncId, FuncKind, Operand, Var};
use bifrost_runtime::cx::offset;
use cranelift_codegen::ir::{BlockArg, InstBuilder, StackSlotData, StackSlotKind, Value, types};

use crate::actors::entries;
use crate::helper::{Creation, Helper};
use crate::lower::Lower;
use crate::lower::memory::Region;

impl<'a> Lower<'_, 'a, '_> {
    pub(crate) fn create_stmt(
        &mut self,
        dst: Var,
        class: ClassId,
        creator: u32,
        args: &[Operand],
        place: Destination,
    ) {
        // It is made where its request is sent.
        if self.scope.analysis.for_requests.contains_key(&dst) {
            return;
        }
        let func = self.creator(class, creator);
        // Passive code of a program that is served may run in a session, which has no actors.
        let here = self.unit.func.kind == FuncKind::Script || self.unit.image.modes().is_none();
        let native =
            self.unit.image.program().classes[class].actor.as_ref().is_some_and(|of| of.native.is_some());
        let small = self.worth_in_place(func).filter(|_| here && !native);
        let (Some(analysis), Destination::Here | Destination::Anywhere) = (small, place) else {
            let actor = self.create(class, creator, args, place);
            return self.write(dst, actor);
        };
        let done = self.b.create_block();
        let actor = self.b.append_block_param(done, types::I64);
        self.mark(actor);
        if place == Destination::Anywhere {
            let (other, here) = (self.cold_block(), self.b.create_block());
            match self.unit.image.program().classes[class].actor.as_ref().is_some_and(|of| of.functional) {
                true => self.unless_elsewhere(other),
                false => self.unless_spread(other),
            }
            self.b.ins().jump(here, &[]);
            self.start(other);
            let made = self.create(class, creator, args, place);
            self.b.ins().jump(done, &[BlockArg::Value(made)]);
            self.start(here);
        }
        let fields = self.unit.image.program().classes[class].fields.len();
        let ty = self.unit.image.program().classes[class].ty;
        let zero = self.int(0);
        let regions: Vec<Region> =
            (0..fields as u32).map(|field| self.field_region(class, field)).chain([Region::Heads]).collect();
        let made = self.new_object(ty, &vec![zero; fields + 1], |field| regions[field]);
        let values = args.iter().map(|arg| self.operand(*arg)).collect::<Vec<_>>();
        self.create_in_place(func, analysis, [vec![made], values].concat(), class, made);
        if self.reachable {
            entries::count(&mut self.b, self.cx, offset::CREATED);
            self.b.ins().jump(done, &[BlockArg::Value(made)]);
        }
        self.start(done);
        self.write(dst, actor);
    }

    fn creator(&self, class: ClassId, creator: u32) -> FuncId {
        let class = &self.unit.image.program().classes[class];
        class.actor.as_ref().expect("a class of actors").creators[creator as usize]
    }

    /// Makes an actor by a call of the runtime.
    pub(crate) fn create(
        &mut self,
        class: ClassId,
        creator: u32,
        args: &[Operand],
        place: Destination,
    ) -> Value {
        let func = self.creator(class, creator);
        let unit = &self.unit;
        let program = unit.image.program();
        let params = (0..).zip(&program.funcs[func].signature.params);
        let references = params.filter(|(_, param)| unit.is_reference(param.ty)).map(|(at, _)| at + 1);
        let creation: &'static Creation = Box::leak(Box::new(Creation {
            table: unit.image.table_of(program.classes[class].ty),
            creator,
            references: references.collect(),
            site: match place {
                Destination::Here => Site::Here,
                Destination::On(_) => Site::On(0),
                Destination::Anywhere => Site::Anywhere(0),
            },
        }));
        let node = match place {
            Destination::On(node) => self.operand_word(node),
            Destination::Anywhere => self.b.ins().get_stack_pointer(types::I64),
            Destination::Here => self.int(0),
        };
        let bytes = 8 * (1 + args.len()) as u32;
        let slot = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3));
        for (at, arg) in args.iter().enumerate() {
            let word = self.operand_word(*arg);
            self.b.ins().stack_store(types::I64, word, slot, 8 * (1 + at) as i32);
        }
        let creation = self.address(std::ptr::from_ref(creation).cast());
        let words = self.b.ins().stack_addr(types::I64, slot, 0);
        let count = self.int(1 + args.len() as i64);
        let actor = self.call_helper(Helper::Create, &[creation, words, count, node]);
        self.arrays_change();
        actor
    }

    /// True if objects of a class are actors, which are always open.
    pub(crate) fn are_actors(&self, class: ClassId) -> bool {
        self.unit.image.program().classes[class].actor.is_some()
    }
}
