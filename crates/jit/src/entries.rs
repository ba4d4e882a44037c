//! Entries: small functions between machine code and functions in Rust.
//!
//! An entry keeps the convention of machine code ([`lower::signature`]), and records its frame
//! if the function may collect. Those of one arity differ in one address. So the code generator
//! makes one [`Template`], and each entry is a copy: it takes a program half the time to start.

use std::sync::Arc;

use bifrost_ir::FuncId;
use bifrost_runtime::Code;
use bifrost_runtime::cx::offset;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{
    self, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, UserExternalName, types,
};
use cranelift_module::{FuncId as ModuleFunc, ModuleReloc, ModuleRelocTarget};

use crate::helper::{self, Helper};
use crate::maps::Calls;
use crate::{CompileError, Compiled, Jit, exit, lower, pick};

/// The code of all entries of one arity to functions in Rust. Each entry is a copy with an address
/// of its own, because the code generator takes ten times as long as a copy.
pub(crate) struct Template {
    alignment: u64,
    bytes: Vec<u8>,
    /// The place of the eight bytes of the address.
    address: usize,
    calls: Calls,
}

/// The name in a [`Template`] of the function that is called. Functions of the module have
/// namespace 0.
const CALLED: UserExternalName = UserExternalName { namespace: 1 << 16, index: 0 };

impl Jit {
    /// The name and the code of an entry to a helper that is near all code.
    pub(crate) fn helper_entry(&self, helper: Helper, words: usize) -> Result<(u32, Code), CompileError> {
        if !helper.polls() {
            return self.entry_to(helper.address(), words, helper.collects().then_some(0));
        }
        self.small(lower::attend_signature(), |b, args| {
            if helper.collects() {
                exit::record(b, args[0], &[]);
            }
            let called = b.import_signature(self.signature(words));
            let address = b.ins().iconst(types::I64, helper.address() as i64);
            let call = b.ins().call_indirect(called, address, args);
            let result = b.inst_results(call)[0];
            b.ins().store(MemFlagsData::trusted(), result, args[0], offset::RESULTS);
            b.ins().return_(&[]);
        })
    }

    /// The name and the code of an entry of so many words to a function in Rust. `references` is as
    /// for [`Jit::native_entry`], and none if the function does not collect.
    pub(crate) fn entry_to(
        &self,
        native: *const u8,
        arity: usize,
        references: Option<u32>,
    ) -> Result<(u32, Code), CompileError> {
        let name = self.declare(1, 0)?[0];
        let template = self.template(name, arity, references)?;
        let mut bytes = template.bytes.clone();
        bytes[template.address..][..8].copy_from_slice(&(native as u64).to_ne_bytes());
        let entry = Compiled {
            name: ModuleFunc::from_u32(name),
            alignment: template.alignment,
            bytes,
            relocations: vec![],
            calls: template.calls.clone(),
        };
        Ok((name, self.define(vec![entry])?))
    }

    /// The template of entries; it is made as the code of a function of this name.
    fn template(
        &self,
        name: u32,
        arity: usize,
        references: Option<u32>,
    ) -> Result<Arc<Template>, CompileError> {
        let key = (arity, references);
        if let Some(known) = self.lock().templates.get(&key) {
            return Ok(known.clone());
        }
        let function = self.small_function(name, self.signature(arity), |b, words, _| {
            if let Some(references) = references {
                exit::record(b, words[0], &pick(&words[1..], references));
            }
            let called = ir::ExternalName::user(b.func.declare_imported_user_function(CALLED));
            let signature = b.import_signature(self.signature(arity));
            let called = ir::ExtFuncData { name: called, signature, colocated: false, patchable: false };
            let called = b.import_function(called);
            let call = b.ins().call(called, words);
            let results = b.inst_results(call).to_vec();
            b.ins().return_(&results);
        });
        let Compiled { alignment, bytes, relocations, calls, .. } = self.generate(name, function)?;
        let [ModuleReloc { kind: Reloc::Abs8, offset, name: ModuleRelocTarget::User { .. }, addend: 0 }] =
            &relocations[..]
        else {
            return Err(CompileError::Malformed("an entry has one address".to_owned()));
        };
        let template = Arc::new(Template { alignment, bytes, address: *offset as usize, calls });
        self.lock().templates.insert(key, template.clone());
        Ok(template)
    }

    pub(crate) fn stub(&self, arity: usize, helper: Helper, slot: Option<u32>) -> Code {
        let call_conv = self.isa.default_call_conv();
        let code = self.small(self.signature(arity), |b, words| {
            let mut finder = ir::Signature::new(call_conv);
            let mut args = words[..2].to_vec();
            args.extend(slot.map(|slot| b.ins().iconst(types::I64, i64::from(slot))));
            finder.params.extend(std::iter::repeat_n(ir::AbiParam::new(types::I64), args.len()));
            finder.returns.push(ir::AbiParam::new(types::I64));
            let finder = b.import_signature(finder);
            let helper = b.ins().iconst(types::I64, helper.address() as i64);
            let found = b.ins().call_indirect(finder, helper, &args);
            let code = b.inst_results(found)[0];
            let signature = b.import_signature(lower::signature(arity, call_conv));
            let call = b.ins().call_indirect(signature, code, words);
            let results = b.inst_results(call).to_vec();
            b.ins().return_(&results);
        });
        code.map_or(Code(helper::no_code as *const u8), |(_, code)| code)
    }

    /// An entry that has a function interpreted.
    pub(crate) fn interpreter_entry(
        &self,
        func: FuncId,
        arity: usize,
        references: u32,
    ) -> Result<Code, CompileError> {
        self.words_entry(Helper::Interpret.address(), func.as_u32(), arity, references)
    }

    /// An entry of so many words to a function in Rust that takes a number and where the words are,
    /// and how many.
    pub(crate) fn words_entry(
        &self,
        native: *const u8,
        number: u32,
        arity: usize,
        references: u32,
    ) -> Result<Code, CompileError> {
        let entry = self.small(self.signature(arity), |b, words| {
            exit::record(b, words[0], &pick(&words[1..], references));
            let slot = b.create_sized_stack_slot(StackSlotData::new(
                StackSlotKind::ExplicitSlot,
                8 * arity as u32,
                3,
            ));
            for (i, word) in words[1..].iter().enumerate() {
                b.ins().stack_store(types::I64, *word, slot, 8 * i as i32);
            }
            let address = b.ins().stack_addr(types::I64, slot, 0);
            let number = b.ins().iconst(types::I64, i64::from(number));
            let count = b.ins().iconst(types::I64, arity as i64);
            let native = b.ins().iconst(types::I64, native as i64);
            let signature = b.import_signature(lower::signature(3, self.isa.default_call_conv()));
            let call = b.ins().call_indirect(signature, native, &[words[0], number, address, count]);
            let results = b.inst_results(call).to_vec();
            b.ins().return_(&results);
        });
        entry.map(|(_, code)| code)
    }
}
