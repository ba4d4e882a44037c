package veneer

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Interface is the description of a server's types and routines, with their numbers by name.
type Interface struct {
	types    []typeEntry
	routines []headingEntry
	// owners has the type of each method, and firsts the first method of each type.
	owners         []int
	firsts         []int
	typeNumbers    map[string]uint32
	methodNumbers  map[methodName]uint32
	routineNumbers map[string]uint32
}

// methodName is a method by the number of its type and its name.
type methodName struct {
	typeNumber uint32
	name       string
}

// typeEntry is a type of an interface description.
type typeEntry struct {
	Name       string         `json:"name"`
	Kind       string         `json:"kind"`
	Element    *int           `json:"element"`
	Supertypes []int          `json:"supertypes"`
	Methods    []headingEntry `json:"methods"`
	Fields     []paramEntry   `json:"fields"`
	// Names are further names of the type.
	Names []string `json:"names"`
}

// headingEntry is a method or a routine of an interface description.
type headingEntry struct {
	Name    string       `json:"name"`
	Params  []paramEntry `json:"params"`
	Results []int        `json:"results"`
	// Yields is nil for a heading that is not an iterator's.
	Yields  []int         `json:"yields"`
	Signals []signalEntry `json:"signals"`
}

// paramEntry is a parameter of a heading.
type paramEntry struct {
	Name string `json:"name"`
	Type int    `json:"type"`
}

// signalEntry is a signal of a heading.
type signalEntry struct {
	Name   string `json:"name"`
	Values []int  `json:"values"`
}

// typeKinds are the kinds of types.
var typeKinds = []string{
	"null", "bool", "int", "real", "char", "string", "bytes", "any", "array", "sequence", "list",
	"cell", "vector", "map", "maybe", "record", "struct", "oneof", "object",
}

// ParseInterface reads an interface description.
func ParseInterface(text []byte) (*Interface, error) {
	var described struct {
		Types    *[]typeEntry    `json:"types"`
		Routines *[]headingEntry `json:"routines"`
	}
	if err := json.Unmarshal(text, &described); err != nil {
		return nil, fmt.Errorf("the interface description cannot be read: %w", err)
	}
	if described.Types == nil || described.Routines == nil {
		return nil, fmt.Errorf("the interface description has no types or no routines")
	}
	i := &Interface{
		types: *described.Types, routines: *described.Routines,
		typeNumbers: map[string]uint32{}, methodNumbers: map[methodName]uint32{},
		routineNumbers: map[string]uint32{},
	}
	if err := i.number(); err != nil {
		return nil, err
	}
	return i, nil
}

// number gives all parts their numbers, and checks the numbers of types in them.
func (i *Interface) number() error {
	for number := range i.types {
		entry := &i.types[number]
		if !slices.Contains(typeKinds, entry.Kind) {
			return fmt.Errorf("the interface description has the unknown kind %q", entry.Kind)
		}
		setFirst(i.typeNumbers, entry.Name, uint32(number))
		i.firsts = append(i.firsts, len(i.owners))
		for index := range entry.Methods {
			method := &entry.Methods[index]
			name := methodName{uint32(number), method.Name}
			setFirst(i.methodNumbers, name, uint32(len(i.owners)))
			i.owners = append(i.owners, number)
			if err := i.checkHeading(method); err != nil {
				return err
			}
		}
		if err := i.check(entry.Supertypes); err != nil {
			return err
		}
		for _, field := range entry.Fields {
			if err := i.check([]int{field.Type}); err != nil {
				return err
			}
		}
		if entry.Element != nil {
			if err := i.check([]int{*entry.Element}); err != nil {
				return err
			}
		}
	}
	for number := range i.types {
		for _, name := range i.types[number].Names {
			setFirst(i.typeNumbers, name, uint32(number))
		}
	}
	for number := range i.routines {
		setFirst(i.routineNumbers, i.routines[number].Name, uint32(number))
		if err := i.checkHeading(&i.routines[number]); err != nil {
			return err
		}
	}
	return i.checkSupertypes()
}

// setFirst sets the value of a key that has none.
func setFirst[K comparable](numbers map[K]uint32, key K, number uint32) {
	if _, isThere := numbers[key]; !isThere {
		numbers[key] = number
	}
}

func (i *Interface) checkHeading(heading *headingEntry) error {
	for _, param := range heading.Params {
		if err := i.check([]int{param.Type}); err != nil {
			return err
		}
	}
	for _, signal := range heading.Signals {
		if err := i.check(signal.Values); err != nil {
			return err
		}
	}
	if err := i.check(heading.Results); err != nil {
		return err
	}
	return i.check(heading.Yields)
}

