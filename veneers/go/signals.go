package veneer

// Unwrap returns the exception as an error of its generated class, for errors.As: *NotFound. It is
// nil without one.
func (f *Signal) Unwrap() error {
	if f.typed != nil || f.core == nil || f.core.session == nil {
		return f.typed
	}
	s := f.core.session
	class := s.core.numbers.stubs.signals[f.Name]
	if class == nil {
		return nil
	}
	r := newReader(s, f.Values)
	if typed := class(f, r); r.isWhole() {
		f.typed = typed
	} else {
		// Its values are others than the program's heading has: it stays without a class.
		f.core = nil
	}
	return f.typed
}
