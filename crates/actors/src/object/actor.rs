//! References to actors.

use bifrost_heap::HeapFull;
use bifrost_ir::{MethodId, MethodRef, TypeId};
use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_class::{ActorClass, State};
use bifrost_runtime::actor_layout::far;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::{ClassInfo, Table};
use bifrost_runtime::transfer::Address;

use crate::object::Mail;

reference! {
    /// An actor of this node, or the object that stands for an actor of another node.
    Actor
}

impl Actor {
    /// Returns the table of its state.
    #[inline(always)]
    pub fn table(self) -> &'static Table {
        // SAFETY: `new` was promised an object.
        unsafe { Table::of(self.word()) }
    }

    /// Returns the facts of its class.
    #[inline(always)]
    pub fn info(self) -> &'static ClassInfo {
        self.table().info()
    }

    /// Returns the facts of its class that only classes of actors have.
    #[inline(always)]
    pub fn class(self) -> &'static ActorClass {
        self.info().actor().expect("actors have a class of actors")
    }

    /// Returns its type.
    #[inline(always)]
    pub fn ty(self) -> TypeId {
        self.info().ty
    }

    /// Returns its state.
    #[inline(always)]
    pub fn state(self) -> State {
        self.table().state()
    }

    /// Changes its state.
    #[inline(always)]
    pub(crate) fn set_state(self, state: State) {
        self.enter_state(self.class(), state);
    }

    /// Changes its state; the class is its own.
    #[inline(always)]
    pub(crate) fn enter_state(self, class: &ActorClass, state: State) {
        // SAFETY: `new` was promised an actor, whose first word is one of its class's tables.
        unsafe { *(self.word() as *mut Word) = std::ptr::from_ref(class.table(state)) as Word };
    }

    /// Returns the method of its class at a slot.
    #[inline]
    pub fn method(self, slot: u32) -> MethodId {
        self.info().methods[slot as usize].expect("the actor has the method")
    }

    /// Returns the same, with its type.
    #[inline]
    pub fn method_ref(self, slot: u32) -> MethodRef {
        MethodRef { ty: self.ty(), method: self.method(slot) }
    }

    /// Makes an actor of a class, with its table, on this node.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make(cx: &mut Cx, table: &'static Table, class: &ActorClass) -> Result<Actor, HeapFull> {
        let object = cx.alloc(table, class.mail + 1)?;
        // SAFETY: the object is a new actor.
        Ok(unsafe { Actor::new(object.as_ptr() as Word) })
    }

    /// Makes the object that stands for an actor of another node.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make_far(cx: &mut Cx, class: &ActorClass, address: Address) -> Result<Actor, HeapFull> {
        let object = cx.alloc(class.table(State::Remote), far::FIELDS)?;
        // SAFETY: the object is such a new one.
        let made = unsafe { Actor::new(object.as_ptr() as Word) };
        made.set(far::PLACE, place_of(address));
        made.set(far::GENERATION, u64::from(address.generation));
        Ok(made)
    }

    /// Returns its mail, if messages are queued or a method waits. It is an actor of this node.
    #[inline(always)]
    pub fn mail(self) -> Option<Mail> {
        self.mail_in(self.class())
    }

    /// Returns the number of messages that wait in its mail. It is an actor of this node.
    pub(crate) fn queued(self) -> u64 {
        self.mail().map_or(0, |post| post.count())
    }

    /// Returns the mail, if there is one; the class is the actor's own.
    #[inline(always)]
    pub(crate) fn mail_in(self, class: &ActorClass) -> Option<Mail> {
        // SAFETY: the field has the actor's mail or 0, which lives as long as the actor has it.
        unsafe { Mail::of(self.get(class.mail)) }
    }

    /// Changes its mail; the class is its own.
    #[inline(always)]
    pub(crate) fn set_mail(self, class: &ActorClass, to: Option<Mail>) {
        self.set(class.mail, word_of!(to));
    }

    /// True if it is on another node.
    #[inline(always)]
    pub(crate) fn is_far(self) -> bool {
        self.state() == State::Remote
    }

    /// True if the mailbox of an actor of another node is nearly full.
    #[inline(always)]
    pub(crate) fn is_full(self) -> bool {
        self.get(far::PLACE) & far::FULL != 0
    }

    /// Changes that.
    pub(crate) fn set_full(self, is_full: bool) {
        let place = self.get(far::PLACE) & !far::FULL;
        self.set(far::PLACE, if is_full { place | far::FULL } else { place });
    }

    /// Returns the address of an actor of another node.
    #[inline(always)]
    pub(crate) fn address(self) -> Address {
        far_address(self.get(far::PLACE), self.get(far::GENERATION))
    }
}

/// Returns an address from the fields of an object that stands for another node's.
#[inline(always)]
pub(super) fn far_address(place: Word, generation: Word) -> Address {
    let place = place & !far::FULL;
    Address { capsule: 0, node: (place >> 32) as u32, index: place as u32, generation: generation as u32 }
}

pub(super) fn place_of(address: Address) -> Word {
    u64::from(address.node) << 32 | u64::from(address.index)
}