func (i *Interface) check(numbers []int) error {
	for _, number := range numbers {
		if number < 0 || number >= len(i.types) {
			return fmt.Errorf(
				"the interface description names type %d, but has %d types", number, len(i.types))
		}
	}
	return nil
}

// checkSupertypes refuses a type that is its own supertype.
func (i *Interface) checkSupertypes() error {
	const (
		isNew = iota
		isOpen
		isDone
	)
	states := make([]byte, len(i.types))
	// The path to the type that is looked at: a description may nest deeper than a stack allows.
	type step struct{ number, next int }
	for first := range i.types {
		if states[first] == isDone {
			continue
		}
		path := []step{{first, 0}}
		states[first] = isOpen
		for len(path) > 0 {
			last := &path[len(path)-1]
			supertypes := i.types[last.number].Supertypes
			if last.next == len(supertypes) {
				states[last.number] = isDone
				path = path[:len(path)-1]
				continue
			}
			above := supertypes[last.next]
			last.next++
			switch states[above] {
			case isOpen:
				return fmt.Errorf(
					"the type %q of the interface description is its own supertype",
					i.types[above].Name)
			case isNew:
				states[above] = isOpen
				path = append(path, step{above, 0})
			}
		}
	}
	return nil
}

// typeName returns the name of a type; "?" if the number names none.
func (i *Interface) typeName(number int) string {
	if number < 0 || number >= len(i.types) {
		return "?"
	}
	return i.types[number].Name
}

// typeNames returns the names of types.
func (i *Interface) typeNames(numbers []int) []string {
	names := make([]string, len(numbers))
	for index, number := range numbers {
		names[index] = i.typeName(number)
	}
	return names
}

// method returns the method of a number; nil if there is none.
func (i *Interface) method(number uint32) *headingEntry {
	if int64(number) >= int64(len(i.owners)) {
		return nil
	}
	owner := i.owners[number]
	return &i.types[owner].Methods[int(number)-i.firsts[owner]]
}

// methodName returns the name of a method: "DataBase.fetch"; "?" if the number names none.
func (i *Interface) methodName(number uint32) string {
	method := i.method(number)
	if method == nil {
		return "?"
	}
	return i.typeName(i.owners[number]) + "." + method.Name
}

// findMethod returns the number of a method by its name and that of its type: "DataBase.fetch".
func (i *Interface) findMethod(name string) (uint32, bool) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return noNumber, false
	}
	owner, isThere := i.typeNumbers[name[:dot]]
	if !isThere {
		return noNumber, false
	}
	number, isThere := i.methodNumbers[methodName{owner, name[dot+1:]}]
	return number, isThere
}

// routineName returns the name of a routine; "?" if the number names none.
func (i *Interface) routineName(number uint32) string {
	if int64(number) >= int64(len(i.routines)) {
		return "?"
	}
	return i.routines[number].Name
}

// heading returns a heading as Theta writes it.
func (i *Interface) heading(h *headingEntry) string {
	list := func(numbers []int) string { return strings.Join(i.typeNames(numbers), ", ") }
	params := make([]string, len(h.Params))
	for index, param := range h.Params {
		params[index] = param.Name + ": " + i.typeName(param.Type)
	}
	text := fmt.Sprintf("%s (%s)", h.Name, strings.Join(params, ", "))
	if h.Yields != nil {
		text += fmt.Sprintf(" yields (%s)", list(h.Yields))
	} else if len(h.Results) > 0 {
		text += fmt.Sprintf(" returns (%s)", list(h.Results))
	}
	signals := make([]string, len(h.Signals))
	for index, signal := range h.Signals {
		signals[index] = signal.Name
		if len(signal.Values) > 0 {
			signals[index] += fmt.Sprintf(" (%s)", list(signal.Values))
		}
	}
	if len(signals) > 0 {
		text += fmt.Sprintf(" signals (%s)", strings.Join(signals, ", "))
	}
	return text
}

// findKind returns the number of the first type of a kind that has no element; noNumber if there
// is none.
func (i *Interface) findKind(kind string) uint32 {
	for number := range i.types {
		if i.types[number].Kind == kind && i.types[number].Element == nil {
			return uint32(number)
		}
	}
	return noNumber
}

// operators returns the numbers of the methods behind operators, in the order of operatorTable.
func (i *Interface) operators() []uint32 {
	numbers := make([]uint32, len(operatorTable))
	for index, row := range operatorTable {
		number, isThere := i.methodNumbers[methodName{i.findKind(row.kind), row.method}]
		if !isThere {
			number = noNumber
		}
		numbers[index] = number
	}
	return numbers
}

