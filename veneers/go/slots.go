package veneer

// This file has the slots that are used again, so that recording allocates nothing.

// slotsAtOnce is the number of slots that are made together.
const slotsAtOnce = 64

// takeSlot returns a slot for a typed stub. Recording allocates nothing as long as stubs are
// released.
func (r *recorder) takeSlot() *slot {
	if r.isCrossing.Load() {
		return &slot{core: r, holders: 1}
	}
	if last := len(r.freeSlots) - 1; last >= 0 {
		s := r.freeSlots[last]
		r.freeSlots = r.freeSlots[:last]
		return s
	}
	if len(r.spareSlots) == 0 {
		r.spareSlots = make([]slot, slotsAtOnce)
	}
	s := &r.spareSlots[0]
	r.spareSlots = r.spareSlots[1:]
	s.core, s.holders, s.isPooled = r, 1, true
	return s
}

// recycle makes a slot free that has no holder, and that no batch has any more.
func (r *recorder) recycle(s *slot) {
	*s = slot{core: r, holders: 1, isPooled: true, use: s.use, held: s.held[:0]}
	r.freeSlots = append(r.freeSlots, s)
}

// leave forgets a slot at a position that has no holder.
func (s *slot) leave() {
	if s.isPooled && s.holders == 0 {
		s.core.recycle(s)
	}
}
