package main

type shape interface {
	area() int64
	outline() int64
	grow(by int64)
}

type square struct{ side int64 }

func (s *square) area() int64    { return s.side * s.side }
func (s *square) outline() int64 { return 4 * s.side }
func (s *square) grow(by int64)  { s.side += by }

type oblong struct{ width, height int64 }

func (o *oblong) area() int64    { return o.width * o.height }
func (o *oblong) outline() int64 { return 2 * (o.width + o.height) }
func (o *oblong) grow(by int64) {
	o.width += by
	o.height += by
}

type triangle struct{ scale int64 }

func (t *triangle) area() int64    { return 6 * t.scale * t.scale }
func (t *triangle) outline() int64 { return 12 * t.scale }
func (t *triangle) grow(by int64)  { t.scale += by }

type circle struct{ radius int64 }

func (c *circle) area() int64    { return 355 * c.radius * c.radius / 113 }
func (c *circle) outline() int64 { return 710 * c.radius / 113 }
func (c *circle) grow(by int64)  { c.radius += by }

type frame struct{ outer, inner shape }

func (f *frame) area() int64    { return f.outer.area() - f.inner.area() }
func (f *frame) outline() int64 { return f.outer.outline() + f.inner.outline() }
func (f *frame) grow(by int64) {
	f.outer.grow(by)
	f.inner.grow(by)
}

func newShape(kind, size int64) shape {
	switch kind {
	case 0:
		return &square{size}
	case 1:
		return &oblong{size, size + 3}
	case 2:
		return &triangle{size}
	case 3:
		return &circle{size}
	}
	return &frame{newShape(1, size+2), newShape(0, size)}
}

func run(n int64) int64 {
	var shapes []shape
	seed := int64(1)
	for range 1000 {
		seed = seed * 16807 % 2147483647
		shapes = append(shapes, newShape(seed%5, seed%11+1))
	}
	sum := int64(0)
	for round := int64(1); round <= n; round++ {
		by := round%3 - 1
		for _, s := range shapes {
			s.grow(by)
			sum += s.area() + s.outline()
		}
	}
	return sum
}