// sameHeading returns true if two headings of different interfaces have the same types of
// arguments and results, and both yield or neither.
func sameHeading(own *Interface, a *headingEntry, other *Interface, b *headingEntry) bool {
	parts := func(i *Interface, h *headingEntry) (params, futures []string) {
		for _, param := range h.Params {
			params = append(params, i.typeName(param.Type))
		}
		if h.Yields != nil {
			return params, i.typeNames(h.Yields)
		}
		return params, i.typeNames(h.Results)
	}
	ownParams, ownFutures := parts(own, a)
	otherParams, otherFutures := parts(other, b)
	return (a.Yields == nil) == (b.Yields == nil) && slices.Equal(ownParams, otherParams) &&
		slices.Equal(ownFutures, otherFutures)
}

// Stubs are the constants of the generated code of a program. Two sessions have the same stubs if
// they have the same pointer.
type Stubs struct {
	digest [32]byte
	// own is the interface that the stubs were made from; described is its description until it is
	// read.
	own       *Interface
	described []byte
	loading   sync.Once
	wrong     error
	// basic and operators are numbers of the interface, once they were looked for.
	basic     [len(basicNames)]typeNumbers
	operators []uint32
	// signals are the classes of exceptions by their names.
	signals map[string]func(*Signal, *Reader) error
}

// SignalClass is the class of an exception.
type SignalClass struct {
	name string
	make func(*Signal, *Reader) error
}

// Class returns the class of an exception, for generated code: its name in Theta, and the function
// that makes its error.
func Class(name string, make func(*Signal, *Reader) error) SignalClass {
	return SignalClass{name, make}
}

// Generated returns the stubs of generated code: the digest of their interface in hexadecimal
// digits, its description, which is read when the first session is opened, and the classes of its
// exceptions.
func Generated(digest string, described []byte, classes ...SignalClass) *Stubs {
	s := &Stubs{described: described, signals: map[string]func(*Signal, *Reader) error{}}
	for _, class := range classes {
		s.signals[class.name] = class.make
	}
	if count, err := hex.Decode(s.digest[:], []byte(digest)); err != nil || count != len(s.digest) {
		s.wrong = fmt.Errorf("%q is no digest of an interface", digest)
	}
	return s
}

// load reads the description of the interface.
func (s *Stubs) load() error {
	s.loading.Do(func() {
		if s.own == nil && s.wrong == nil {
			s.own, s.wrong = ParseInterface(s.described)
		}
		if s.wrong == nil {
			s.count()
		}
	})
	return s.wrong
}

// NewStubs returns stubs for an interface and its digest. With a digest of zeros a session asks
// for the interface of its server.
func NewStubs(digest [32]byte, own *Interface) *Stubs {
	if own == nil {
		own = &Interface{}
	}
	return &Stubs{digest: digest, own: own}
}

// numbers are the stubs' numbers as the server has them. Equal interfaces map nothing.
type numbers struct {
	stubs  *Stubs
	isSame bool
	// server is the server's interface, if it is another one.
	server   *Interface
	types    []uint32
	methods  []uint32
	routines []uint32
}

// sameNumbers returns the numbers for a server with the interface of the stubs.
func sameNumbers(stubs *Stubs) *numbers {
	return &numbers{stubs: stubs, isSame: true}
}

// mapNumbers returns the numbers for a server with another interface.
func mapNumbers(stubs *Stubs, server *Interface) *numbers {
	n := &numbers{stubs: stubs, server: server}
	own := stubs.own
	for index := range own.types {
		entry := &own.types[index]
		theirs, isThere := server.typeNumbers[entry.Name]
		if !isThere {
			theirs = noNumber
		}
		n.types = append(n.types, theirs)
		for m := range entry.Methods {
			method := &entry.Methods[m]
			found, isThere := server.methodNumbers[methodName{theirs, method.Name}]
			if !isThere || !sameHeading(own, method, server, server.method(found)) {
				found = noNumber
			}
			n.methods = append(n.methods, found)
		}
	}
	for index := range own.routines {
		routine := &own.routines[index]
		found, isThere := server.routineNumbers[routine.Name]
		if !isThere || !sameHeading(own, routine, server, &server.routines[found]) {
			found = noNumber
		}
		n.routines = append(n.routines, found)
	}
	return n
}

// find returns the server's number, and true if the server has the part.
func (n *numbers) find(mapped []uint32, number uint32) (uint32, bool) {
	if !n.isSame {
		if int64(number) >= int64(len(mapped)) {
			return noNumber, false
		}
		number = mapped[number]
	}
	return number, number != noNumber
}

func (n *numbers) method(number uint32) (uint32, bool)     { return n.find(n.methods, number) }
func (n *numbers) routine(number uint32) (uint32, bool)    { return n.find(n.routines, number) }
func (n *numbers) typeNumber(number uint32) (uint32, bool) { return n.find(n.types, number) }
